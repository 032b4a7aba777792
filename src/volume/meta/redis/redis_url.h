#pragma once

#include <string>

#include "redis/pool.h"

namespace paddleop::volume {

// Reads redis://[USER[:PASSWORD]@]HOST[:PORT][/DB], rediss://... or
// unix://[USER:PASSWORD@]/PATH?db=N, with the options of the official client. A URL without a
// password takes it from the environment: REDIS_PASSWORD, META_PASSWORD, or the file that
// META_PASSWORD_FILE names.
//
// kInvalid says what is wrong; kNotSupported for Sentinel and Cluster, which list several hosts.
Result<redis::PoolOptions> ParseRedisUrl(const std::string& text);

}  // namespace paddleop::volume
