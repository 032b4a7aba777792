#include "volume/data/source.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/posix.h"
#include "volume/data/internal/volume_source.h"
#include "volume/object/limit_store.h"
#include "volume/object/prefix_store.h"
#include "volume/object/threaded_store.h"

namespace paddleop::volume::data {
namespace {

using object::ObjectStore;

constexpr std::string_view kVolumeScheme = "jfs://";
constexpr std::string_view kSqliteScheme = "sqlite3://";
constexpr std::size_t kMaxBlockingThreads = 16;  // of a source that needs a thread for each read

object::StoreOptions StoreOptionsOf(const SourceOptions& options, MetricsRegistry& metrics) {
  object::StoreOptions store = options.store;
  store.limit.download_mbps = options.bwlimit_mbps;
  store.max_connections = options.threads + 2;  // one for the listing
  store.threads.threads = std::min(options.threads, kMaxBlockingThreads);
  store.metrics = &metrics;
  return store;
}

Result<Source> OpenVolume(const Context& ctx, const std::string& uri, const SourceOptions& options,
                          const Logger& log, MetricsRegistry& metrics) {
  std::string meta_url = uri;
  std::string path = "/";
  if (uri.starts_with(kVolumeScheme)) {
    const std::string_view rest = std::string_view(uri).substr(kVolumeScheme.size());
    const std::string name(rest.substr(0, rest.find('/')));
    if (rest.find('/') != std::string_view::npos) path = rest.substr(rest.find('/'));
    meta_url = GetEnv(name.c_str());
    if (name.empty() || meta_url.empty()) {
      return Fail(Code::kInvalid,
                  "{}: the environment variable {} must hold the volume's metadata URL", uri,
                  name.empty() ? "NAME of jfs://NAME/PATH" : name);
    }
  }
  ASSIGN_OR_RETURN(VolumeSource opened, OpenVolumeSource(ctx, meta_url, path, log, metrics));
  Source source;
  source.uri = RedactUrl(uri);
  source.single = std::move(opened.single);
  source.volume = std::move(opened.place);
  source.store = object::WithThreads(
      std::move(opened.store),
      {.threads = std::min(options.threads, kMaxBlockingThreads), .queue_limit = 4096});
  source.store =
      object::WithBandwidthLimit(std::move(source.store), {.download_mbps = options.bwlimit_mbps});
  return source;
}

// Splits "a/b" into the key "b" in directory "a/".
std::pair<std::string, std::string> SplitKey(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

// A path of this machine: a directory, or one file.
Result<void> ResolveFile(object::StorageUri& where, Source& source) {
  std::string& path = where.config.bucket;
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return ErrnoFail("source {}", path);
  if (S_ISDIR(info.st_mode)) {
    if (!path.ends_with('/')) path += '/';
    return {};
  }
  auto [directory, name] = SplitKey(path);
  path = std::move(directory);
  source.single = std::move(name);
  return {};
}

std::optional<MountedPlace> FindMounted(const std::string& directory) {
  struct statfs system{};
  struct stat info{};
  if (::statfs(directory.c_str(), &system) != 0 || system.f_type != FUSE_SUPER_MAGIC) return {};
  if (::stat(directory.c_str(), &info) != 0) return {};
  const auto time = [](const timespec& spec) {
    return Timestamp{.seconds = spec.tv_sec, .nanos = static_cast<std::uint32_t>(spec.tv_nsec)};
  };
  return MountedPlace{
      .directory = Ino{info.st_ino}, .mtime = time(info.st_mtim), .ctime = time(info.st_ctim)};
}

}  // namespace

Result<Source> OpenSource(const Context& ctx, const std::string& uri, const SourceOptions& options,
                          const Logger& log, MetricsRegistry& metrics) {
  if (uri.starts_with(kVolumeScheme) || uri.starts_with(kSqliteScheme)) {
    auto source = OpenVolume(ctx, uri, options, log, metrics);
    if (source) source->bwlimit_mbps = options.bwlimit_mbps;
    return source;
  }
  ASSIGN_OR_RETURN(object::StorageUri where, object::ParseStorageUri(uri, options.no_https));
  if (!options.access_key.empty()) {
    where.config.access_key = options.access_key;
    where.config.secret_key = options.secret_key;
    where.config.session_token = options.session_token;
  }
  Source source;
  source.bwlimit_mbps = options.bwlimit_mbps;
  source.uri = where.Redacted();
  if (where.config.storage == "file") {
    RETURN_IF_ERROR(ResolveFile(where, source));
    source.mounted = FindMounted(where.config.bucket);
  }
  ASSIGN_OR_RETURN(source.store, object::OpenStore(where.config, StoreOptionsOf(options, metrics)));
  if (where.prefix.empty()) return source;
  if (!where.prefix.ends_with('/')) {
    auto object = source.store->Head(ctx, where.prefix);
    if (object) {
      auto [directory, name] = SplitKey(where.prefix);
      source.single = std::move(name);
      where.prefix = std::move(directory);
    } else if (object.error().code() == Code::kUnavailable ||
               object.error().code() == Code::kInvalid) {
      return std::unexpected(std::move(object).error().Wrap("source " + source.uri));
    } else {
      // Who may list may not be allowed to ask for a single object that is not there.
      where.prefix += '/';
    }
  }
  source.whole = false;
  if (!where.prefix.empty()) {
    source.store = object::WithPrefix(std::move(source.store), where.prefix);
  }
  return source;
}

}  // namespace paddleop::volume::data
