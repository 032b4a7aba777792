#include "runtime/server/juicefs_engine.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/thread_pool.h"
#include "runtime/server/internal/child_process.h"
#include "runtime/server/juicefs_command.h"
#include "runtime/server/parts.h"
#include "volume/peer/local_peer.h"

namespace paddleop::runtime {
namespace {

namespace fs = std::filesystem;

// The last line that says something, without terminal colours.
std::string LastLine(const std::string& output) {
  std::string line;
  std::string last;
  std::istringstream in(output);
  while (std::getline(in, line)) {
    std::erase_if(line, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    if (!line.empty()) last = line;
  }
  return last.substr(0, 500);
}

class JuicefsEngine final : public Engine, public JobRunner {
 public:
  JuicefsEngine(JuicefsEngineOptions options, const Logger& log)
      : options_(std::move(options)), log_(log) {
    state_dir_ = options_.state_dir.empty()
                     ? volume::RuntimeStateDir(options_.cache_directories.front(), options_.set)
                     : options_.state_dir;
  }

  std::string state_dir() const override { return state_dir_; }
  std::string socket_path() const override { return {}; }
  Result<void> Start(const Context& /*ctx*/, PeerDirectory& /*peers*/) override {
    meter_ = std::jthread([this](const std::stop_token& stop) { Measure(stop); });
    return {};
  }
  JobRunner& parts() override { return *this; }
  std::uint32_t Width(const JobRequest& request, std::uint32_t partitions) const override {
    // The official tool has one process for these.
    return request.kind == JobKind::kSync || request.kind == JobKind::kRmr ? 1 : partitions;
  }

  Result<std::string> Run(const Context& ctx, const JobRequest& request,
                          JobReporter& report) override {
    switch (request.kind) {
      case JobKind::kSync:
        return Sync(ctx, request, report);
      case JobKind::kWarmup:
        return Warmup(ctx, request, report);
      case JobKind::kClear:
        return Clear(ctx, request);
      case JobKind::kRmr:
        return Rmr(ctx, request, report);
    }
    return Fail(Code::kInternal, "no such kind of job");
  }

  void Describe(const Context& /*ctx*/, CacheInfo& info) override {
    info.volume = options_.set;
    {
      MutexLock lock(mutex_);
      info.cached_size = cached_bytes_;
      info.totals_known = totals_.has_value();
      if (totals_) {
        info.total_size = totals_->bytes;
        info.total_files = totals_->files;
      }
    }
    struct statvfs vfs{};
    std::set<dev_t> disks;
    for (const std::string& directory : options_.cache_directories) {
      struct stat st{};
      if (::stat(directory.c_str(), &st) != 0 || !disks.insert(st.st_dev).second) continue;
      if (::statvfs(directory.c_str(), &vfs) != 0) continue;
      info.disk_size += vfs.f_blocks * vfs.f_frsize;
      info.disk_avail += vfs.f_bavail * vfs.f_frsize;
      info.disk_used += (vfs.f_blocks - vfs.f_bfree) * vfs.f_frsize;
    }
  }

  std::optional<net::ServerResponse> Serve(const Context&, const net::ServerRequest&,
                                           bool) override {
    return std::nullopt;
  }
  bool Intact() override { return ::access(state_dir_.c_str(), F_OK) == 0 || errno != ENOENT; }
  void JobEnded() override {
    MutexLock lock(mutex_);
    asked_ = true;
    wake_.notify_all();
  }
  Result<void> Purge(const Context& ctx) override {
    RETURN_IF_ERROR(Juicefs(ctx, {"warmup", "--evict", options_.mount}, {}));
    return {};
  }

 private:
  Result<std::string> Juicefs(const Context& ctx, std::vector<std::string> args,
                              const std::vector<std::string>& environment) {
    args.insert(args.begin(), options_.program);
    const std::string what = args[0] + " " + args[1];
    log_.Info(ctx, "official client started", {{"command", args[1]}});
    ASSIGN_OR_RETURN(auto child, internal::RunChild(ctx, args, environment));
    if (child.exit_code != 0) {
      return Fail(Code::kInternal, "{} ended with {}: {}", what, child.exit_code,
                  LastLine(child.output));
    }
    return std::move(child.output);
  }

  Result<std::string> Sync(const Context& ctx, const JobRequest& request, JobReporter& report) {
    api::ProgressCount files;
    for (const JobSource& source : request.sources) {
      RETURN_IF_ERROR(CheckLocalSource(source.uri, options_.source_dirs));
      ChildCommand command = JuicefsSync(options_.program, options_.mount, request.sync, source);
      std::vector<std::string> args(command.argv.begin() + 1, command.argv.end());
      ASSIGN_OR_RETURN(const std::string output,
                       Juicefs(ctx, std::move(args), command.environment));
      const api::ProgressCount count = ReadSyncSummary(output);
      files.total += count.total;
      files.done += count.done;
      files.skipped += count.skipped;
      files.failed += count.failed;
      report.Progress(files, {});
    }
    return fmt::format("{} files copied, {} skipped", files.done, files.skipped);
  }

  // Relative paths of regular files below `paths`, in byte order.
  Result<std::vector<std::string>> ListFiles(const Context& ctx,
                                             const std::vector<std::string>& paths) {
    std::vector<std::string> files;
    for (const std::string& path : paths.empty() ? std::vector<std::string>{""} : paths) {
      const std::string top = options_.mount + "/" + path;
      std::error_code error;
      if (fs::is_regular_file(fs::symlink_status(top, error))) {
        files.push_back(path);
        continue;
      }
      for (fs::recursive_directory_iterator it(top, error), end; !error && it != end;
           it.increment(error)) {
        RETURN_IF_ERROR(ctx.Check());
        if (it->is_regular_file(error) && !it->is_symlink(error)) {
          files.push_back(it->path().string().substr(options_.mount.size() + 1));
        }
      }
      if (error) return std::unexpected(ErrnoStatus(error.value(), "list " + top));
    }
    std::ranges::sort(files);
    return files;
  }

  Result<std::string> Warmup(const Context& ctx, const JobRequest& request, JobReporter& report) {
    std::vector<std::string> files;
    if (request.warmup.file.empty()) {
      ASSIGN_OR_RETURN(files, ListFiles(ctx, request.warmup.paths));
    } else {
      const std::string path = options_.mount + "/" + request.warmup.file;
      ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 30));
      std::istringstream in(text);
      std::string line;
      while (std::getline(in, line)) {
        const std::string name = line.substr(0, line.find_first_of(" \t\r"));
        if (name.empty()) continue;
        RETURN_IF_ERROR(CheckSetPath(name, "options.file " + request.warmup.file));
        files.push_back(name);
      }
    }
    ASSIGN_OR_RETURN(const auto share,
                     ShareOf(files, request.warmup, request.part->index, request.part->count));
    const auto total = static_cast<std::int64_t>(share.size());
    report.Progress({.total = total}, {});
    if (share.empty()) return std::string("nothing to cache here");
    std::string list;
    for (const std::string& file : share) list += options_.mount + "/" + file + "\n";
    const std::string list_file = state_dir_ + "/warmup-" + request.name + ".list";
    RETURN_IF_ERROR(WriteFileAtomic(list_file, list, 0600));
    std::vector<std::string> args = {"warmup", "--file", list_file};
    if (request.warmup.threads > 0) {
      args.push_back(fmt::format("--threads={}", request.warmup.threads));
    }
    auto done = Juicefs(ctx, std::move(args), {});
    ::unlink(list_file.c_str());
    if (!done) return done;
    report.Progress({.total = total, .done = total}, {});
    return fmt::format("{} files cached", FormatCount(share.size()));
  }

