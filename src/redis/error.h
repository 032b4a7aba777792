#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::redis {

// The Status for an error reply ("WRONGTYPE Operation against a key ..."), by what a caller can do:
// kUnavailable  the server is loading, busy, read-only, without its primary or full of clients: not
//               executed, try again later (LOADING, BUSY, READONLY, MASTERDOWN, MISCONF, ...)
// kNoSpace      OOM: over its maxmemory
// kPermission   NOAUTH, WRONGPASS, NOPERM, DENIED
// kNotSupported a Redis Cluster (MOVED, ASK, CROSSSLOT, CLUSTERDOWN), an unknown command
// kNotFound     NOSCRIPT
// kInvalid      everything else: the command itself is wrong
// An EXEC that is refused for such a reason has that code.
// The message names `address` and says what to do where that is known.
Status StatusOfError(std::string_view address, std::string_view text);

// True if after this error reply another connection may do better: one to the new primary, or one
// that is not refused.
bool AsksForAnotherConnection(std::string_view text);

}  // namespace paddleop::redis
