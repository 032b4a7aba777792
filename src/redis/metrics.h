#pragma once

#include "base/metrics.h"

namespace paddleop::redis {

// Names of this room's metrics, as docs/metrics.md lists them.
inline constexpr char kCommandsTotal[] = "paddleop_redis_commands_total";
inline constexpr char kErrorsTotal[] = "paddleop_redis_errors_total";  // label kind: io, reply
inline constexpr char kInFlight[] = "paddleop_redis_calls_in_flight";
inline constexpr char kLatencySeconds[] = "paddleop_redis_call_seconds";
inline constexpr char kRetriesTotal[] = "paddleop_redis_retries_total";
inline constexpr char kConnections[] = "paddleop_redis_connections";
inline constexpr char kDialsTotal[] = "paddleop_redis_dials_total";  // label result: ok, failed
inline constexpr char kTransactionsTotal[] = "paddleop_redis_transactions_total";
inline constexpr char kConflictsTotal[] = "paddleop_redis_transaction_conflicts_total";

// The room's metrics in a registry, found once. Borrowed from the registry, thread-safe.
struct Metrics {
  explicit Metrics(MetricsRegistry& registry);

  MetricsRegistry::Counter& commands;
  MetricsRegistry::Counter& io_errors;
  MetricsRegistry::Counter& error_replies;
  MetricsRegistry::Gauge& in_flight;
  MetricsRegistry::Histogram& latency;
  MetricsRegistry::Counter& retries;
  MetricsRegistry::Gauge& connections;
  MetricsRegistry::Counter& dials;
  MetricsRegistry::Counter& failed_dials;
  MetricsRegistry::Counter& transactions;
  MetricsRegistry::Counter& conflicts;
};

}  // namespace paddleop::redis