  Result<std::string> Clear(const Context& ctx, const JobRequest& request) {
    std::vector<std::string> args = {"warmup", "--evict"};
    for (const std::string& path : request.paths.paths) {
      if (!path.starts_with('/')) {
        args.push_back(options_.mount + "/" + path);
      } else if (std::ranges::find(options_.cache_directories, path) ==
                 options_.cache_directories.end()) {
        return Fail(Code::kInvalid, "options.paths: {} is not a cache directory of the set", path);
      }
    }
    if (args.size() == 2) args.push_back(options_.mount);
    RETURN_IF_ERROR(Juicefs(ctx, std::move(args), {}));
    return std::string("cleared");
  }

  Result<std::string> Rmr(const Context& ctx, const JobRequest& request, JobReporter& report) {
    api::ProgressCount paths{.total = static_cast<std::int64_t>(request.paths.paths.size())};
    for (const std::string& path : request.paths.paths) {
      const std::string target = options_.mount + "/" + path;
      struct stat st{};
      // The run before this one removed it and was killed before it could say so.
      const bool gone = report.Again() && ::lstat(target.c_str(), &st) != 0 && errno == ENOENT;
      auto removed = gone ? Result<std::string>("") : Juicefs(ctx, {"rmr", target}, {});
      RETURN_IF_ERROR(ctx.Check());
      if (removed) {
        ++paths.done;
      } else {
        ++paths.failed;
        report.Failed({path, removed.error().message()});
      }
      report.Progress(paths, {});
    }
    std::string text = fmt::format("{} of {} paths removed", paths.done, paths.total);
    if (paths.failed > 0) return Fail(Code::kInternal, "{}", text);
    return text;
  }

