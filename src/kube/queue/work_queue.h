#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "kube/wire/resource.h"

namespace paddleop::kube {

struct WorkQueueOptions {
  std::string name = "queue";  // label of its metrics
  // Delays of a key that fails again and again.
  BackoffOptions backoff{.initial = std::chrono::milliseconds(20),
                         .maximum = std::chrono::minutes(5),
                         .factor = 2.0,
                         .jitter = 0.1};
};

// Keys waiting for a worker. A key is in it once however often it is added, and with one worker at
// a time: added while it is being worked on, it comes again after Done(). It needs no limit of its
// own: it holds at most one entry for each object there is.
//
// Thread-safe.
class WorkQueue {
 public:
  WorkQueue(WorkQueueOptions options, MetricsRegistry& metrics, Clock& clock = Clock::System());
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Add(const ObjectKey& key);
  // Adds the key when the delay is over. Of several delays the one that ends first counts; an Add()
  // meanwhile does not cancel it.
  void AddAfter(const ObjectKey& key, Clock::Duration delay);
  // Adds the key after its back-off, which grows with each call until Forget(). Returns the delay.
  Clock::Duration AddFailed(const ObjectKey& key);
  // The key did well: its back-off starts afresh.
  void Forget(const ObjectKey& key);

  // Waits for a key; the caller calls Done() with it in the end. nullopt after Shutdown() or when
  // the context stops or expires.
  std::optional<ObjectKey> Take(const Context& ctx);
  // A key that is ready now.
  std::optional<ObjectKey> TryTake();
  void Done(const ObjectKey& key);

  // Wakes everybody. Keys still waiting are dropped: whoever starts next lists everything anyway.
  void Shutdown();

  std::size_t ready() const;    // waiting for a worker
  std::size_t delayed() const;  // waiting for their time
  std::size_t working() const;
  int failures(const ObjectKey& key) const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Item {
    bool queued = false;   // in ready_
    bool working = false;  // with a worker
    bool again = false;    // added while with a worker
    TimePoint added{};
    TimePoint started{};
  };

  void AddLocked(const ObjectKey& key) REQUIRES(mutex_);
  void AddAfterLocked(const ObjectKey& key, Clock::Duration delay) REQUIRES(mutex_);
  void PromoteDue() REQUIRES(mutex_);
  std::optional<ObjectKey> TakeLocked() REQUIRES(mutex_);

  const WorkQueueOptions options_;
  Clock& clock_;
  MetricsRegistry::Counter& adds_;
  MetricsRegistry::Counter& retries_;
  MetricsRegistry::Gauge& depth_;
  MetricsRegistry::Histogram& wait_seconds_;
  MetricsRegistry::Histogram& work_seconds_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<ObjectKey> ready_ GUARDED_BY(mutex_);
  std::unordered_map<ObjectKey, Item> items_ GUARDED_BY(mutex_);
  std::multimap<TimePoint, ObjectKey> delayed_ GUARDED_BY(mutex_);
  std::unordered_map<ObjectKey, TimePoint> due_ GUARDED_BY(mutex_);
  std::unordered_map<ObjectKey, Backoff> failures_ GUARDED_BY(mutex_);
  std::size_t working_ GUARDED_BY(mutex_) = 0;
  bool shutdown_ GUARDED_BY(mutex_) = false;
};

}  // namespace paddleop::kube
