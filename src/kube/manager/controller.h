#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "kube/queue/work_queue.h"

namespace paddleop::kube {

// What a reconcile wants next: nothing (until something it depends on changes), or to be called
// again.
struct Requeue {
  std::optional<Clock::Duration> after;
};

// Brings the world nearer to what one object asks for. A name comes in, never an event; running it
// twice changes nothing more. Called from several threads, but never for one key at the same time.
class Reconciler {
 public:
  virtual ~Reconciler() = default;
  // An error means: again, after the key's back-off.
  virtual Result<Requeue> Reconcile(const Context& ctx, const ObjectKey& key) = 0;
};

struct ControllerOptions {
  std::string name;  // "paddlejob": in logs and metrics
  std::size_t workers = 4;
  std::chrono::milliseconds reconcile_timeout{120'000};
  BackoffOptions backoff = WorkQueueOptions{}.backoff;
};

// A work queue and the threads that feed it to a reconciler.
//
// Thread-safe. Add() may be called at any time, also before Start(): nothing is lost.
class Controller {
 public:
  Controller(ControllerOptions options, Reconciler& reconciler, const Logger& log,
             MetricsRegistry& metrics, Clock& clock = Clock::System());
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Something the object depends on has changed.
  void Add(const ObjectKey& key) { queue_.Add(key); }
  void AddAfter(const ObjectKey& key, Clock::Duration delay) { queue_.AddAfter(key, delay); }

  void Start();
  // Asks running reconciles to stop through their context, and waits for them.
  void Stop();

  WorkQueue& queue() { return queue_; }
  const std::string& name() const { return options_.name; }

 private:
  void Work(const Context& ctx);
  void ReconcileOne(const Context& ctx, const ObjectKey& key);
  // Returns to the system what a burst of work needed, once it is over.
  void TidyUp();

  const ControllerOptions options_;
  Reconciler& reconciler_;
  const Logger& log_;
  MetricsRegistry::Counter& succeeded_;
  MetricsRegistry::Counter& requeued_;
  MetricsRegistry::Counter& failed_;
  MetricsRegistry::Gauge& active_;
  MetricsRegistry::Histogram& seconds_;
  Clock& clock_;
  WorkQueue queue_;
  std::atomic<int> since_tidy_ = 0;  // reconciles
  std::stop_source stop_;
  std::vector<std::jthread> workers_;
};

}  // namespace paddleop::kube
