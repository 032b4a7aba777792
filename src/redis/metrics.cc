#include "redis/metrics.h"

namespace paddleop::redis {

Metrics::Metrics(MetricsRegistry& registry)
    : commands(registry.AddCounter(kCommandsTotal, "Commands sent to Redis.")),
      io_errors(registry.AddCounter(kErrorsTotal, "Failed calls to Redis.", {{"kind", "io"}})),
      error_replies(
          registry.AddCounter(kErrorsTotal, "Failed calls to Redis.", {{"kind", "reply"}})),
      in_flight(registry.AddGauge(kInFlight, "Calls to Redis that wait for their replies.")),
      latency(registry.AddHistogram(
          kLatencySeconds, "Time of a call to Redis, from the first byte sent to the last reply.")),
      retries(registry.AddCounter(kRetriesTotal, "Calls to Redis that were sent again.")),
      connections(registry.AddGauge(kConnections, "Open connections to Redis.")),
      dials(registry.AddCounter(kDialsTotal, "Attempts to connect to Redis.", {{"result", "ok"}})),
      failed_dials(registry.AddCounter(kDialsTotal, "Attempts to connect to Redis.",
                                       {{"result", "failed"}})),
      transactions(registry.AddCounter(kTransactionsTotal, "Transactions committed in Redis.")),
      conflicts(registry.AddCounter(kConflictsTotal,
                                    "Transactions that another client's write made void.")) {}

}  // namespace paddleop::redis
