#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/server/engine.h"

namespace paddleop::runtime {

struct JuicefsEngineOptions {
  std::string set;
  std::string mount;                // where the official client has mounted the volume
  std::string program = "juicefs";  // the official client
  std::vector<std::string> cache_directories;
  std::vector<std::string> source_dirs;  // where local sources may lie
  std::string state_dir;                 // empty: in the first cache directory
};

// The official client does the work, on a mount that its own CSI driver has made. kUnavailable
// until the volume is mounted.
Result<std::shared_ptr<Engine>> OpenJuicefsEngine(const Context& ctx, JuicefsEngineOptions options,
                                                  const Logger& log);

}  // namespace paddleop::runtime
