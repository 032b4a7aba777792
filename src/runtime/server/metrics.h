// Names of what this room counts; docs/metrics.md lists them for users.
#pragma once

namespace paddleop::runtime::metric {

// Requests refused before they were looked at: label reason is no_token, wrong_token or not_found.
inline constexpr char kRefused[] = "paddleop_runtime_requests_refused_total";
inline constexpr char kRefusedHelp[] = "Requests refused for who asks or what for.";
// Jobs that ended: labels kind (sync, warmup, clear, rmr) and state (succeeded, failed, cancelled).
inline constexpr char kJobs[] = "paddleop_runtime_jobs_total";
inline constexpr char kJobsHelp[] = "Jobs that ended.";
inline constexpr char kJobsUnfinished[] = "paddleop_runtime_jobs_unfinished";
inline constexpr char kJobsUnfinishedHelp[] = "Jobs that wait or run.";

}  // namespace paddleop::runtime::metric
