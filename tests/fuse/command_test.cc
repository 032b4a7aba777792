// The mount commands as a user meets them: clear lines when something is wrong, fstab, status,
// logs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

// Runs the program and expects it to fail with one line that has all of `words`.
void ExpectLine(const std::vector<std::string>& args, int code,
                const std::vector<std::string>& words) {
  auto result = RunSamplefs(args);
  ASSERT_OK(result);
  EXPECT_EQ(result->exit_code, code) << result->err;
  EXPECT_EQ(std::ranges::count(result->err, '\n'), 1) << result->err;
  for (const std::string& word : words)
    EXPECT_NE(result->err.find(word), std::string::npos) << word << " is not in: " << result->err;
}

TEST(MountCommand, SaysInOneLineWhatIsWrong) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string dir = (*volume)->dir();
  const std::string& url = (*volume)->url();
  ExpectLine({"mount", url, dir + "/missing"}, 1, {"missing", "does not exist", "mkdir"});
  ASSERT_OK(WriteWhole(dir + "/file", "x"));
  ExpectLine({"mount", url, dir + "/file"}, 1, {"not a directory"});
  ExpectLine({"mount", url, "/proc"}, 1, {"/proc", "busy"});
  ASSERT_OK(MakeDirectories(dir + "/m"));
  ExpectLine({"mount", "sqlite3://" + dir + "/none.db", dir + "/m"}, 1, {"none.db"});
  ExpectLine({"mount", "redis://127.0.0.1:1/0", dir + "/m"}, 1, {"127.0.0.1:1"});
  ExpectLine({"mount", dir + "/m", dir + "/m"}, 1, {"VOLUME", "mount point"});
  ExpectLine({"mount", url, dir + "/m", "-o", "cache-siez=3"}, 2, {"cache-siez"});
  ExpectLine({"mount", url, dir + "/m", "-o", "prefetch=many"}, 2, {"prefetch", "many"});
  ExpectLine({"mount", url, dir + "/m", "--get-timeout", "0"}, 1, {"--get-timeout"});
  ExpectLine({"mount", url, dir + "/m", "--io-retries", "-1"}, 1, {"--io-retries"});
  ExpectLine({"mount", url, dir + "/m", "--download-limit", "-5"}, 1, {"--download-limit", "-5"});
  ExpectLine({"mount", url, dir + "/m", "--heartbeat", "1h"}, 1, {"--heartbeat"});
  ExpectLine({"mount", url, dir + "/m", "--attr-cache", "soon"}, 1, {"--attr-cache", "soon"});
  ExpectLine({"mount", url, dir + "/m", "--subdir", "/nowhere"}, 1, {"--subdir /nowhere"});
  ExpectLine({"mount", url, dir + "/m", "--metrics", "nonsense"}, 1, {"--metrics", "nonsense"});
  ExpectLine({"mount", url, dir + "/m", "-d", "--metrics", "nonsense"}, 1, {"nonsense"});
  ExpectLine({"mount", url, dir + "/m", "-d", "--log", "/proc/no/log"}, 1, {"/proc/no/log"});
  ExpectLine({"umount", dir + "/m"}, 1, {"nothing is mounted"});
  ExpectLine({"status", dir + "/m"}, 1, {"no mount point"});
  ExpectLine({"refresh", "/proc"}, 1, {"no mount point"});
}

// The one in the background waits for a server that hangs when it is killed.
TEST(MountCommand, SaysThatTheProcessInTheBackgroundWasKilled) {
  auto volume = TestVolume::Make(Engine::kRedis);
  ASSERT_OK(volume);
  ASSERT_OK(MakeDirectories((*volume)->dir() + "/m"));
  ASSERT_OK((*volume)->redis().Command("pause redis"));
  auto done = RunProcess(
      {"bash", "-c",
       fmt::format("{}/samplefs mount {} {}/m -d & starter=$!; "
                   "until child=$(cat /proc/$starter/task/*/children) && test -n \"$child\"; "
                   "do sleep 0.05; done; kill -KILL $child; wait $starter",
                   BinDir(), (*volume)->url(), (*volume)->dir())});
  ASSERT_OK(done);
  ASSERT_OK((*volume)->redis().Command("resume redis"));
  EXPECT_EQ(done->exit_code, 1) << done->err;
  EXPECT_NE(done->err.find("signal 9"), std::string::npos) << done->err;
}

