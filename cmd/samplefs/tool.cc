#include "samplefs/tool.h"

#include <fmt/format.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/secret.h"
#include "fuse/control.h"
#include "volume/peer/local_peer.h"

namespace paddleop::cmd {
namespace {

// Whether a URL has a password before its host.
bool HasPassword(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos) return false;
  const auto at = url.rfind('@', url.find_first_of("/?", scheme + 3));
  return at != std::string_view::npos && at > scheme && url.find(':', scheme + 3) < at;
}

// Whether a signal asks once more for the end that was asked for before, and so ends the program at
// once: it does not wait any longer for what it waits for.
class Impatience {
 public:
  bool Shown(const siginfo_t& info) {
    // A hangup (mount.cc), of which any number may come.
    if (info.si_pid == ::getpid()) {
      asked_ = true;
      return false;
    }
    const auto now = std::chrono::steady_clock::now();
    // Two that come at once are one: a supervisor may send a SIGTERM to a process and another one
    // to its group.
    const bool again = info.si_signo == SIGINT ? asked_ : first_ && now - *first_ >= kOne;
    asked_ = true;
    if (!first_) first_ = now;
    return again;
  }

 private:
  static constexpr std::chrono::seconds kOne{1};
  bool asked_ = false;
  std::optional<std::chrono::steady_clock::time_point> first_;
};

// Signals are taken by a thread of their own: no code of ours runs in a signal handler.
std::stop_token StopOnSignals(const std::stop_source& source) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, source]() mutable {
    Impatience impatience;
    for (;;) {
      siginfo_t info = {};
      if (sigwaitinfo(&signals, &info) < 0) continue;
      if (impatience.Shown(info)) {
        // It may have been ignored from the start (by a shell that runs us in the background), and
        // the first process of a container does not die of it.
        ::signal(info.si_signo, SIG_DFL);
        pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
        ::raise(info.si_signo);
        ::_exit(128 + info.si_signo);
      }
      source.request_stop();
    }
  }).detach();
  return source.get_token();
}

}  // namespace

Tool::Tool() : ctx_(Context::Background().WithStop(StopOnSignals(stop_))) {}

void Tool::AddCommonOptions(Command& command) {
  command.AddFlag("--json", &json, "print JSON");
  command.AddOption("--log-level", &log_level_,
                    "debug, info, warn, error or off; logs go to standard error");
}

const Logger& Tool::log() {
  if (!log_) {
    auto level = ParseLogLevel(log_level_);
    log_ = std::make_unique<Logger>(level ? *level : LogLevel::kWarn);
    if (!level) log_->Warn(ctx_, "unknown log level, using warn", {{"level", log_level_}});
  }
  return *log_;
}

std::string Tool::MetaUrl() const {
  const std::string password = GetEnv("META_PASSWORD");
  const auto scheme = volume.find("://");
  if (password.empty() || scheme == std::string::npos || !volume.starts_with("redis"))
    return volume;
  if (HasPassword(volume)) return volume;
  const auto at = volume.rfind('@', volume.find_first_of("/?", scheme + 3));
  const std::string user =
      at == std::string::npos ? "" : volume.substr(scheme + 3, at - scheme - 3);
  const std::string rest = volume.substr(at == std::string::npos ? scheme + 3 : at + 1);
  return volume.substr(0, scheme + 3) + user + ":" + UrlEncode(password) + "@" + rest;
}

Result<std::string> Tool::ResolveVolume() {
  if (!IsPath()) return MetaUrl();
  auto reply =
      fuse::CallMount(ctx_.WithTimeout(std::chrono::seconds(30)), volume, "GET", "/volume");
  if (!reply && IsNotFound(reply.error())) {
    return paddleop::Fail(Code::kInvalid,
                          "VOLUME is \"{}\"; give a metadata URL such as sqlite3:///x.db or "
                          "redis://HOST/0, or a mount point of samplefs",
                          volume);
  }
  if (!reply) return std::unexpected(std::move(reply).error());
  const auto answer = nlohmann::json::parse(*reply, nullptr, false);
  if (!answer.is_object() || !answer.contains("metaUrl"))
    return paddleop::Fail(Code::kCorrupt, "the process behind {} answered with something else",
                          volume);
  return answer.value("metaUrl", "");
}

Result<std::unique_ptr<volume::Volume>> Tool::OpenVolume(volume::VolumeOptions options) {
  ASSIGN_OR_RETURN(const std::string url, ResolveVolume());
  if (HasPassword(volume)) {
    log().Warn(ctx_,
               "a password on the command line can be seen by others; use the environment "
               "(META_PASSWORD)");
  }
  std::vector<std::string> directories;
  directories.reserve(options.cache.directories.size());
  for (const auto& directory : options.cache.directories) directories.push_back(directory.path);
  // On a node of a SampleSet the runtime shares the cache directory: what is not in it is asked of
  // the runtime. Which volume it is, is known only when it is open; nothing is read before.
  auto runtime = std::make_shared<volume::BlockPeer>();
  if (!directories.empty()) {
    options.peer = [runtime](const Context& ctx, const volume::BlockId& block, std::uint32_t offset,
                             std::span<std::byte> out) -> Result<void> {
      return (*runtime)(ctx, block, offset, out);
    };
  }
  // Long enough for a server that restarts; nobody waits for one that is not there.
  const Context opening = ctx_.WithTimeout(std::chrono::seconds(30));
  ASSIGN_OR_RETURN(auto opened, volume::Volume::Open(opening, url, options, log(), metrics_));
  *runtime = volume::MakeLocalPeer(std::move(directories), opened->setting().uuid);
  return opened;
}

volume::Caller Tool::Caller() {
  volume::Caller caller{.uid = ::geteuid(), .gid = ::getegid()};
  caller.groups.resize(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  if (!caller.groups.empty() &&
      ::getgroups(static_cast<int>(caller.groups.size()), caller.groups.data()) < 0) {
    caller.groups.clear();
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  caller.umask = static_cast<std::uint16_t>(mask);
  return caller;
}

int Tool::Fail(const Status& error) const {
  if (json) {
    PrintJson({{"error", error.message()}, {"code", CodeName(error.code())}});
  } else {
    fmt::print(stderr, "samplefs: {}\n", error.message());
  }
  return kExitFailed;
}

void Tool::Print(std::string_view text) const { fmt::print("{}\n", text); }

void Tool::PrintJson(const nlohmann::json& value) const {
  fmt::print("{}\n", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
}

Result<std::pair<volume::Entry, std::string>> ResolveParent(Tool& tool, volume::MetaStore& meta,
                                                            std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const auto slash = path.rfind('/');
  const std::string_view parent = slash == std::string_view::npos ? "" : path.substr(0, slash);
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (name.empty())
    return paddleop::Fail(Code::kInvalid, "the root of the volume cannot be used here");
  auto directory = meta.Resolve(tool.ctx(), Tool::Caller(), volume::kRootIno, parent);
  if (!directory) return std::unexpected(std::move(directory).error().Wrap(std::string(path)));
  return std::pair(*std::move(directory), std::string(name));
}

std::string_view TypeName(volume::FileType type) {
  switch (type) {
    case volume::FileType::kFile:
      return "file";
    case volume::FileType::kDirectory:
      return "directory";
    case volume::FileType::kSymlink:
      return "symlink";
    case volume::FileType::kFifo:
      return "fifo";
    case volume::FileType::kBlockDevice:
      return "block device";
    case volume::FileType::kCharDevice:
      return "character device";
    case volume::FileType::kSocket:
      return "socket";
  }
  return "unknown";
}

}  // namespace paddleop::cmd