  // The official client keeps no counters that we could read, so its directories are walked and it
  // is asked for the size of the tree, in the background.
  void Measure(const std::stop_token& stop) {
    SetThreadName("cache-size");
    const Context ctx = Context::Background().WithStop(stop);
    Usage seen;
    int looks = 0;
    while (!stop.stop_requested()) {
      const std::uint64_t cached = CachedBytes(ctx);
      {
        MutexLock lock(mutex_);
        cached_bytes_ = cached;
      }
      // Its sums come a moment after what changed them.
      if (const Usage now = UsageNow(); now != seen || !Known()) {
        seen = now;
        looks = 3;
      }
      if (looks > 0 && LookAtTree(ctx)) --looks;
      MutexLock lock(mutex_);
      wake_.wait_for(lock, stop, std::chrono::seconds(5),
                     [&]() REQUIRES(mutex_) { return asked_; });
      asked_ = false;
    }
  }

  std::uint64_t CachedBytes(const Context& ctx) const {
    std::uint64_t bytes = 0;
    for (const std::string& directory : options_.cache_directories) {
      std::error_code error;
      for (fs::recursive_directory_iterator it(directory, error), end;
           !error && it != end && !ctx.Stopped(); it.increment(error)) {
        if (it->path().native().find("/raw/") == std::string::npos) continue;
        if (it->is_regular_file(error)) bytes += CachedBlockSize(it->path().filename().native());
        error.clear();
      }
    }
    return bytes;
  }

  // What the volume takes, in pages and with its directories: changes whenever the tree does.
  using Usage = std::pair<std::uint64_t, std::uint64_t>;
  Usage UsageNow() const {
    struct statvfs vfs{};
    if (::statvfs(options_.mount.c_str(), &vfs) != 0) return {};
    return {vfs.f_blocks - vfs.f_bfree, vfs.f_files - vfs.f_ffree};
  }

  bool Known() {
    MutexLock lock(mutex_);
    return totals_.has_value();
  }

  bool LookAtTree(const Context& ctx) {
    auto child = internal::RunChild(ctx.WithTimeout(std::chrono::minutes(5)),
                                    {options_.program, "info", "-r", options_.mount}, {});
    const auto totals = child && child->exit_code == 0 ? ReadInfo(child->output) : std::nullopt;
    if (!totals) {
      if (!ctx.Stopped()) {
        log_.Warn(ctx, "size of the set not found",
                  {{"error", child ? LastLine(child->output) : child.error().message()}});
      }
      return false;
    }
    MutexLock lock(mutex_);
    totals_ = totals;
    return true;
  }

  const JuicefsEngineOptions options_;
  const Logger& log_;
  std::string state_dir_;
  Mutex mutex_;
  CondVar wake_;
  bool asked_ GUARDED_BY(mutex_) = false;  // to look at once
  std::uint64_t cached_bytes_ GUARDED_BY(mutex_) = 0;
  std::optional<TreeTotals> totals_ GUARDED_BY(mutex_);
  std::jthread meter_;
};

}  // namespace

Result<std::shared_ptr<Engine>> OpenJuicefsEngine(const Context& /*ctx*/,
                                                  JuicefsEngineOptions options, const Logger& log) {
  if (options.cache_directories.empty()) {
    return Fail(Code::kInvalid, "no cache directory is given");
  }
  while (options.mount.size() > 1 && options.mount.ends_with('/')) options.mount.pop_back();
  struct stat st{};
  if (::stat(options.mount.c_str(), &st) != 0) return ErrnoFail("--data-dir {}", options.mount);
  // The root of every volume of the official client has inode 1.
  if (!S_ISDIR(st.st_mode) || st.st_ino != 1) {
    return Fail(Code::kUnavailable, "no volume is mounted at {}", options.mount);
  }
  return std::make_shared<JuicefsEngine>(std::move(options), log);
}

}  // namespace paddleop::runtime
