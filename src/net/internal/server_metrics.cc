#include <algorithm>

#include "net/internal/session.h"
#include "net/metrics.h"

namespace paddleop::net::internal {
namespace {

MetricsRegistry::Counter& Refused(MetricsRegistry& registry, const std::string& reason) {
  return registry.AddCounter(kHttpServerRefused, "Requests refused by the server itself.",
                             {{"reason", reason}});
}

}  // namespace

ServerMetrics::ServerMetrics(MetricsRegistry& registry)
    : malformed(Refused(registry, "malformed")),
      timeout(Refused(registry, "timeout")),
      too_large(Refused(registry, "too_large")),
      overloaded(Refused(registry, "overloaded")),
      seconds(registry.AddHistogram(kHttpServerSeconds, "Time handlers took.")),
      in_flight(registry.AddGauge(kHttpServerInFlight, "Requests being handled.")),
      connections(registry.AddGauge(kHttpServerConnections, "Open connections.")),
      streams(registry.AddGauge(kHttpServerStreams, "Open response streams.")) {
  for (std::size_t i = 0; i < responses.size(); ++i) {
    responses[i] = &registry.AddCounter(kHttpServerResponses, "Responses by class of status.",
                                        {{"code", fmt::format("{}xx", i + 1)}});
  }
}

void ServerMetrics::CountResponse(int status) {
  responses[static_cast<std::size_t>(std::clamp(status / 100, 1, 5) - 1)]->Increment();
}

}  // namespace paddleop::net::internal
