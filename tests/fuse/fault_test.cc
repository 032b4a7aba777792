// What goes wrong around a mount: servers that pause, damaged and full caches, processes that die.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::vector<std::string> FilesBelow(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && entry.path().string().find("/raw/") != std::string::npos)
      files.push_back(entry.path().string());
  }
  return files;
}

TEST(Faults, DamagedCacheFilesAreMisses) {
  auto made = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(made);
  const auto volume = std::move(*made);
  for (const char* mode : {"--read-only", "--no-bgjob"}) {
    SCOPED_TRACE(mode);
    auto mount = TestMount::Make(*volume, {mode}, std::string("filled") + mode);
    ASSERT_OK(mount);
    EXPECT_EQ(WrongFiles(**mount), 0);
    ASSERT_OK((*mount)->Unmount());
    const auto files = FilesBelow(volume->cache());
    ASSERT_GE(files.size(), 3u);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (i % 3 == 0) {
        fs::resize_file(files[i], fs::file_size(files[i]) / 2);
      } else if (i % 3 == 1) {
        const UniqueFd file(::open(files[i].c_str(), O_WRONLY));
        ASSERT_EQ(::pwrite(file.get(), "damaged", 7, 100'000), 7);
      }
    }
    mount = TestMount::Make(*volume, {mode}, std::string("damaged") + mode);
    ASSERT_OK(mount);
    EXPECT_EQ(WrongFiles(**mount), 0);
    const std::string log = (*mount)->Log();
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (i % 3 == 2) continue;
      EXPECT_NE(log.find(files[i]), std::string::npos) << files[i] << ": " << log;
    }
    EXPECT_GE((*mount)->Status()->at("cache").at("corrupt").get<std::size_t>(), files.size() / 2);
    ASSERT_OK((*mount)->Unmount());
  }
}

TEST(Faults, AFullCacheDiskOnlyCostsHits) {
  auto made = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(made);
  const auto volume = std::move(*made);
  const std::string disk = volume->dir() + "/small-disk";
  ASSERT_OK(MakeDirectories(disk));
  ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m"), 0);
  {
    auto mount = TestMount::Make(*volume, {"--read-only", "--cache-dir", disk});
    ASSERT_OK(mount);
    EXPECT_EQ(WrongFiles(**mount), 0);
    EXPECT_OK((*mount)->Unmount());
    auto writer = TestMount::Make(*volume, {"--cache-dir", disk});
    ASSERT_OK(writer);
    EXPECT_OK(WriteWhole((*writer)->File("new"), Pattern(3'000'000, 99)));
    EXPECT_EQ(*ReadWhole((*writer)->File("new")), Pattern(3'000'000, 99));
    EXPECT_OK((*writer)->Unmount());
  }
  ::umount2(disk.c_str(), MNT_DETACH);
}

TEST(Faults, AKilledProcessLeavesAMountThatCanBeTakenAway) {
  auto made = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(made);
  const auto volume = std::move(*made);
  auto mount = TestMount::Make(*volume);
  ASSERT_OK(mount);
  struct stat root = {};
  ASSERT_EQ(::stat((*mount)->path().c_str(), &root), 0);
  const std::string socket = fmt::format("/run/samplefs/{}.sock", minor(root.st_dev));
  ASSERT_EQ(::access(socket.c_str(), F_OK), 0);
  ASSERT_EQ(::kill((*mount)->pid(), SIGKILL), 0);
  ASSERT_TRUE(WaitFor([&] { return ::kill((*mount)->pid(), 0) != 0; }));
  struct stat status = {};
  EXPECT_EQ(::stat((*mount)->File("f0").c_str(), &status), -1);
  EXPECT_EQ(errno, ENOTCONN);
  auto again = TestMount::Make(*volume);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message().find("busy"), std::string::npos) << again.error().message();
  EXPECT_OK((*mount)->Unmount());
  EXPECT_EQ(::access(socket.c_str(), F_OK), -1) << socket << " is left";
  mount = TestMount::Make(*volume);
  ASSERT_OK(mount);
  EXPECT_EQ(WrongFiles(**mount), 0);
}

// As when the terminal of a mount in the foreground is closed.
TEST(Faults, AHangupCommitsWhatWasWritten) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  const UniqueFd file(::open((*mount)->File("f").c_str(), O_WRONLY | O_CREAT, 0644));
  ASSERT_EQ(::write(file.get(), "data", 4), 4);
  for (int i = 0; i < 3; ++i) ::kill((*mount)->pid(), SIGHUP);  // the shell's, the kernel's
  ASSERT_TRUE(WaitFor([&] { return ::kill((*mount)->pid(), 0) != 0; }, std::chrono::seconds(60)));
  auto content = (*volume)->Run("cat", {"/f"});
  ASSERT_OK(content);
  EXPECT_EQ(*content, "data");
}

