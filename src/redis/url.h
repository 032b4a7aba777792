#pragma once

#include <string_view>

#include "base/status.h"
#include "redis/pool.h"

namespace paddleop::redis {

// Reads a Redis URL as JuiceFS's metadata URLs are written:
//
//   redis://[user]:[password]@host[:port][/database][?options]
//   rediss://...                                        the same over TLS
//   unix://[[user]:[password]@]/path/to.sock[?db=1&...]
//
// Options: db, read-timeout, write-timeout, dial-timeout, min-retry-backoff, max-retry-backoff (as
// "30s" or "500ms"), pool-size, client-name; with rediss: tls-ca-cert-file, tls-cert-file,
// tls-key-file, tls-server-name, insecure-skip-verify (any value). Underscores may stand for the
// dashes. route-read and client-cache*, which only allow a client to read from elsewhere, are
// accepted and not used. Without a password in the URL the environment's REDIS_PASSWORD is taken.
//
// kInvalid names the part that is wrong, never the password. kNotSupported for several hosts: Redis
// Cluster and Sentinel.
Result<PoolOptions> ParseRedisUrl(std::string_view text);

}  // namespace paddleop::redis