// As somebody who is not root and has mounted nothing.
Result<ProcessResult> RunAsNobody(const std::vector<std::string>& args) {
  std::vector<std::string> argv = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                   BinDir() + "/samplefs"};
  argv.insert(argv.end(), args.begin(), args.end());
  return RunProcess(argv, {"ASAN_OPTIONS=detect_leaks=0"});
}

TEST(MountCommand, OthersAreToldWhoMayAskAndUnmount) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  for (const char* command : {"status", "umount"}) {
    auto result = RunAsNobody({command, (*mount)->path()});
    ASSERT_OK(result);
    EXPECT_EQ(result->exit_code, 1) << command;
    EXPECT_NE(result->err.find("root"), std::string::npos) << command << ": " << result->err;
    EXPECT_EQ(result->err.find("in use"), std::string::npos) << command << ": " << result->err;
  }
  EXPECT_OK((*mount)->Status());
}

TEST(MountCommand, WithoutTheDeviceItSaysWhatToDo) {
  auto result = RunAsNobody({"mount", "sqlite3:///x.db", "/mnt"});
  ASSERT_OK(result);
  EXPECT_EQ(result->exit_code, 1);
  EXPECT_NE(result->err.find("/dev/fuse"), std::string::npos) << result->err;
}

// By mount(8) itself, in a mount namespace where our helper is in /sbin.
TEST(MountCommand, MountsFromAnFstabLine) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string& home = (*volume)->dir();
  for (const char* name : {"/w", "/m", "/source"}) ASSERT_OK(MakeDirectories(home + name));
  ASSERT_OK(WriteWhole(home + "/source/f", "content"));
  ASSERT_OK((*volume)->Run("sync", {home + "/source", "--state-dir", home + "/state"}));
  const std::string cache = ",cache-dir=" + (*volume)->cache();
  ASSERT_OK(
      WriteWhole(home + "/fstab",
                 fmt::format("{0} {1}/m samplefs _netdev,noatime,read-only,log={1}/log{2} 0 0\n"
                             "{0} {1}/w samplefs defaults,cache-size=100,log={1}/log-w{2}-w 0 0\n",
                             (*volume)->url(), home, cache)));
  auto done = RunProcess(
      {"unshare", "-m", "bash", "-c",
       fmt::format("set -e; cd {0}; mount -t tmpfs tmpfs /usr/sbin; "
                   "ln -s {1}/samplefs /usr/sbin/mount.samplefs; mount -a -T {0}/fstab; cat m/f; "
                   "{1}/samplefs status {0}/m --json; {1}/samplefs status {0}/w --json; "
                   "echo new >w/g; ! touch m/g; umount m; umount w; ! mountpoint -q m",
                   home, BinDir())});
  ASSERT_OK(done);
  EXPECT_EQ(done->exit_code, 0) << done->out << done->err;
  EXPECT_TRUE(done->out.starts_with("content")) << done->out;
  EXPECT_NE(done->out.find("\"data-set\""), std::string::npos) << done->out;
  EXPECT_NE(done->out.find("\"general\""), std::string::npos) << done->out;
  EXPECT_NE(done->err.find("Read-only file system"), std::string::npos) << done->err;
}

