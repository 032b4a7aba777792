#include "fuse/mounted.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

namespace paddleop::testing {
namespace {

constexpr std::chrono::seconds kPatience{30};

}  // namespace

std::string EngineName(Engine engine) { return engine == Engine::kSqlite ? "sqlite" : "redis"; }

Result<ProcessResult> RunSamplefs(const std::vector<std::string>& args,
                                  std::chrono::seconds timeout) {
  std::vector<std::string> argv = {BinDir() + "/samplefs"};
  argv.insert(argv.end(), args.begin(), args.end());
  // Mount processes outlive the test's own end if it crashes; leaks are looked for all the same.
  return RunProcess(argv, {}, timeout);
}

Result<std::unique_ptr<TestVolume>> TestVolume::Make(
    Engine engine, const std::vector<std::string>& format_options) {
  ASSIGN_OR_RETURN(TempDir dir, TempDir::Create("fuse"));
  // Other users have to get to the mount point.
  if (::chmod(dir.path().c_str(), 0755) != 0) return ErrnoFail("chmod {}", dir.path());
  std::unique_ptr<TestVolume> volume(new TestVolume(std::move(dir)));
  if (engine == Engine::kRedis) {
    ASSIGN_OR_RETURN(volume->redis_, Peer::Start("redis"));
    volume->url_ = volume->redis_->Get("url");
  } else {
    volume->url_ = "sqlite3://" + volume->dir_.File("meta.db");
  }
  std::vector<std::string> options = {"test"};
  const auto given = [&](const char* option) {
    return std::ranges::find(format_options, option) != format_options.end();
  };
  if (!given("--trash-days")) options.insert(options.end(), {"--trash-days", "0"});
  if (!given("--storage"))
    options.insert(options.end(), {"--storage", "file", "--bucket", volume->objects()});
  options.insert(options.end(), format_options.begin(), format_options.end());
  ASSIGN_OR_RETURN([[maybe_unused]] const std::string out, volume->Run("format", options));
  return volume;
}

Result<std::string> TestVolume::Run(const std::string& command,
                                    const std::vector<std::string>& args) {
  std::vector<std::string> all = {command, url_};
  all.insert(all.end(), args.begin(), args.end());
  ASSIGN_OR_RETURN(const ProcessResult result, RunSamplefs(all));
  if (result.exit_code != 0) {
    return Fail(Code::kInternal, "samplefs {} ended with {}: {}{}", command, result.exit_code,
                result.out, result.err);
  }
  return result.out;
}

Result<std::unique_ptr<TestMount>> TestMount::Make(TestVolume& volume,
                                                   std::vector<std::string> options,
                                                   const std::string& name) {
  const std::string path = volume.dir() + "/" + name;
  // Where a dead mount is, the directory is there and cannot be looked at.
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoFail("mkdir {}", path);
  const std::string log = volume.dir() + "/" + name + ".log";
  std::vector<std::string> args = {"mount", volume.url(), path,          "-d",
                                   "--log", log,          "--log-level", "info"};
  if (std::ranges::find(options, "--cache-dir") == options.end())
    options.insert(options.end(), {"--cache-dir", volume.cache()});
  // However full this machine's disk is: the tests need little.
  if (std::ranges::find(options, "--free-space-ratio") == options.end())
    options.insert(options.end(), {"--free-space-ratio", "0.01"});
  args.insert(args.end(), options.begin(), options.end());
  ASSIGN_OR_RETURN(const ProcessResult result, RunSamplefs(args));
  if (result.exit_code != 0) {
    return Fail(Code::kInternal, "mount ended with {}: {}{}", result.exit_code, result.out,
                result.err);
  }
  std::unique_ptr<TestMount> mount(new TestMount(path, log));
  ASSIGN_OR_RETURN(const nlohmann::json status, mount->Status());
  mount->process_ = ProcessIdentity::Of(status.value("pid", -1));
  return mount;
}

TestMount::~TestMount() {
  if (!mounted_) return;
  ::umount2(path_.c_str(), MNT_DETACH);
  const auto ended = [&] { return !process_.Alive(); };
  if (WaitFor(ended, std::chrono::seconds(5))) return;
  ::kill(process_.pid, SIGTERM);
  if (!WaitFor(ended, std::chrono::seconds(10))) ::kill(process_.pid, SIGKILL);
}

Result<std::unique_ptr<TestVolume>> VolumeWithFiles(
    Engine engine, const std::vector<std::string>& format_options) {
  ASSIGN_OR_RETURN(auto volume, TestVolume::Make(engine, format_options));
  ASSIGN_OR_RETURN(auto mount,
                   TestMount::Make(*volume, {"--cache-dir", volume->dir() + "/writer-cache"}, "w"));
  for (unsigned i = 0; i < 10; ++i)
    RETURN_IF_ERROR(WriteWhole(mount->File(fmt::format("f{}", i)), Pattern(500'000, i)));
  RETURN_IF_ERROR(mount->Unmount());
  return volume;
}

int WrongFiles(const TestMount& mount) {
  int wrong = 0;
  for (unsigned i = 0; i < 10; ++i) {
    auto content = ReadWhole(mount.File(fmt::format("f{}", i)));
    if (!content || *content != Pattern(500'000, i)) ++wrong;
  }
  return wrong;
}

std::vector<std::string> OnMinio(const Peer& minio, const std::string& bucket) {
  return {"--storage",    "minio",
          "--bucket",     minio.Get("endpoint") + "/" + bucket,
          "--access-key", minio.Get("access_key"),
          "--secret-key", minio.Get("secret_key")};
}

Result<nlohmann::json> TestMount::Status() const {
  ASSIGN_OR_RETURN(const ProcessResult result, RunSamplefs({"status", path_, "--json"}));
  if (result.exit_code != 0)
    return Fail(Code::kInternal, "status ended with {}: {}{}", result.exit_code, result.out,
                result.err);
  auto json = nlohmann::json::parse(result.out, nullptr, false);
  if (json.is_discarded()) return Fail(Code::kCorrupt, "status printed {}", result.out);
  return json;
}

Result<std::uint64_t> TestMount::Requests() const {
  ASSIGN_OR_RETURN(const nlohmann::json status, Status());
  return status.value("requests", std::uint64_t{0});
}

double TestMount::Metric(const std::string& series) const {
  struct stat root{};
  if (::stat(path_.c_str(), &root) != 0) return -1;
  const auto metrics = RunProcess({"curl", "-sf", "-m", "20", "--unix-socket",
                                   fmt::format("/run/samplefs/{}.sock", minor(root.st_dev)),
                                   "http://mount/metrics"});
  const std::string text = metrics ? metrics->out : "";
  const std::size_t at = text.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::atof(&text[at + series.size() + 2]);
}

Result<void> TestMount::Unmount(const std::vector<std::string>& options) {
  std::vector<std::string> args = {"umount", path_};
  args.insert(args.end(), options.begin(), options.end());
  ASSIGN_OR_RETURN(const ProcessResult result, RunSamplefs(args));
  if (result.exit_code != 0) {
    return Fail(Code::kInternal, "umount ended with {}: {}{}", result.exit_code, result.out,
                result.err);
  }
  mounted_ = false;
  if (!WaitFor([&] { return !process_.Alive(); }, kPatience))
    return Fail(Code::kDeadline, "the mount process {} lives on: {}", process_.pid, Log());
  return {};
}

std::string TestMount::Log() const {
  auto text = ReadFile(log_);
  return text ? *text : "";
}

std::string Pattern(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(out.data() + i, &word, std::min<std::size_t>(8, size - i));
  }
  return out;
}

Result<void> WriteWhole(const std::string& path, std::string_view content) {
  ASSIGN_OR_RETURN(UniqueFd file, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  RETURN_IF_ERROR(WriteAll(file.get(), content));
  if (::close(file.Release()) != 0) return ErrnoFail("close {}", path);
  return {};
}

Result<std::string> ReadWhole(const std::string& path) { return ReadFile(path, 1U << 30); }

std::string Content(const std::string& path) {
  auto content = ReadWhole(path);
  return content ? *content : "error: " + content.error().message();
}

std::vector<std::string> ListNames(const std::string& directory) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(directory.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(dir);
  std::ranges::sort(names);
  return names;
}

bool Ended(pid_t pid, std::chrono::milliseconds timeout) {
  return WaitFor([&] { return ::kill(pid, 0) != 0; }, timeout);
}

bool IsMounted(const std::string& path) {
  struct stat at = {}, above = {};
  return ::stat(path.c_str(), &at) == 0 && ::stat((path + "/..").c_str(), &above) == 0 &&
         at.st_dev != above.st_dev;
}

int As(uid_t uid, gid_t gid, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(gid) != 0 || ::setuid(uid) != 0) ::_exit(99);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

}  // namespace paddleop::testing
