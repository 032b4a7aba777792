#include "controllers/sampleset/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "controllers/common/sources.h"
#include "runtime/protocol/job.h"

namespace paddleop::controllers::sampleset {
namespace {

std::vector<std::string> SplitPaths(std::string_view text) {
  std::vector<std::string> paths;
  while (!text.empty()) {
    const auto colon = text.find(':');
    std::string_view path = text.substr(0, colon);
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    if (!path.empty()) paths.emplace_back(path);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  return paths;
}

template <class List>
bool Contains(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

std::string FinalizerOf(const std::string& set) { return "paddlepaddle.org/sampleset-" + set; }
std::string StatefulSetName(const std::string& set) { return set + "-runtime"; }
std::string ServiceName(const std::string& set) { return set + "-runtime-service"; }
std::string VolumeSecretName(const std::string& set) { return set + "-volume"; }

std::optional<std::int32_t> RuntimeIndex(std::string_view set, std::string_view pod) {
  const std::string prefix = fmt::format("{}-runtime-", set);
  if (!pod.starts_with(prefix)) return std::nullopt;
  pod.remove_prefix(prefix.size());
  std::int32_t index = 0;
  const auto [end, error] = std::from_chars(pod.data(), pod.data() + pod.size(), index);
  if (pod.empty() || error != std::errc{} || end != pod.data() + pod.size() || index < 0)
    return std::nullopt;
  return index;
}

std::string LongName(const api::ObjectMeta& set) {
  return fmt::format("{}-{}", set.name, set.uid.substr(0, 8));
}

std::vector<CacheDirectory> CacheDirectories(const api::SampleSetSpec& spec,
                                             const std::string& volume_name) {
  std::vector<CacheDirectory> directories;
  for (const auto& level : spec.cache_levels) {
    for (auto& path : SplitPaths(level.path)) directories.push_back({level.medium_type, path});
  }
  if (!directories.empty()) return directories;
  std::string root = "/dev/shm";
  if (spec.csi && spec.csi->mount_options && !spec.csi->mount_options->cache_dir.empty()) {
    for (auto& path : SplitPaths(spec.csi->mount_options->cache_dir))
      directories.push_back({"", (path == "/" ? "" : path) + "/" + volume_name});
    if (!directories.empty()) return directories;
  }
  return {{"MEM", root + "/" + volume_name}};
}

bool IsSystemDirectory(std::string_view path) {
  constexpr auto kWhole = std::to_array<std::string_view>(
      {"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys",
       "/usr", "/var/lib/kubelet", "/var/lib/etcd", "/var/run", "/var/log"});
  // These themselves, but not what is below them.
  constexpr auto kTop = std::to_array<std::string_view>(
      {"/", "/dev/shm", "/home", "/media", "/mnt", "/opt", "/srv", "/tmp", "/var", "/var/lib"});
  if (path.find("/../") != std::string_view::npos || path.ends_with("/..") ||
      path.find("/./") != std::string_view::npos || path.find("//") != std::string_view::npos) {
    return true;
  }
  if (Contains(kTop, path)) return true;
  if (path.starts_with("/dev/shm/")) return false;
  return std::any_of(kWhole.begin(), kWhole.end(), [&](std::string_view root) {
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  });
}

Result<void> CheckSpec(const api::SampleSetSpec& spec) {
  const auto sources = spec.AllSources();
  if (sources.size() > runtime::kMaxSources) {
    return Fail(Code::kInvalid, "spec.sources: {} are given; at most {} may be", sources.size(),
                runtime::kMaxSources);
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const bool short_form = spec.source && i == 0;
    const std::string field =
        short_form ? "spec.source" : fmt::format("spec.sources[{}]", i - (spec.source ? 1 : 0));
    RETURN_IF_ERROR(CheckSource(sources[i].uri, spec.Driver(), field + ".uri"));
    if (!sources[i].path.empty())
      RETURN_IF_ERROR(runtime::CheckSetPath(sources[i].path, field + ".path"));
  }
  for (const auto& directory : CacheDirectories(spec, "x")) {
    if (!IsSystemDirectory(directory.path)) continue;
    return Fail(Code::kInvalid,
                "spec.cache.levels: {} belongs to the system or is not a plain path; use a "
                "directory of the cache's own, such as /var/cache/samplefs",
                directory.path);
  }
  if (spec.warmup) {
    const auto& warmup = spec.warmup->options;
    for (std::size_t i = 0; i < warmup.paths.size(); ++i) {
      RETURN_IF_ERROR(
          runtime::CheckSetPath(warmup.paths[i], fmt::format("spec.warmup.paths[{}]", i)));
    }
    if (!warmup.file.empty())
      RETURN_IF_ERROR(runtime::CheckSetPath(warmup.file, "spec.warmup.file"));
  }
  return {};
}

}  // namespace paddleop::controllers::sampleset
