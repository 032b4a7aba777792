// The mount commands as a user meets them: clear lines when something is wrong, fstab, status,
// logs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
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
  ExpectLine({"mount", url, dir + "/m", "--threads", "-1"}, 1, {"--threads", "-1"});
  ExpectLine({"mount", url, dir + "/m", "--attr-cache", "soon"}, 1, {"--attr-cache", "soon"});
  ExpectLine({"mount", url, dir + "/m", "--subdir", "/nowhere"}, 1, {"--subdir /nowhere"});
  ExpectLine({"mount", url, dir + "/m", "--metrics", "nonsense"}, 1, {"--metrics", "nonsense"});
  ExpectLine({"mount", url, dir + "/m", "-d", "--metrics", "nonsense"}, 1, {"nonsense"});
  ExpectLine({"mount", url, dir + "/m", "-d", "--log", "/proc/no/log"}, 1, {"/proc/no/log"});
  ExpectLine({"mount", url, dir + "/m", "--umask", "99"}, 1, {"--umask", "99"});
  for (const std::string inside : {"", "/c"}) {
    ExpectLine({"mount", url, dir + "/m", "--cache-dir", dir + "/./m" + inside}, 1,
               {"--cache-dir", dir + "/m", "elsewhere"});
  }
  ExpectLine({"mount", url, dir + "/m", "--exit-timeout", "0s"}, 1, {"--exit-timeout"});
  ExpectLine({"mount", url, dir + "/m", "--root-squash", "1000:1000"}, 2, {"--root-squash"});
  ExpectLine({"mount", url, dir + "/m", "-o", "all-squash=1:1"}, 2, {"--all-squash"});
  ExpectLine({"mount", url, dir + "/m", "--bucket", "/elsewhere"}, 2, {"--bucket", "setting"});
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
                   "ln -s {1}/samplefs /usr/sbin/mount.samplefs; mount -f -a -T {0}/fstab; "
                   "! mountpoint -q m; mount -a -T {0}/fstab; cat m/f; "
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

// In a mount namespace with an /etc of its own.
TEST(MountCommand, WritesTheFstabLineThatMountsTheSame) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string& home = (*volume)->dir();
  const std::string scheme = "sqlite3://";
  ASSERT_TRUE((*volume)->url().starts_with(scheme + home + "/"));
  const std::string relative = scheme + (*volume)->url().substr(scheme.size() + home.size() + 1);
  ASSERT_OK(MakeDirectories(home + "/m m"));
  ASSERT_OK(MakeDirectories(home + "/etc"));
  ASSERT_OK(WriteWhole(home + "/etc/fstab", "# kept\n/dev/x / ext4 defaults 0 1"));
  auto done = RunProcess(
      {"unshare", "-m", "bash", "-c",
       fmt::format("set -e; cp -a /etc/. {0}/etc-all; cp {0}/etc/fstab {0}/etc-all/fstab; "
                   "chmod 600 {0}/etc-all/fstab; mount --bind {0}/etc-all /etc; mount -t tmpfs "
                   "tmpfs /usr/sbin; cd {0}; "
                   "for size in 100 200; do "
                   "{1}/samplefs mount {2} '{0}/m m' -d --update-fstab --cache-dir={3} "
                   "--cache-size $size --log log -o noatime; {1}/samplefs umount '{0}/m m'; "
                   "done; cat /etc/fstab; stat -c %a /etc/fstab; mount '{0}/m m'; {1}/samplefs "
                   "status '{0}/m m' --json; "
                   "umount '{0}/m m'",
                   home, BinDir(), relative, (*volume)->cache())});
  ASSERT_OK(done);
  EXPECT_EQ(done->exit_code, 0) << done->out << done->err;
  const std::string lines = fmt::format(
      "# kept\n/dev/x / ext4 defaults 0 1\n"
      "{} {}/m\\040m samplefs _netdev,cache-dir={},cache-size=200,log={}/log,noatime 0 0\n600\n",
      (*volume)->url(), home, (*volume)->cache(), home);
  EXPECT_TRUE(done->out.starts_with(lines)) << done->out;
  EXPECT_NE(done->out.find("\"general\""), std::string::npos) << done->out;
}

TEST(MountCommand, WritesNoPasswordIntoAnFstabThatOthersRead) {
  auto volume = TestVolume::Make(Engine::kRedis);
  ASSERT_OK(volume);
  const std::string& home = (*volume)->dir();
  const std::string& url = (*volume)->url();
  ASSERT_TRUE(url.starts_with("redis://")) << url;
  const std::size_t at = url.find('@');
  const std::string host = url.substr(at == std::string::npos ? 8 : at + 1);
  ASSERT_OK(MakeDirectories(home + "/m"));
  auto done = RunProcess(
      {"unshare", "-m", "bash", "-c",
       fmt::format("set -e; cp -a /etc/. {0}/etc; echo '# kept' >{0}/etc/fstab; "
                   "chmod 644 {0}/etc/fstab; mount --bind {0}/etc /etc; "
                   "mount -t tmpfs tmpfs /usr/sbin; "
                   "redis-cli -u {2} ACL SETUSER default '>hidden' >{0}/said; "
                   "{1}/samplefs mount redis://:hidden@{3} {0}/m -d --update-fstab --cache-dir={4} "
                   "--log {0}/log; {1}/samplefs umount {0}/m; cat /etc/fstab",
                   home, BinDir(), url, host, (*volume)->cache())});
  ASSERT_OK(done);
  EXPECT_EQ(done->exit_code, 0) << done->out << done->err;
  EXPECT_EQ(done->out, "# kept\n");
  EXPECT_NE(done->err.find("chmod 600"), std::string::npos) << done->err;
}

