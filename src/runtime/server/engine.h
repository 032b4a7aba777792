#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "net/http_server.h"
#include "runtime/protocol/status.h"
#include "runtime/server/job_runner.h"

namespace paddleop::runtime {

class PeerDirectory;

// What a runtime does with the volume, by the driver of the set: our own engine, or the official
// client.
//
// Thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;

  // Where this runtime keeps its journal and its table of peers.
  virtual std::string state_dir() const = 0;
  // Called once, before anything below: the other partitions. Borrowed.
  virtual Result<void> Start(const Context& ctx, PeerDirectory& peers) = 0;

  // Carries out parts.
  virtual JobRunner& parts() = 0;
  // Over how many of the set's `partitions` a job is spread.
  virtual std::uint32_t Width(const JobRequest& request, std::uint32_t partitions) const = 0;
  // Fills in what it knows: sizes, files, cache, disks, reads. From counters: must not walk.
  virtual void Describe(const Context& ctx, CacheInfo& info) = 0;
  // Blocks for peers and, on the local socket, for mounts of this node. nullopt: not a path of
  // blocks.
  virtual std::optional<net::ServerResponse> Serve(const Context& ctx,
                                                   const net::ServerRequest& request,
                                                   bool local) = 0;
  // False: somebody removed what this engine keeps in the cache directory, so another one has to be
  // opened.
  virtual bool Intact() = 0;
  // The set may have changed: a job that was spread has ended.
  virtual void JobEnded() = 0;
  // Drops all that the set has on this node, except the state directory.
  virtual Result<void> Purge(const Context& ctx) = 0;
  // Where mounts of this node find Serve(); empty: nowhere.
  virtual std::string socket_path() const = 0;
};

}  // namespace paddleop::runtime
