#include "kube/queue/work_queue.h"

#include "kube/metrics.h"

namespace paddleop::kube {
namespace {

double Seconds(Clock::Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

WorkQueue::WorkQueue(WorkQueueOptions options, MetricsRegistry& metrics, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      adds_(metrics.AddCounter(metric::kQueueAdds, metric::kQueueAddsHelp,
                               {{"queue", options_.name}})),
      retries_(metrics.AddCounter(metric::kQueueRetries, metric::kQueueRetriesHelp,
                                  {{"queue", options_.name}})),
      depth_(metrics.AddGauge(metric::kQueueDepth, metric::kQueueDepthHelp,
                              {{"queue", options_.name}})),
      wait_seconds_(metrics.AddHistogram(metric::kQueueWaitSeconds, metric::kQueueWaitSecondsHelp,
                                         {{"queue", options_.name}})),
      work_seconds_(metrics.AddHistogram(metric::kQueueWorkSeconds, metric::kQueueWorkSecondsHelp,
                                         {{"queue", options_.name}})) {}

void WorkQueue::Add(const ObjectKey& key) {
  MutexLock lock(mutex_);
  AddLocked(key);
}

void WorkQueue::AddLocked(const ObjectKey& key) {
  if (shutdown_) return;
  Item& item = items_[key];
  if (item.queued || item.again) return;
  adds_.Increment();
  if (item.working) {
    item.again = true;
    item.added = clock_.Now();
    return;
  }
  item.queued = true;
  item.added = clock_.Now();
  ready_.push_back(key);
  depth_.Set(static_cast<double>(ready_.size()));
  changed_.notify_one();
}

void WorkQueue::AddAfter(const ObjectKey& key, Clock::Duration delay) {
  MutexLock lock(mutex_);
  AddAfterLocked(key, delay);
}

void WorkQueue::AddAfterLocked(const ObjectKey& key, Clock::Duration delay) {
  if (shutdown_) return;
  if (delay <= Clock::Duration::zero()) return AddLocked(key);
  const TimePoint due = clock_.Now() + delay;
  const auto [found, added] = due_.try_emplace(key, due);
  if (!added) {
    if (found->second <= due) return;
    auto [first, last] = delayed_.equal_range(found->second);
    for (; first != last; ++first) {
      if (first->second != key) continue;
      delayed_.erase(first);
      break;
    }
    found->second = due;
  }
  const bool earliest = delayed_.empty() || due < delayed_.begin()->first;
  delayed_.emplace(due, key);
  // Workers wait until the earliest time they know of.
  if (earliest) changed_.notify_all();
}

Clock::Duration WorkQueue::AddFailed(const ObjectKey& key) {
  MutexLock lock(mutex_);
  const auto found = failures_.try_emplace(key, options_.backoff, clock_).first;
  const Clock::Duration delay = found->second.Take();
  retries_.Increment();
  AddAfterLocked(key, delay);
  return delay;
}

void WorkQueue::Forget(const ObjectKey& key) {
  MutexLock lock(mutex_);
  failures_.erase(key);
}

void WorkQueue::PromoteDue() {
  const TimePoint now = clock_.Now();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const ObjectKey key = std::move(delayed_.begin()->second);
    delayed_.erase(delayed_.begin());
    due_.erase(key);
    AddLocked(key);
  }
}

std::optional<ObjectKey> WorkQueue::TakeLocked() {
  PromoteDue();
  if (ready_.empty()) return std::nullopt;
  ObjectKey key = std::move(ready_.front());
  ready_.pop_front();
  depth_.Set(static_cast<double>(ready_.size()));
  Item& item = items_[key];
  item.queued = false;
  item.working = true;
  ++working_;
  item.started = clock_.Now();
  wait_seconds_.Observe(Seconds(item.started - item.added));
  return key;
}

std::optional<ObjectKey> WorkQueue::Take(const Context& ctx) {
  MutexLock lock(mutex_);
  for (;;) {
    if (shutdown_ || ctx.Stopped() || ctx.Expired()) return std::nullopt;
    if (auto key = TakeLocked()) return key;
    const TimePoint first = delayed_.empty() ? TimePoint::max() : delayed_.begin()->first;
    const auto awake = [&]() REQUIRES(mutex_) {
      return shutdown_ || !ready_.empty() || (!delayed_.empty() && delayed_.begin()->first < first);
    };
    if (first == TimePoint::max() && !ctx.has_deadline()) {
      changed_.wait(lock, ctx.stop(), awake);
      continue;
    }
    // The queue's clock says how long; the wait itself is real time.
    TimePoint until = ctx.deadline();
    if (first != TimePoint::max())
      until = std::min(until, std::chrono::steady_clock::now() + (first - clock_.Now()));
    changed_.wait_until(lock, ctx.stop(), until, awake);
  }
}

std::optional<ObjectKey> WorkQueue::TryTake() {
  MutexLock lock(mutex_);
  if (shutdown_) return std::nullopt;
  return TakeLocked();
}

void WorkQueue::Done(const ObjectKey& key) {
  MutexLock lock(mutex_);
  const auto found = items_.find(key);
  if (found == items_.end() || !found->second.working) return;
  Item& item = found->second;
  item.working = false;
  --working_;
  work_seconds_.Observe(Seconds(clock_.Now() - item.started));
  if (!item.again || shutdown_) {
    items_.erase(found);
    return;
  }
  item.again = false;
  item.queued = true;
  ready_.push_back(key);
  depth_.Set(static_cast<double>(ready_.size()));
  changed_.notify_one();
}

void WorkQueue::Shutdown() {
  MutexLock lock(mutex_);
  shutdown_ = true;
  ready_.clear();
  delayed_.clear();
  due_.clear();
  std::erase_if(items_, [](const auto& item) { return !item.second.working; });
  depth_.Set(0);
  changed_.notify_all();
}

std::size_t WorkQueue::ready() const {
  MutexLock lock(mutex_);
  return ready_.size();
}

std::size_t WorkQueue::delayed() const {
  MutexLock lock(mutex_);
  return delayed_.size();
}

std::size_t WorkQueue::working() const {
  MutexLock lock(mutex_);
  return working_;
}

int WorkQueue::failures(const ObjectKey& key) const {
  MutexLock lock(mutex_);
  const auto found = failures_.find(key);
  return found == failures_.end() ? 0 : found->second.attempts();
}

}  // namespace paddleop::kube
