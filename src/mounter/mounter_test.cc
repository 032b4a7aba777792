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
    options.look = look_;
    options.replaced = [this](const std::vector<std::string>& users, const Result<void>& mounted) {
      const MutexLock lock(mutex_);
      for (const std::string& user : users) told_.push_back(user + (mounted ? "" : " failed"));
    };
    options.is_mounted = [](const std::string& path) {
      return std::filesystem::exists(path + "/mounted");
    };
    mounter_.reset();
    auto mounter = Mounter::Create(std::move(options), log_);
    ASSERT_OK(mounter);
    mounter_ = *std::move(mounter);
  }
  bool Mounted() { return std::filesystem::exists(dir_->path() + "/mounts/a/fs/mounted"); }
  std::vector<std::string> Told() {
    const MutexLock lock(mutex_);
    return told_;
  }
  std::string Said() { return ReadFile(dir_->path() + "/mounts/said").value_or(""); }
  std::optional<ProcessIdentity> Process() {
    return ReadProcess(dir_->path() + "/mounts/a/process");
  }

  std::chrono::milliseconds look_{20};
  const Context ctx_ = Context::Background();
  const MountRequest request_{
      .id = "a", .meta_url = "redis://:pw@host/1", .read_only = true, .options = "cache-size=1"};
  Result<TempDir> dir_ = TempDir::Create();
  Logger log_{LogLevel::kOff};
  Mutex mutex_;
  std::vector<std::string> told_ GUARDED_BY(mutex_);
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
  ASSERT_OK(mounter_->Mount(ctx_, request_, "pod-2"));
  const pid_t pid = Process()->pid;
  ::kill(pid, SIGKILL);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end && Told().size() < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(Told(), (std::vector<std::string>{"pod-1", "pod-2"}));
  ASSERT_TRUE(Process());
  EXPECT_NE(Process()->pid, pid);
  EXPECT_TRUE(Process()->Alive());
}

TEST_F(MounterTest, TheNextUserStartsItAgainForAll) {
  look_ = std::chrono::hours(1);
  Open();
  ASSERT_OK(mounter_->Mount(ctx_, request_, "pod-1"));
  const ProcessIdentity process = *Process();
  ::kill(process.pid, SIGKILL);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end && process.Alive())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_OK(mounter_->Mount(ctx_, request_, "pod-2"));
  EXPECT_NE(Process()->pid, process.pid);
  EXPECT_EQ(Told(), std::vector<std::string>{"pod-1"});
}

}  // namespace
}  // namespace paddleop::mounter
