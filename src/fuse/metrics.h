// Names of this room's metrics; docs/metrics.md lists them.
#pragma once

namespace paddleop::fuse {

// Label of the first two: `op` is the kernel's name of the request: lookup, read, write, ...
inline constexpr char kOperationSeconds[] = "samplefs_fuse_operation_seconds";
inline constexpr char kOperationSecondsHelp[] = "Time from a kernel request to its answer.";
inline constexpr char kErrorsTotal[] = "samplefs_fuse_errors_total";
inline constexpr char kErrorsTotalHelp[] =
    "Kernel requests answered with an error, names that do not exist aside.";
// Label `direction` is read or written.
inline constexpr char kBytesTotal[] = "samplefs_fuse_bytes_total";
inline constexpr char kBytesTotalHelp[] = "Bytes given to and taken from the kernel.";
inline constexpr char kAccessLogDropped[] = "samplefs_access_log_dropped_total";
inline constexpr char kAccessLogDroppedHelp[] =
    "Lines of the access log that its reader was too slow for.";

}  // namespace paddleop::fuse
