#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "volume/object/limit_store.h"
#include "volume/object/object_store.h"
#include "volume/object/retry_store.h"
#include "volume/object/threaded_store.h"
#include "volume/object/uri.h"

namespace paddleop::volume::object {

struct StoreOptions {
  RetryOptions retry = {};
  BandwidthLimit limit = {};
  // Asynchronous requests beyond this many wait for a connection; of the blocking ones each needs
  // its own.
  std::size_t max_connections = 128;
  std::chrono::milliseconds connect_timeout{10'000};
  // A transfer that moves nothing for this long is given up and tried again.
  std::chrono::milliseconds stall_timeout{30'000};
  bool sign_payload = false;     // see S3Options
  bool sync_files = false;       // see FileStoreOptions
  ThreadedOptions threads = {};  // of stores that are not asynchronous by themselves
  Environment environment = ProcessEnvironment();
  Clock* clock = &Clock::System();
  MetricsRegistry* metrics = nullptr;  // must outlive the store
};

// Opens the store that `juicefs format --storage --bucket` would use, with all that belongs around
// it: checksums, metrics, bandwidth limit, retries, and a pool where the store itself blocks. Keys
// that are not given are looked for in the environment (StorageConfig::FillKeys); without any,
// requests are not signed. Nothing is sent yet, so a wrong address or key shows with the first
// call.
//
// kInvalid names the member that is wrong; kNotSupported says what is there instead.
Result<std::unique_ptr<ObjectStore>> OpenStore(StorageConfig config,
                                               const StoreOptions& options = {});

}  // namespace paddleop::volume::object