// A mount in the foreground whose log is read by a program that ends first.
TEST(Faults, WhoReadsTheLogMayGo) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string path = (*volume)->dir() + "/m";
  ASSERT_OK(MakeDirectories(path));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd from(ends[0]);
  const UniqueFd to(ends[1]);
  from.Reset();
  const std::string program = BinDir() + "/samplefs";
  const pid_t process = ::fork();
  if (process == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(to.get(), 2);
    ::execl(program.c_str(), program.c_str(), "mount", (*volume)->url().c_str(), path.c_str(),
            "--log-level", "info", "--cache-dir", (*volume)->cache().c_str(), nullptr);
    ::_exit(127);
  }
  int status = -1;
  const auto ended = [&] { return ::waitpid(process, &status, WNOHANG) != 0; };
  EXPECT_TRUE(WaitFor([&] { return IsMounted(path) || ended(); })) << "it logs that it is mounted";
  EXPECT_EQ(status, -1) << "it has ended";
  EXPECT_OK(WriteWhole(path + "/f", "data"));
  ::kill(process, SIGTERM);
  if (status == -1 && !WaitFor(ended, 60s)) ::kill(process, SIGKILL);
  EXPECT_EQ(status, 0);
  ::umount2(path.c_str(), MNT_DETACH);
  EXPECT_EQ((*volume)->Run("cat", {"/f"}).value_or(""), "data");
}

// What programs have written and the kernel has not passed on yet, while they go on.
TEST(Faults, TerminationCommitsWhatTheKernelHolds) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  for (const int signal : {SIGTERM, SIGHUP}) {
    auto mount = TestMount::Make(**volume, {"-o", "writeback_cache"});
    ASSERT_OK(mount);
    const std::string content = Pattern(24 << 20, static_cast<unsigned>(signal));
    const UniqueFd file(::open((*mount)->File("gathered").c_str(), O_WRONLY | O_CREAT, 0644));
    ASSERT_OK(WriteAll(file.get(), content));
    ASSERT_EQ(::kill((*mount)->pid(), signal), 0);
    ASSERT_TRUE(Ended((*mount)->pid())) << (*mount)->Log();
    auto seen = (*volume)->Run("cat", {"/gathered"});
    ASSERT_OK(seen);
    EXPECT_TRUE(*seen == content) << seen->size();
  }
}

TEST(Faults, TerminationCommitsWhatWasStoredInMappings) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  // Every other page, so that each is a request: more than the kernel has under way at a time.
  constexpr std::size_t kPage = 4096, kPages = 400;
  std::string content = Pattern(kPages * kPage, 7);
  for (std::size_t i = 0; i < kPages; i += 2) content.replace(i * kPage, kPage, kPage, '\0');
  void* map = MAP_FAILED;
  {
    const UniqueFd file(::open((*mount)->File("mapped").c_str(), O_RDWR | O_CREAT, 0644));
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(content.size())), 0);
    map = ::mmap(nullptr, content.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  ASSERT_NE(map, MAP_FAILED);
  for (std::size_t at = kPage; at < content.size(); at += 2 * kPage)
    std::memcpy(static_cast<char*>(map) + at, content.data() + at, kPage);
  ASSERT_EQ(::kill((*mount)->pid(), SIGTERM), 0);
  EXPECT_TRUE(Ended((*mount)->pid())) << (*mount)->Log();
  ::munmap(map, content.size());
  auto seen = (*volume)->Run("cat", {"/mapped"});
  ASSERT_OK(seen);
  EXPECT_TRUE(*seen == content);
}

// From a container that shares the mount but not the processes, the mount process has no number.
TEST(Faults, UnmountingFromAnotherProcessNamespaceKillsNobody) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  auto done = RunProcess({"setsid", "--wait", "unshare", "--pid", "--fork", BinDir() + "/samplefs",
                          "umount", "--force", (*mount)->path()});
  ASSERT_OK(done);
  EXPECT_EQ(done->exit_code, 0) << done->err;
  EXPECT_NE(done->err.find("namespace"), std::string::npos) << done->err;
  EXPECT_TRUE(WaitFor([&] { return ::kill((*mount)->pid(), 0) != 0; }, std::chrono::seconds(60)))
      << "what was unmounted ends by itself";
}

TEST(Faults, AMountInUseIsNotTakenAwayUnlessForced) {
  auto made = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(made);
  const auto volume = std::move(*made);
  auto mount = TestMount::Make(*volume);
  ASSERT_OK(mount);
  const UniqueFd open(::open((*mount)->File("f0").c_str(), O_RDONLY));
  auto refused = (*mount)->Unmount();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("in use"), std::string::npos)
      << refused.error().message();
  EXPECT_OK((*mount)->Unmount({"--force"})) << "its process ends although a file is open";
}

