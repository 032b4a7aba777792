// A store that does not answer, under mounts of both modes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <optional>
#include <utility>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

using namespace std::chrono_literals;

// A volume on MinIO, so that the store can hang.
class HungStore : public ::testing::Test {
 protected:
  void SetUp() override {
    auto minio = Peer::Start("minio", {"--bucket", "data"});
    ASSERT_OK(minio);
    minio_.emplace(std::move(*minio));
    auto volume = VolumeWithFiles(Engine::kSqlite, OnMinio(*minio_, "data"));
    ASSERT_OK(volume);
    volume_ = std::move(*volume);
  }

  std::optional<Peer> minio_;
  std::unique_ptr<TestVolume> volume_;
};

TEST_F(HungStore, ReadersPauseAndGoOn) {
  for (const char* mode : {"--read-only", "--no-bgjob"}) {
    SCOPED_TRACE(mode);
    auto mount = TestMount::Make(*volume_, {mode, "--cache-dir", volume_->dir() + "/c" + mode});
    ASSERT_OK(mount);
    ASSERT_OK(minio_->Command("pause minio"));
    auto reading = std::async(std::launch::async, [&] { return WrongFiles(**mount); });
    EXPECT_EQ(reading.wait_for(3s), std::future_status::timeout);
    ASSERT_OK(minio_->Command("resume minio"));
    ASSERT_EQ(reading.wait_for(60s), std::future_status::ready);
    EXPECT_EQ(reading.get(), 0);
    ASSERT_OK((*mount)->Unmount());
  }
}

TEST_F(HungStore, ALongOutageIsAnErrorThatHeals) {
  for (const char* mode : {"--read-only", "--no-bgjob"}) {
    SCOPED_TRACE(mode);
    auto mount = TestMount::Make(
        *volume_, {mode, "--io-timeout", "3s", "--cache-dir", volume_->dir() + "/d" + mode});
    ASSERT_OK(mount);
    ASSERT_OK(minio_->Command("pause minio"));
    {
      const UniqueFd file(::open((*mount)->File("f1").c_str(), O_RDONLY));
      char byte = 0;
      EXPECT_EQ(::pread(file.get(), &byte, 1, 0), -1);
      EXPECT_EQ(errno, EIO);
    }
    ASSERT_OK(minio_->Command("resume minio"));
    EXPECT_TRUE(WaitFor([&] { return WrongFiles(**mount) == 0; }, 60s));
    ASSERT_OK((*mount)->Unmount());
  }
}

std::vector<UniqueFd> CreateFiles(const TestMount& mount, int count) {
  std::vector<UniqueFd> files;
  for (int i = 0; i < count; ++i) {
    files.emplace_back(::open(mount.File(fmt::format("w{}", i)).c_str(), O_WRONLY | O_CREAT, 0644));
    EXPECT_TRUE(files.back().valid()) << i;
  }
  return files;
}

class ManyWriters : public HungStore, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Threads, ManyWriters, ::testing::Values("0", "8", "1"));

TEST_P(ManyWriters, LeaveRoomForNames) {
  auto mount = TestMount::Make(
      *volume_, {"--buffer-size", "32", "--max-uploads", "2", "--threads", GetParam()});
  ASSERT_OK(mount);
  constexpr int kWriters = 80;
  std::vector<UniqueFd> files = CreateFiles(**mount, kWriters);
  ASSERT_OK(minio_->Command("pause minio"));
  const std::string piece = Pattern(1 << 20, 5);
  std::atomic<int> written{0};
  std::vector<std::future<bool>> writers;
  for (const UniqueFd& file : files) {
    writers.push_back(std::async(std::launch::async, [&] {
      for (int i = 0; i < 2; ++i) {
        if (!WriteAll(file.get(), piece)) return false;
        ++written;
      }
      return true;
    }));
  }
  // Until the buffers are full and nobody gets further.
  int before = -1;
  EXPECT_TRUE(WaitFor(
      [&] {
        SleepBriefly(500ms);
        return std::exchange(before, written.load()) == written;
      },
      20s));
  EXPECT_LT(written, 2 * kWriters) << "nobody had to wait";
  auto making = std::async(std::launch::async, [path = (*mount)->File("d")] {
    return ::mkdir(path.c_str(), 0755) == 0 ? 0 : errno;
  });
  EXPECT_EQ(making.wait_for(10s), std::future_status::ready);
  ASSERT_OK(minio_->Command("resume minio"));
  EXPECT_EQ(making.get(), 0);
  for (auto& writer : writers) EXPECT_TRUE(writer.get());
  files.clear();
  EXPECT_EQ(*ReadWhole((*mount)->File("w79")), piece + piece);
}

