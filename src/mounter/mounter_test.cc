#include "mounter/mounter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "base/testing/matchers.h"

namespace paddleop::mounter {
namespace {

// A program that pretends: "mounted" is a file in the directory, and what it was told is written
// down.
constexpr char kProgram[] = R"(#!/bin/sh
test "$2" = bad://x && { echo "no such volume"; exit 1; }
echo "$@ [$META_PASSWORD]" >> "$(dirname "$3")/../said"
trap 'rm -f "$3/mounted"; exit 0' TERM
touch "$3/mounted"
while :; do sleep 0.05; done
)";

class MounterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(WriteFileAtomic(dir_->File("program"), kProgram, 0755));
    ::chmod(dir_->File("program").c_str(), 0755);
    Open();
  }
  void TearDown() override { mounter_->Shutdown(); }
  void Open() {
    MounterOptions options;
    options.program = dir_->File("program");
    options.directory = dir_->path() + "/mounts";
    options.look = std::chrono::milliseconds(20);
    options.is_mounted = [](const std::string& path) {
      return std::filesystem::exists(path + "/mounted");
    };
    mounter_.reset();
    auto mounter = Mounter::Create(std::move(options), log_);
    ASSERT_OK(mounter);
    mounter_ = *std::move(mounter);
  }
  bool Mounted() { return std::filesystem::exists(dir_->path() + "/mounts/a/fs/mounted"); }
  std::string Said() { return ReadFile(dir_->path() + "/mounts/said").value_or(""); }
  std::optional<ProcessIdentity> Process() {
    return ReadProcess(dir_->path() + "/mounts/a/process");
  }

  const Context ctx_ = Context::Background();
  const MountRequest request_{
      .id = "a", .meta_url = "redis://:pw@host/1", .read_only = true, .options = "cache-size=1"};
  Result<TempDir> dir_ = TempDir::Create();
  Logger log_{LogLevel::kOff};
  std::unique_ptr<Mounter> mounter_;
};

TEST_F(MounterTest, OneProcessForAllUsers) {
  const auto first = mounter_->Mount(ctx_, request_, "pod-1");
  ASSERT_OK(first);
  EXPECT_EQ(*first, dir_->path() + "/mounts/a/fs");
  ASSERT_OK(mounter_->Mount(ctx_, request_, "pod-2"));
  EXPECT_EQ(Said(), "mount redis://host/1 " + *first + " --read-only -o cache-size=1 [pw]\n");
  mounter_->Release(ctx_, "pod-1");
  EXPECT_TRUE(Mounted());
  mounter_->Release(ctx_, "pod-2");
  EXPECT_FALSE(Mounted());
  EXPECT_FALSE(std::filesystem::exists(dir_->path() + "/mounts/a"));
}

TEST_F(MounterTest, AFailureSaysWhatTheProcessSaid) {
  const auto failed = mounter_->Mount(ctx_, {.id = "a", .meta_url = "bad://x"}, "pod-1");
  ASSERT_CODE(failed, Code::kUnavailable);
  EXPECT_NE(failed.error().message().find("no such volume"), std::string::npos);
  EXPECT_CODE(mounter_->Mount(ctx_, {.id = "../a", .meta_url = "x"}, "u"), Code::kInvalid);
}

TEST_F(MounterTest, TheNextOneTakesUpWhatRuns) {
  ASSERT_OK(mounter_->Mount(ctx_, request_, "pod-1"));
  const pid_t pid = Process()->pid;
  Open();
  ASSERT_OK(mounter_->Mount(ctx_, request_, "pod-2"));
  EXPECT_EQ(Process()->pid, pid);
  mounter_->Release(ctx_, "pod-2");
  EXPECT_TRUE(Mounted()) << "pod-1 still uses it";
  mounter_->Release(ctx_, "pod-1");
  EXPECT_FALSE(Mounted());
}

TEST_F(MounterTest, AProcessThatEndsIsStartedAgain) {
  ASSERT_OK(mounter_->Mount(ctx_, request_, "pod-1"));
  const pid_t pid = Process()->pid;
  ::kill(pid, SIGKILL);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    const auto now = Process();
    if (now && now->pid != pid && now->Alive()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(Process());
  EXPECT_NE(Process()->pid, pid);
}

}  // namespace
}  // namespace paddleop::mounter
