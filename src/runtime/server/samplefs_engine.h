#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "base/secret.h"
#include "runtime/server/engine.h"
#include "volume/cache/cache_options.h"

namespace paddleop::runtime {

struct SamplefsEngineOptions {
  std::uint32_t index = 0;  // of the partition; 0 makes the volume if there is none
  std::string volume_dir;   // see volume_files.h
  volume::CacheOptions cache;
  std::vector<std::string> source_dirs;  // where local sources may lie
  std::string state_dir;                 // empty: in the first cache directory
  std::string ca_file;                   // of the set
  std::function<Secret()> token;
};

// Our own engine: the volume is used as a library, without a mount. kUnavailable if there is no
// volume yet and this is not the partition that makes it.
Result<std::shared_ptr<Engine>> OpenSamplefsEngine(const Context& ctx,
                                                   SamplefsEngineOptions options, const Logger& log,
                                                   MetricsRegistry& metrics);

}  // namespace paddleop::runtime