// As in a container whose first process takes note of no other's end.
TEST(MountCommand, UmountWaitsForNobodyWhoHasEnded) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string& home = (*volume)->dir();
  ASSERT_OK(MakeDirectories(home + "/m"));
  auto done =
      RunProcess({"unshare", "--pid", "--fork", "--mount-proc", "bash", "-c",
                  fmt::format("{1}/samplefs mount {2} {0}/m -d --log {0}/log --cache-dir {3} && "
                              "exec {1}/samplefs umount {0}/m --timeout 20",
                              home, BinDir(), (*volume)->url(), (*volume)->cache())});
  ASSERT_OK(done);
  EXPECT_EQ(done->exit_code, 0) << done->out << done->err;
}

TEST(MountCommand, UmountLeavesWhatIsMountedElsewhere) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string& home = (*volume)->dir();
  ASSERT_OK(MakeDirectories(home + "/m"));
  ASSERT_OK(MakeDirectories(home + "/other"));
  auto done = RunProcess(
      {"unshare", "-m", "bash", "-c",
       fmt::format("set -e; {1}/samplefs mount {2} {0}/m -d --log {0}/log --cache-dir {3}; "
                   "mount --bind {0}/m {0}/other; {1}/samplefs umount {0}/m; "
                   "echo content >{0}/other/file; cat {0}/other/file; "
                   "{1}/samplefs umount {0}/other",
                   home, BinDir(), (*volume)->url(), (*volume)->cache())});
  ASSERT_OK(done);
  EXPECT_EQ(done->exit_code, 0) << done->out << done->err;
  EXPECT_EQ(done->out, "content\n");
  EXPECT_NE(done->err.find(home + "/other"), std::string::npos) << done->err;
}

TEST(MountCommand, RefusesTimesThatAreNone) {
  for (const char* time : {"inf", "nan", "-1s", "30d", "1e300"}) {
    ExpectLine({"mount", "sqlite3:///nowhere.db", "/tmp", "--io-timeout", time}, 1,
               {"--io-timeout", time});
  }
}

TEST(MountCommand, SaysWhichFlagsHaveNoEffect) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string dir = (*volume)->dir() + "/m";
  ASSERT_OK(MakeDirectories(dir));
  const auto warnings = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"mount", (*volume)->url(), dir, "--fake"});
    auto result = RunSamplefs(options);
    return result && result->exit_code == 0 ? result->err : "failed: " + result->err;
  };
  EXPECT_EQ(warnings({"-o", "log-level=info,refresh=0s"}), "");
  EXPECT_EQ(warnings({"--attr-cache", "5s", "--max-downloads", "64"}), "");
  const std::string data_set = warnings({"--read-only", "--attr-cache", "5s", "--enable-xattr",
                                         "-o", "writeback_cache", "--negative-entry-cache", "1s"});
  EXPECT_NE(data_set.find("--attr-cache, --negative-entry-cache, --enable-xattr, "
                          "--writeback_cache"),
            std::string::npos)
      << data_set;
  EXPECT_EQ(std::ranges::count(data_set, '\n'), 1) << data_set;
  EXPECT_NE(warnings({"--read-only", "--no-bgjob"}).find("--no-bgjob"), std::string::npos);
  EXPECT_NE(warnings({"--refresh", "1m"}).find("--refresh"), std::string::npos);
  EXPECT_EQ(warnings({"--refresh", "1m", "-o", "log-level=error"}), "");
  for (const char* flag : {"--enable-cap", "--enable-selinux", "--prefix-internal", "--force"})
    EXPECT_NE(warnings({flag}).find(flag + 2), std::string::npos) << flag;
  EXPECT_NE(warnings({"--storage-class", "cold"}).find("storage-class"), std::string::npos);
}

TEST(MountCommand, ChecksTheStoreFirstIfToldTo) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  for (const char* mode : {"--read-only", "--no-bgjob"}) {
    auto mount = TestMount::Make(**volume, {mode, "--check-storage"});
    ASSERT_OK(mount) << mode;
    EXPECT_OK((*mount)->Unmount());
  }
  std::filesystem::remove_all((*volume)->objects());
  ASSERT_OK(WriteWhole((*volume)->objects(), "no directory"));
  for (const char* mode : {"--read-only", "--no-bgjob"}) {
    ExpectLine({"mount", (*volume)->url(), (*volume)->dir() + "/mnt", mode, "--check-storage",
                "--cache-dir", (*volume)->cache()},
               1, {"--check-storage"});
  }
}

