#include "volume/cache/cache_options.h"

#include <glob.h>
#include <unistd.h>

#include <charconv>
#include <set>

#include "base/posix.h"

namespace paddleop::volume {
namespace {

constexpr std::pair<std::string_view, ChecksumLevel> kChecksumLevels[] = {
    {"none", ChecksumLevel::kNone},
    {"full", ChecksumLevel::kFull},
    {"shrink", ChecksumLevel::kShrink},
    {"extend", ChecksumLevel::kExtend},
};

void AddMatches(const std::string& pattern, std::vector<std::string>& paths);

std::vector<std::string> SplitLevel(const std::string& text) {
  const char separator = text.find(':') == std::string::npos ? ',' : ':';
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) AddMatches(text.substr(at, end - at), parts);
    at = end + 1;
  }
  return parts;
}

// Directories that match a pattern; what is no pattern, or matches nothing, stands for itself.
void AddMatches(const std::string& pattern, std::vector<std::string>& paths) {
  if (pattern.find_first_of("*?[") != std::string::npos) {
    glob_t found{};
    const int result = ::glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &found);
    for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i)
      paths.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    if (result == 0) return;
  }
  paths.push_back(pattern);
}

Result<std::uint64_t> ParseMebibytes(const std::string& text) {
  std::uint64_t mib = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
  if (error != std::errc() || end != text.data() + text.size() || mib > (1ULL << 40)) {
    return Fail(Code::kInvalid, "--cache-size is \"{}\"; give a number of MiB", text);
  }
  return mib << 20;
}

Result<double> ParseRatio(const std::string& text) {
  double ratio = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
  if (error != std::errc() || end != text.data() + text.size() || !(ratio >= 0) || ratio >= 1) {
    return Fail(Code::kInvalid,
                "--free-space-ratio is \"{}\"; give a number from 0 to below 1, such as 0.1", text);
  }
  return ratio;
}

// The n-th value, or the last one for all levels after it.
const std::string* ValueOf(const std::vector<std::string>& values, std::size_t n) {
  if (values.empty()) return nullptr;
  return &values[std::min(n, values.size() - 1)];
}

}  // namespace

Result<ChecksumLevel> ParseChecksumLevel(std::string_view name) {
  for (const auto& [known, level] : kChecksumLevels) {
    if (known == name) return level;
  }
  return Fail(Code::kInvalid, "checksum level \"{}\" is not one of none, full, shrink, extend",
              name);
}

std::string_view ChecksumLevelName(ChecksumLevel level) {
  for (const auto& [name, known] : kChecksumLevels) {
    if (known == level) return name;
  }
  return "unknown";
}

Result<void> CacheOptions::Validate() const {
  std::set<std::string> seen;
  for (const CacheDirectory& directory : directories) {
    if (!directory.path.starts_with('/')) {
      return Fail(Code::kInvalid, "cache directory \"{}\" is not an absolute path", directory.path);
    }
    if (!seen.insert(directory.path).second)
      return Fail(Code::kInvalid, "cache directory {} is given twice", directory.path);
    if (!(directory.free_space_ratio >= 0) || directory.free_space_ratio >= 1) {
      return Fail(Code::kInvalid, "free space ratio of {} is {}; give 0 to below 1", directory.path,
                  directory.free_space_ratio);
    }
  }
  return {};
}

Result<CacheOptions> ParseCacheOptions(const std::vector<std::string>& directories,
                                       const std::vector<std::string>& sizes_mib,
                                       const std::vector<std::string>& free_space_ratios) {
  CacheOptions options;
  for (std::size_t level = 0; level < directories.size(); ++level) {
    std::uint64_t capacity = kDefaultCacheBytes;
    double ratio = kDefaultFreeSpaceRatio;
    if (const auto* text = ValueOf(sizes_mib, level)) {
      ASSIGN_OR_RETURN(capacity, ParseMebibytes(*text));
    }
    if (const auto* text = ValueOf(free_space_ratios, level)) {
      ASSIGN_OR_RETURN(ratio, ParseRatio(*text));
    }
    const auto paths = SplitLevel(directories[level]);
    if (paths.empty()) return Fail(Code::kInvalid, "--cache-dir is empty; give a directory");
    if (paths.size() == 1 && paths[0] == "memory") {
      options.memory_bytes = capacity;
      continue;
    }
    for (std::string path : paths) {
      while (path.size() > 1 && path.ends_with('/')) path.pop_back();
      options.directories.push_back({.path = std::move(path),
                                     .capacity = capacity / paths.size(),
                                     .free_space_ratio = ratio,
                                     .level = static_cast<unsigned>(level)});
    }
  }
  RETURN_IF_ERROR(options.Validate());
  // As with the official client, a size of zero means no cache.
  std::erase_if(options.directories, [](const auto& directory) { return directory.capacity == 0; });
  return options;
}

std::string DefaultCacheDirectory() {
  if (::geteuid() == 0) return "/var/jfsCache";
  return GetEnv("HOME", "/tmp") + "/.juicefs/cache";
}

}  // namespace paddleop::volume
