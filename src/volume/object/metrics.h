// Names of this room's metrics; docs/metrics.md lists them.
#pragma once

namespace paddleop::volume::object {

// Labels of the first four: `op` is get, put, delete, delete_many, head, list, copy, upload or
// create.
inline constexpr char kRequestSeconds[] = "paddleop_object_request_seconds";
inline constexpr char kRequestSecondsHelp[] = "Time of object store operations, per attempt.";
// `code` is not_found, permission, unavailable, deadline, corrupt or other.
inline constexpr char kErrorsTotal[] = "paddleop_object_errors_total";
inline constexpr char kErrorsTotalHelp[] = "Failed object store operations, per attempt.";
inline constexpr char kInFlight[] = "paddleop_object_in_flight";
inline constexpr char kInFlightHelp[] = "Object store operations that are running.";
inline constexpr char kRetriesTotal[] = "paddleop_object_retries_total";
inline constexpr char kRetriesTotalHelp[] = "Object store operations that were tried again.";
// `direction` is read or written.
inline constexpr char kBytesTotal[] = "paddleop_object_bytes_total";
inline constexpr char kBytesTotalHelp[] = "Bytes of objects read from and written to the store.";

}  // namespace paddleop::volume::object
