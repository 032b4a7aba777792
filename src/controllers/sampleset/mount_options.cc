#include "controllers/sampleset/mount_options.h"

#include <fmt/format.h>

#include <map>

#include "controllers/sampleset/names.h"

namespace paddleop::controllers::sampleset {
namespace {

using Options = std::map<std::string, std::string>;

void Put(Options& options, const char* name, const std::string& value) {
  if (!value.empty()) options[name] = value;
}
void Put(Options& options, const char* name, std::int64_t value) {
  if (value != 0) options[name] = std::to_string(value);
}
void Put(Options& options, const char* name, bool value) {
  if (value) options[name] = "";
}

}  // namespace

std::int64_t CacheSizeMib(const api::SampleSetSpec& spec) {
  std::int64_t total = 0;
  for (const auto& level : spec.cache_levels) total += level.cache_size;
  if (total > 0) return total;
  const bool given = spec.csi && spec.csi->mount_options && spec.csi->mount_options->cache_size > 0;
  return given ? spec.csi->mount_options->cache_size : kUnlimitedMib;
}

std::string MountOptionsText(const api::SampleSetSpec& spec, const std::string& volume_name) {
  Options options;
  if (spec.csi && spec.csi->mount_options) {
    const auto& given = *spec.csi->mount_options;
    Put(options, "metrics", given.metrics);
    Put(options, "attr-cache", std::int64_t{given.attr_cache});
    Put(options, "entry-cache", std::int64_t{given.entry_cache});
    Put(options, "dir-entry-cache", std::int64_t{given.dir_entry_cache});
    Put(options, "enable-xattr", given.enable_xattr);
    Put(options, "get-timeout", std::int64_t{given.get_timeout});
    Put(options, "put-timeout", std::int64_t{given.put_timeout});
    Put(options, "io-retries", std::int64_t{given.io_retries});
    Put(options, "max-uploads", std::int64_t{given.max_uploads});
    Put(options, "buffer-size", std::int64_t{given.buffer_size});
    Put(options, "prefetch", std::int64_t{given.prefetch});
    Put(options, "writeback", given.writeback);
    Put(options, "free-space-ratio", given.free_space_ratio);
    Put(options, "cache-partial-only", given.cache_partial_only);
    Put(options, "open-cache", std::int64_t{given.open_cache});
    Put(options, "sub-dir", given.sub_dir);
  }
  std::string directories;
  for (const auto& directory : CacheDirectories(spec, volume_name))
    directories += (directories.empty() ? "" : ":") + directory.path;
  options["cache-dir"] = directories;
  options["cache-size"] = std::to_string(CacheSizeMib(spec));

  std::string text;
  for (const auto& [name, value] : options) {
    if (!text.empty()) text += ',';
    text += name;
    if (!value.empty()) text.append("=").append(value);
  }
  return text;
}

}  // namespace paddleop::controllers::sampleset