TEST(MountCommand, TheUmaskOfTheMountCounts) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume, {"--umask", "0027"});
  ASSERT_OK(mount);
  const mode_t before = ::umask(0077);
  const UniqueFd file(::open((*mount)->File("f").c_str(), O_CREAT | O_WRONLY, 0666));
  EXPECT_TRUE(file.valid());
  EXPECT_EQ(::mkdir((*mount)->File("d").c_str(), 0777), 0);
  EXPECT_EQ(::mkfifo((*mount)->File("p").c_str(), 0666), 0);
  ::umask(before);
  for (const auto& [name, mode] :
       std::vector<std::pair<const char*, mode_t>>{{"f", 0640}, {"d", 0750}, {"p", 0640}}) {
    struct stat status = {};
    ASSERT_EQ(::stat((*mount)->File(name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 07777, mode) << name;
  }
}

TEST(MountCommand, AsManyDownloadsAsWereAskedFor) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume, {"--read-only", "--max-downloads", "20"});
  ASSERT_OK(mount);
  int threads = 0;
  for (const auto& task :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", (*mount)->pid()))) {
    auto name = ReadFile(task.path().string() + "/comm");
    if (name && name->starts_with("data-fetch")) ++threads;
  }
  EXPECT_EQ(threads, 20);
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

TEST(MountCommand, ReadsAheadLessThanABlockIfToldTo) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string content = Pattern(9 << 20, 2);
  {
    auto writer = TestMount::Make(**volume);
    ASSERT_OK(writer);
    ASSERT_OK(WriteWhole((*writer)->File("f"), content));
  }
  for (const char* limit : {"0", "1", "3M"}) {
    auto mount = TestMount::Make(**volume, {"--read-only", "--max-readahead", limit, "--cache-dir",
                                            (*volume)->dir() + "/cache-" + limit});
    ASSERT_OK(mount);
    auto read = ReadWhole((*mount)->File("f"));
    ASSERT_OK(read);
    EXPECT_TRUE(*read == content) << limit;
    ASSERT_OK((*mount)->Unmount());
  }
}

TEST(MountCommand, MemoryCanBeTheCacheOfADataSet) {
  auto volume = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(volume);
  const std::string content = Pattern(21 << 20, 3);
  {
    auto writer = TestMount::Make(**volume);
    ASSERT_OK(writer);
    ASSERT_OK(WriteWhole((*writer)->File("f"), content));
  }
  auto mount = TestMount::Make(**volume, {"--read-only", "--cache-dir", "memory", "--cache-size",
                                          "200M", "--io-timeout", "2s"});
  ASSERT_OK(mount);
  EXPECT_TRUE(*ReadWhole((*mount)->File("f")) == content);
  const std::string objects = (*volume)->objects(), away = objects + ".away";
  ASSERT_EQ(::rename(objects.c_str(), away.c_str()), 0);
  {
    const UniqueFd file(::open((*mount)->File("f").c_str(), O_RDONLY));
    ASSERT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  auto again = ReadWhole((*mount)->File("f"));
  ASSERT_OK(again);
  EXPECT_TRUE(*again == content);
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

TEST(MountCommand, CountsWhatItDoes) {
  auto volume = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(volume);
  for (const char* mode : {"--read-only", "--no-bgjob"}) {
    SCOPED_TRACE(mode);
    auto mount = TestMount::Make(**volume, {mode});
    ASSERT_OK(mount);
    EXPECT_EQ(WrongFiles(**mount), 0);
    const auto value = [&](const std::string& series) { return (*mount)->Metric(series); };
    EXPECT_GE(value("paddleop_fuse_operation_seconds_count{op=\"read\"}"), 10);
    EXPECT_GT(value("paddleop_fuse_operation_seconds_sum{op=\"read\"}"), 0);
    EXPECT_GT(value("paddleop_fuse_bytes_total{direction=\"read\"}"), 10'000);
    EXPECT_GE(value("paddleop_cache_hits_total{tier=\"disk\"}"), 0);
    EXPECT_GE(value("paddleop_cache_hit_bytes_total{tier=\"disk\"}"), 0);
    if (mode == std::string("--read-only")) {
      for (const char* tier : {"memory", "disk", "store"})
        EXPECT_GE(value(fmt::format("paddleop_dataset_reads_total{{tier=\"{}\"}}", tier)), 0);
      EXPECT_GT(value("paddleop_dataset_read_bytes_total{tier=\"store\"}"), 0);
      for (const char* result : {"started", "useful", "wasted"}) {
        EXPECT_GE(
            value(fmt::format("paddleop_dataset_prefetch_blocks_total{{result=\"{}\"}}", result)),
            0);
      }
    }
    ASSERT_OK((*mount)->Unmount());
  }
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