TEST(Faults, ReadersWaitForRedisAndGoOn) {
  auto made = VolumeWithFiles(Engine::kRedis);
  ASSERT_OK(made);
  const auto volume = std::move(*made);
  auto mount = TestMount::Make(*volume);
  ASSERT_OK(mount);
  auto set = TestMount::Make(*volume, {"--read-only"}, "set");
  ASSERT_OK(set);
  ASSERT_OK(volume->redis().Command("pause redis"));
  EXPECT_EQ(WrongFiles(**set), 0) << "a data set needs no Redis";
  auto reading = std::async(std::launch::async, [&] { return WrongFiles(**mount); });
  EXPECT_EQ(reading.wait_for(2s), std::future_status::timeout) << "it waits";
  ASSERT_OK(volume->redis().Command("resume redis"));
  ASSERT_EQ(reading.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(reading.get(), 0) << "and then goes on";
}

TEST(Faults, ALongOutageOfRedisIsAnErrorThatHeals) {
  auto volume = VolumeWithFiles(Engine::kRedis);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume, {"--io-timeout", "3s"});
  ASSERT_OK(mount);
  ASSERT_OK((*volume)->redis().Command("pause redis"));
  const auto begin = std::chrono::steady_clock::now();
  // Each in a thread of its own: they fail at the same time.
  const auto fails = [](auto call) {
    return std::async(std::launch::async, [call] { return call() == 0 ? 0 : errno; });
  };
  std::vector<std::future<int>> errors;
  errors.push_back(fails([path = (*mount)->File("f1")] {
    struct stat status = {};
    return ::stat(path.c_str(), &status);
  }));
  errors.push_back(fails([path = (*mount)->File("d")] { return ::mkdir(path.c_str(), 0755); }));
  for (auto& error : errors) EXPECT_EQ(error.get(), EIO);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
  ASSERT_OK((*volume)->redis().Command("resume redis"));
  EXPECT_TRUE(WaitFor([&] { return WrongFiles(**mount) == 0; }, 60s)) << (*mount)->Log();
  EXPECT_EQ(::mkdir((*mount)->File("e").c_str(), 0755), 0);
}

TEST(Faults, WhoHoldsTheDatabaseDoesNotHoldTheMount) {
  auto volume = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume, {"--io-timeout", "3s"});
  ASSERT_OK(mount);
  const std::string held = (*volume)->dir() + "/held";
  // Until its input ends.
  FILE* const holder = ::popen(
      fmt::format("python3 -c \"import sqlite3, sys; c = sqlite3.connect('{}/meta.db', timeout=60, "
                  "isolation_level=None); c.execute('BEGIN IMMEDIATE'); open('{}', 'w'); "
                  "sys.stdin.read()\"",
                  (*volume)->dir(), held)
          .c_str(),
      "we");
  ASSERT_NE(holder, nullptr);
  EXPECT_TRUE(WaitFor([&] { return ::access(held.c_str(), F_OK) == 0; }));
  auto making = std::async(std::launch::async, [path = (*mount)->File("d")] {
    return ::mkdir(path.c_str(), 0755) == 0 ? 0 : errno;
  });
  EXPECT_EQ(making.wait_for(30s), std::future_status::ready);
  EXPECT_EQ(::pclose(holder), 0);
  EXPECT_EQ(making.get(), EIO);
  EXPECT_EQ(::mkdir((*mount)->File("e").c_str(), 0755), 0) << errno;
}

