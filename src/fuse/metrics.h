// Names of this room's metrics; docs/metrics.md lists them.
#pragma once

namespace paddleop::fuse {

// Label of the first two: `op` is the kernel's name of the request: lookup, read, write, ...
inline constexpr char kOperationSeconds[] = "paddleop_fuse_operation_seconds";
inline constexpr char kOperationSecondsHelp[] = "Time from a kernel request to its answer.";
inline constexpr char kErrorsTotal[] = "paddleop_fuse_errors_total";
inline constexpr char kErrorsTotalHelp[] =
    "Kernel requests answered with an error, names that do not exist aside.";
// Label `direction` is read or written.
inline constexpr char kBytesTotal[] = "paddleop_fuse_bytes_total";
inline constexpr char kBytesTotalHelp[] = "Bytes given to and taken from the kernel.";
inline constexpr char kAccessLogDropped[] = "paddleop_fuse_access_log_dropped_total";
inline constexpr char kAccessLogDroppedHelp[] =
    "Lines of the access log that its reader was too slow for.";
inline constexpr char kListedNames[] = "paddleop_fuse_listed_names_total";
inline constexpr char kListedNamesHelp[] =
    "Names brought to the kernel before anybody looked them up.";
inline constexpr char kDroppedFiles[] = "paddleop_fuse_dropped_files_total";
inline constexpr char kDroppedFilesHelp[] =
    "Files whose pages were dropped after reading, to keep those of others.";
inline constexpr char kDroppedBytes[] = "paddleop_fuse_dropped_bytes_total";
inline constexpr char kDroppedBytesHelp[] = "Bytes of those files.";
inline constexpr char kPageShare[] = "paddleop_fuse_page_admission_ratio";
inline constexpr char kPageShareHelp[] =
    "Share of the files read now whose pages stay in memory; below 1 while memory is short.";

}  // namespace paddleop::fuse