// The time of a request begins when it comes, not when it is its turn.
TEST_F(HungStore, NobodyWaitsForTheTimeoutsOfOthers) {
  constexpr auto kTimeout = 4s;
  auto mount = TestMount::Make(*volume_, {"--buffer-size", "32", "--max-uploads", "2", "--threads",
                                          "16", "--io-timeout", "4s"});
  ASSERT_OK(mount);
  std::vector<UniqueFd> files = CreateFiles(**mount, 200);
  ASSERT_OK(minio_->Command("pause minio"));
  const std::string piece = Pattern(1 << 20, 5);
  std::vector<std::future<std::chrono::nanoseconds>> writers;
  for (const UniqueFd& file : files) {
    writers.push_back(std::async(std::launch::async, [&] {
      std::chrono::nanoseconds longest{0};
      for (bool written = true; written;) {
        const auto begin = std::chrono::steady_clock::now();
        written = ::write(file.get(), piece.data(), piece.size()) > 0;
        longest =
            std::max<std::chrono::nanoseconds>(longest, std::chrono::steady_clock::now() - begin);
      }
      return longest;
    }));
  }
  std::chrono::nanoseconds longest{0};
  for (auto& writer : writers) longest = std::max(longest, writer.get());
  EXPECT_LT(longest / 1ms, 3 * kTimeout / 1ms);
  ASSERT_OK(minio_->Command("resume minio"));
}

// As when a machine goes down: both come at once.
TEST_F(HungStore, TerminationAndHangupTogetherCommitWhatWasWritten) {
  int round = 0;
  for (const auto& [first, second] : {std::pair(SIGTERM, SIGHUP), std::pair(SIGHUP, SIGTERM)}) {
    SCOPED_TRACE(first);
    const std::string name = fmt::format("both{}", ++round);
    auto mount = TestMount::Make(*volume_);
    ASSERT_OK(mount);
    const UniqueFd file(::open((*mount)->File(name).c_str(), O_WRONLY | O_CREAT, 0644));
    ASSERT_OK(minio_->Command("pause minio"));
    ASSERT_EQ(::write(file.get(), "data", 4), 4);
    ASSERT_EQ(::kill((*mount)->pid(), first), 0);
    // Until the first has been taken: signals of one number that wait become one.
    EXPECT_TRUE(WaitFor([&] { return !IsMounted((*mount)->path()); }));
    // Within a second it would count as the same one.
    SleepBriefly(1100ms);
    EXPECT_EQ(::kill((*mount)->pid(), second), 0);
    // Time in which the second would have ended it, too.
    EXPECT_FALSE(Ended((*mount)->pid(), 500ms));
    ASSERT_OK(minio_->Command("resume minio"));
    ASSERT_TRUE(Ended((*mount)->pid())) << (*mount)->Log();
    auto content = volume_->Run("cat", {"/" + name});
    ASSERT_OK(content);
    EXPECT_EQ(*content, "data");
  }
}

TEST_F(HungStore, ASecondTerminationEndsAtOnce) {
  for (const int second : {SIGTERM, SIGINT}) {
    auto mount = TestMount::Make(*volume_, {"--exit-timeout", "5m"});
    ASSERT_OK(mount);
    const UniqueFd file(::open((*mount)->File("lost").c_str(), O_WRONLY | O_CREAT, 0644));
    ASSERT_OK(minio_->Command("pause minio"));
    ASSERT_EQ(::write(file.get(), "data", 4), 4);
    ASSERT_EQ(::kill((*mount)->pid(), SIGTERM), 0);
    EXPECT_TRUE(WaitFor([&] { return !IsMounted((*mount)->path()); }));
    // Of two within a second one may be a copy of the other.
    EXPECT_TRUE(WaitFor(
        [&] {
          ::kill((*mount)->pid(), second);
          return ::kill((*mount)->pid(), 0) != 0;
        },
        10s, 100ms));
    ASSERT_OK(minio_->Command("resume minio"));
  }
}