// The cache lies in a file system whose process is stopped: nobody can look at it any more.
TEST(Faults, ACacheThatHangsDoesNotKeepTheProcess) {
  auto disk = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(disk);
  auto cache = TestMount::Make(**disk);
  ASSERT_OK(cache);
  auto volume = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(
      **volume, {"--read-only", "--exit-timeout", "4s", "--cache-dir", (*cache)->File("cache")});
  ASSERT_OK(mount);
  ASSERT_EQ(WrongFiles(**mount), 0);
  // No request is under way then, which nobody could break off.
  std::uint64_t requests = 0;
  EXPECT_TRUE(WaitFor([&] {
    SleepBriefly(300ms);
    auto now = (*cache)->Requests();
    return now && std::exchange(requests, *now) == *now;
  }));
  ASSERT_EQ(::kill((*cache)->pid(), SIGSTOP), 0);
  // Until somebody waits for the cache.
  const auto waits = [&] {
    for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", (*mount)->pid()))) {
      auto where = ReadFile(task.path().string() + "/wchan");
      if (where && where->find("request_wait_answer") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(WaitFor(waits, 60s));
  EXPECT_EQ(::umount2((*mount)->path().c_str(), MNT_DETACH), 0);
  EXPECT_TRUE(WaitFor(
      [&] { return (*mount)->Log().find("did not end in time") != std::string::npos; }, 15s));
  // Of what ends, the kernel closes the files first, for which it waits as well.
  ASSERT_EQ(::kill((*cache)->pid(), SIGCONT), 0);
  EXPECT_TRUE(WaitFor([&] { return ::kill((*mount)->pid(), 0) != 0; }));
}

// Redis hangs and the store refuses connections, both for as long as a restart of a machine takes.
TEST(Faults, AnOutageOfHalfAMinuteIsAPause) {
  auto minio = Peer::Start("minio", {"--bucket", "volume"});
  ASSERT_OK(minio);
  auto volume = VolumeWithFiles(Engine::kRedis, OnMinio(*minio, "volume"));
  ASSERT_OK(volume);
  auto set = TestMount::Make(**volume, {"--read-only"}, "set");
  ASSERT_OK(set);
  auto general =
      TestMount::Make(**volume, {"--cache-dir", (*volume)->dir() + "/general-cache"}, "general");
  ASSERT_OK(general);
  const UniqueFd open(::open((*general)->File("begun").c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_EQ(::write(open.get(), "begun", 5), 5);
  ASSERT_OK(minio->Command("kill minio"));
  ASSERT_OK((*volume)->redis().Command("pause redis"));

  std::vector<std::future<int>> waiting;
  waiting.push_back(std::async(std::launch::async, [&] { return WrongFiles(**set); }));
  waiting.push_back(std::async(std::launch::async, [&] { return WrongFiles(**general); }));
  waiting.push_back(std::async(std::launch::async, [&] { return ::fsync(open.get()); }));
  waiting.push_back(std::async(std::launch::async, [&] {
    return WriteWhole((*general)->File("new"), Pattern(9'000'000, 99)) ? 0 : 1;
  }));
  // The outage itself, not a wait for something.
  EXPECT_EQ(waiting.front().wait_for(30s), std::future_status::timeout);
  for (auto& one : waiting) EXPECT_EQ(one.wait_for(0s), std::future_status::timeout);
  ASSERT_OK((*volume)->redis().Command("resume redis"));
  ASSERT_OK(minio->Command("start minio"));
  for (auto& one : waiting) {
    ASSERT_EQ(one.wait_for(60s), std::future_status::ready);
    EXPECT_EQ(one.get(), 0) << (*set)->Log() << (*general)->Log();
  }
  auto content = ReadWhole((*general)->File("new"));
  ASSERT_OK(content);
  EXPECT_EQ(*content, Pattern(9'000'000, 99));
}

// The official client exchanges the keys in the metadata; whoever has the volume mounted goes on.
TEST(Faults, TheStoresKeysChange) {
  auto minio = Peer::Start("minio", {"--bucket", "volume"});
  ASSERT_OK(minio);
  auto juicefs = Peer::Path("juicefs");
  ASSERT_OK(juicefs);
  auto made = VolumeWithFiles(Engine::kSqlite, OnMinio(*minio, "volume"));
  ASSERT_OK(made);
  const auto volume = std::move(*made);
  auto data_set = TestMount::Make(*volume, {"--read-only"}, "data-set");
  ASSERT_OK(data_set);
  auto general = TestMount::Make(
      *volume, {"--no-bgjob", "--cache-dir", volume->dir() + "/general-cache"}, "general");
  ASSERT_OK(general);
  ASSERT_OK(minio->Command("kill minio"));
  ASSERT_OK(WriteWhole(minio->Get("data_dir") + "/root-password", "another-password"));
  ASSERT_OK(minio->Command("start minio"));
  EXPECT_FALSE(ReadWhole((*data_set)->File("f0")));
  EXPECT_FALSE(ReadWhole((*general)->File("f0")));
  auto changed = RunProcess({*juicefs + "/juicefs", "config", volume->url(), "--yes",
                             "--secret-key", "another-password"});
  ASSERT_OK(changed);
  ASSERT_EQ(changed->exit_code, 0) << changed->err;
  EXPECT_TRUE(WaitFor([&] { return WrongFiles(**data_set) == 0; }, 60s)) << (*data_set)->Log();
  EXPECT_TRUE(WaitFor([&] { return WrongFiles(**general) == 0; }, 60s)) << (*general)->Log();
  EXPECT_OK(WriteWhole((*general)->File("new"), Pattern(500'000, 11)));
  EXPECT_OK((*data_set)->Unmount());
  EXPECT_OK((*general)->Unmount());
}

}  // namespace
}  // namespace paddleop::testing
