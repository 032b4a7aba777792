#pragma once

#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/secret.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

struct RedisStoreOptions {
  std::string bucket =
      {};                 // redis[s]://[user:password@]host[:port][/db][?options], see redis/url.h
  std::string user = {};  // both replace what the URL says
  Secret password = {};
  MetricsRegistry* metrics = nullptr;  // must outlive the store
};

// Objects as strings of a Redis database: the layout of the official client's `redis` storage. For
// small volumes and first tries; every object takes the server's memory.
//
// There are no times and no etags. A listing reads all names under its prefix before it shows the
// first. Keys of other types are no objects.
Result<std::unique_ptr<ObjectStore>> OpenRedisStore(const RedisStoreOptions& options);

}  // namespace paddleop::volume::object
