// Command lines of the official client for our jobs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/batch/sample_job.h"
#include "runtime/protocol/job.h"

namespace paddleop::runtime {

struct ChildCommand {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"; where the keys are
};

// `juicefs sync SOURCE MOUNT/PATH/` with the options that are set. Keys go into the environment
// variables that the client's stores read.
ChildCommand JuicefsSync(const std::string& program, const std::string& mount,
                         const api::SyncOptions& options, const JobSource& source);

// What `juicefs sync` says at its end: "Found: 10, skipped: 1, ..., copied: 8 (1.5 KiB), failed:
// 1". Members it does not mention stay zero.
api::ProgressCount ReadSyncSummary(std::string_view output);

struct TreeTotals {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of their content, without what the client adds for pages

  bool operator==(const TreeTotals&) const = default;
};
// What `juicefs info -r` says of a directory; nullopt if it is something else.
std::optional<TreeTotals> ReadInfo(std::string_view output);

// How much data the client keeps in a cache file of this name (ID_INDEX_SIZE); the file itself also
// has checksums. 0 for what is no block.
std::uint64_t CachedBlockSize(std::string_view file_name);

// The files of partition `partition` of `partitions`, out of all of them in order.
Result<std::vector<std::string>> ShareOf(const std::vector<std::string>& files,
                                         const api::WarmupOptions& options, std::uint32_t partition,
                                         std::uint32_t partitions);

}  // namespace paddleop::runtime