// As of a shell that runs it in the background.
TEST_F(HungStore, ASecondInterruptEndsAlsoWhoBeganWithItIgnored) {
  const std::string path = volume_->dir() + "/ignoring";
  ASSERT_OK(MakeDirectories(path));
  const std::string program = BinDir() + "/samplefs";
  const pid_t process = ::fork();
  if (process == 0) {
    ::signal(SIGINT, SIG_IGN);
    ::execl(program.c_str(), program.c_str(), "mount", volume_->url().c_str(), path.c_str(),
            "--exit-timeout", "5m", "--cache-dir", volume_->cache().c_str(), "--free-space-ratio",
            "0.01", nullptr);
    ::_exit(127);
  }
  int status = -1;
  const auto ended = [&] { return ::waitpid(process, &status, WNOHANG) != 0; };
  EXPECT_TRUE(WaitFor([&] { return IsMounted(path) || ended(); }));
  ASSERT_EQ(status, -1) << "it has ended";
  {
    const UniqueFd file(::open((path + "/lost").c_str(), O_WRONLY | O_CREAT, 0644));
    EXPECT_OK(minio_->Command("pause minio"));
    EXPECT_EQ(::write(file.get(), "data", 4), 4);
    ::kill(process, SIGINT);
    EXPECT_TRUE(WaitFor([&] { return !IsMounted(path); }));
    EXPECT_EQ(status, -1) << "it has ended";
    ::kill(process, SIGINT);
    if (!WaitFor(ended, 20s)) {
      ADD_FAILURE() << "it goes on";
      ::kill(process, SIGKILL);
      ::waitpid(process, &status, 0);
    }
  }
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  ASSERT_OK(minio_->Command("resume minio"));
  ::umount2(path.c_str(), MNT_DETACH);
}

// The kernel has taken it over when it was written.
TEST_F(HungStore, WhatWasLostIsNotReadAnyMore) {
  auto mount = TestMount::Make(*volume_, {"--io-timeout", "3s"});
  ASSERT_OK(mount);
  ASSERT_EQ(WrongFiles(**mount), 0);
  UniqueFd file(::open((*mount)->File("f1").c_str(), O_RDWR));
  ASSERT_OK(minio_->Command("pause minio"));
  EXPECT_EQ(::pwrite(file.get(), "lost", 4, 100), 4);
  EXPECT_EQ(::close(file.Release()), -1);
  EXPECT_EQ(errno, EIO);
  // The end of the last handle tries once more.
  EXPECT_TRUE(WaitFor(
      [&] { return (*mount)->Log().find("closing a file failed") != std::string::npos; }, 60s));
  ASSERT_OK(minio_->Command("resume minio"));
  EXPECT_TRUE(WaitFor([&] { return WrongFiles(**mount) == 0; }));
}

TEST_F(HungStore, ReadersCanBeKilledAndTheMountTakenAway) {
  for (const char* mode : {"--read-only", "--no-bgjob"}) {
    SCOPED_TRACE(mode);
    auto mount = TestMount::Make(*volume_, {mode, "--cache-dir", volume_->dir() + "/e" + mode});
    ASSERT_OK(mount);
    ASSERT_OK(minio_->Command("pause minio"));
    const pid_t reader = ::fork();
    if (reader == 0) {
      char byte = 0;
      const int file = ::open((*mount)->File("f1").c_str(), O_RDONLY);
      ::_exit(::pread(file, &byte, 1, 0) == 1 ? 0 : 1);
    }
    SleepBriefly(500ms);
    ::kill(reader, SIGKILL);
    int status = 0;
    EXPECT_TRUE(WaitFor([&] { return ::waitpid(reader, &status, WNOHANG) == reader; }, 20s));
    EXPECT_OK((*mount)->Unmount({"--force"}));
    ASSERT_OK(minio_->Command("resume minio"));
  }
}

// What was written cannot be stored, and the volume waits for the store while it is taken down.
TEST_F(HungStore, AProcessThatIsToldToEndEnds) {
  auto mount = TestMount::Make(*volume_, {"--exit-timeout", "4s"});
  ASSERT_OK(mount);
  const UniqueFd file(::open((*mount)->File("dirty").c_str(), O_WRONLY | O_CREAT, 0644));
  ASSERT_OK(minio_->Command("pause minio"));
  ASSERT_EQ(::write(file.get(), "data", 4), 4);
  ASSERT_EQ(::kill((*mount)->pid(), SIGTERM), 0);
  EXPECT_TRUE(WaitFor([&] { return ::kill((*mount)->pid(), 0) != 0; }, 10s));
  EXPECT_NE((*mount)->Log().find("did not end in time"), std::string::npos) << (*mount)->Log();
  ASSERT_OK(minio_->Command("resume minio"));
}

}  // namespace
}  // namespace paddleop::testing
