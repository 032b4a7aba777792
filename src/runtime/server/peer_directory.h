#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/secret.h"
#include "runtime/client/runtime_client.h"
#include "runtime/protocol/status.h"

namespace paddleop::runtime {

struct PeerDirectoryOptions {
  std::uint32_t self = 0;  // index of this runtime
  std::string file;        // where the table is kept over restarts
  std::string ca_file;
  std::function<Secret()> token;
  std::function<Secret()> previous_token;
};

// The partitions of the set and clients for them. The table comes from the controller and is kept
// on disk; before the first one there is only this runtime.
//
// Thread-safe.
class PeerDirectory {
 public:
  static Result<std::unique_ptr<PeerDirectory>> Open(PeerDirectoryOptions options);

  // kConflict if the present table is newer; kInvalid if this runtime is not in it and no table
  // without it makes sense (an empty one).
  Result<void> Put(const PeerTable& table);
  PeerTable Table() const;
  std::uint32_t self() const { return options_.self; }
  // Partitions of the set: at least one.
  std::uint32_t count() const;

  // A client for another runtime; kNotFound if the table has no such partition. A new one is made
  // when address, name or token have changed.
  Result<std::shared_ptr<RuntimeClient>> Client(std::uint32_t index);

 private:
  struct Known {
    ClientOptions options;
    std::shared_ptr<RuntimeClient> client;
  };

  explicit PeerDirectory(PeerDirectoryOptions options) : options_(std::move(options)) {}

  const PeerDirectoryOptions options_;
  mutable Mutex mutex_;
  PeerTable table_ GUARDED_BY(mutex_);
  std::map<std::uint32_t, Known> clients_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::runtime
