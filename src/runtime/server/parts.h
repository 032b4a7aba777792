// What the parts of jobs do with our own engine, one file each.
#pragma once

#include "base/log.h"
#include "base/metrics.h"
#include "runtime/server/job_runner.h"
#include "volume/peer/block_node.h"
#include "volume/peer/peer_link.h"
#include "volume/vfs/volume.h"

namespace paddleop::runtime {

// What a part works with; all borrowed.
struct PartTools {
  volume::Volume& volume;
  volume::BlockNode& node;
  volume::PeerLink& link;
  std::string journal_dir;  // of imports
  std::vector<std::string> cache_directories;
  std::vector<std::string> source_directories;  // local sources must lie below one of them
  const Logger& log;
  MetricsRegistry& metrics;
};

// kPermission if the source is a file of this machine that does not lie below one of `allowed`.
Result<void> CheckLocalSource(const std::string& uri, const std::vector<std::string>& allowed);

// Imports this part's share of every source.
Result<std::string> RunSyncPart(const Context& ctx, const PartTools& tools,
                                const JobRequest& request, JobReporter& report);
// Brings to every partition what it will read, of the blocks that this partition owns.
Result<std::string> RunWarmupPart(const Context& ctx, const PartTools& tools,
                                  const JobRequest& request, JobReporter& report);
// Empties this partition's cache, or drops what it has of some paths.
Result<std::string> RunClearPart(const Context& ctx, const PartTools& tools,
                                 const JobRequest& request, JobReporter& report);
// Removes paths of the set.
Result<std::string> RunRmrPart(const Context& ctx, const PartTools& tools,
                               const JobRequest& request, JobReporter& report);

}  // namespace paddleop::runtime