TEST(MountCommand, KeepsToTheBandwidthOfTheVolumeOrItsOwn) {
  // 16 Mbps: two megabytes a second.
  auto volume = TestVolume::Make(Engine::kSqlite, {"--download-limit", "16"});
  ASSERT_OK(volume);
  const std::string content = Pattern(9 << 20, 1);
  const auto seconds_to_read = [&](const std::string& name) {
    const auto begin = std::chrono::steady_clock::now();
    auto read = ReadWhole(name);
    EXPECT_OK(read);
    EXPECT_TRUE(!read || *read == content);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  {
    auto mount = TestMount::Make(**volume, {"--upload-limit", "24"});
    ASSERT_OK(mount);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_OK(WriteWhole((*mount)->File("f"), content));
    EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    ASSERT_OK((*mount)->Unmount());
  }
  const auto fresh = [&](const char* name) {
    return std::vector<std::string>{"--read-only", "--cache-dir", (*volume)->dir() + "/" + name};
  };
  double limited = 0;
  {
    auto mount = TestMount::Make(**volume, fresh("cache1"));
    ASSERT_OK(mount);
    limited = seconds_to_read((*mount)->File("f"));
  }
  EXPECT_GT(limited, 2);
  auto options = fresh("cache2");
  options.insert(options.end(), {"-o", "download-limit=0,io-retries=3,prefetch=1,get-timeout=5"});
  auto mount = TestMount::Make(**volume, options);
  ASSERT_OK(mount);
  EXPECT_LT(seconds_to_read((*mount)->File("f")), limited);
}

TEST(MountCommand, StatusMetricsAndOtherCommandsByMountPoint) {
  auto volume = TestVolume::Make(Engine::kRedis);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume, {"--metrics", "127.0.0.1:0", "--cache-size", "1.5G"});
  ASSERT_OK(mount);
  ASSERT_OK(WriteWhole((*mount)->File("f"), "hello"));
  auto text = RunSamplefs({"status", (*mount)->path()});
  ASSERT_OK(text);
  for (const char* word : {"general mode", "volume       test", "requests", "cache "})
    EXPECT_NE(text->out.find(word), std::string::npos) << word << ": " << text->out;
  EXPECT_NE(text->out.find("1.5 GiB"), std::string::npos) << text->out;
  // VOLUME may be a mount point.
  auto content = RunSamplefs({"cat", (*mount)->path(), "/f"});
  ASSERT_OK(content);
  EXPECT_EQ(content->out, "hello") << content->err;
  auto refused = RunSamplefs({"refresh", (*mount)->path()});
  ASSERT_OK(refused);
  EXPECT_EQ(refused->exit_code, 1);
  EXPECT_NE(refused->err.find("--read-only"), std::string::npos) << refused->err;
  struct stat socket = {}, root = {};
  ASSERT_EQ(::stat((*mount)->path().c_str(), &root), 0);
  const std::string path = fmt::format("/run/samplefs/{}.sock", minor(root.st_dev));
  ASSERT_EQ(::stat(path.c_str(), &socket), 0) << path;
  EXPECT_EQ(socket.st_mode & 0077, 0u) << "only its owner may connect";
  auto ahead = ReadWhole(fmt::format("/sys/class/bdi/0:{}/read_ahead_kb", minor(root.st_dev)));
  ASSERT_OK(ahead);
  EXPECT_EQ(*ahead, "8192\n") << "the kernel reads ahead in large steps";
}

TEST(MountCommand, TheAccessLogShowsRequestsAsTheyCome) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  std::string lines;
  std::thread reader([&] {
    auto result = RunProcess(
        {"timeout", "-s", "INT", "3", BinDir() + "/samplefs", "access-log", (*mount)->path()});
    if (result) lines = result->out;
  });
  for (int i = 0; i < 25; ++i) {
    EXPECT_OK(WriteWhole((*mount)->File("f" + std::to_string(i)), "hello"));
    SleepBriefly(std::chrono::milliseconds(100));
  }
  reader.join();
  EXPECT_NE(lines.find("create (1,f"), std::string::npos) << lines;
  EXPECT_NE(lines.find(": OK <0."), std::string::npos) << lines;
}

}  // namespace
}  // namespace paddleop::testing
