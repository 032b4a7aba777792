#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "kube/client/cluster_client.h"

namespace paddleop::kube {

using ObjectReference = api::ObjectReference;

ObjectReference ReferenceTo(const GroupVersionResource& resource, const ObjectKey& key,
                            std::string uid);

enum class EventType { kNormal, kWarning };

struct EventRecorderOptions {
  std::string component;           // "paddlejob-controller"
  std::string instance;            // reportingInstance: host or pod name
  std::size_t queue_limit = 1000;  // distinct events not yet sent; more are dropped and counted
  std::size_t memory_limit =
      4096;  // events remembered, so that a repetition is counted, not created
  std::chrono::minutes memory{60};  // the API server forgets events after an hour
  // Of one object at most `burst` events at once and then one in each `refill`; more are dropped
  // and counted.
  std::size_t burst = 25;
  std::chrono::seconds refill{300};
  std::chrono::milliseconds flush_timeout{3'000};  // at Stop(), for what is still queued
};

// Writes v1 Events in the background. The same thing said again (object, type, reason, message)
// raises the count of the event that is there.
//
// Thread-safe. Record never blocks and never fails: an event that cannot be written is logged and
// counted, because no reconcile should hang on one.
class EventRecorder {
 public:
  EventRecorder(EventRecorderOptions options, ClusterClient& client, const Logger& log,
                MetricsRegistry& metrics, Clock& clock = Clock::System());
  // Stop().
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void Record(const ObjectReference& about, EventType type, std::string reason,
              std::string message);
  // Sends what is queued, as far as `flush_timeout` allows, and ends the thread.
  void Stop();
  // Waits until nothing is queued or being sent.
  Result<void> Flush(const Context& ctx);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::kube
