#include "kube/manager/event_log.h"

#include <algorithm>

namespace paddleop::kube {

std::string PendingEvent::Identity() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", about.kind, about.ns, about.name, about.uid,
                     type == EventType::kWarning, reason, message);
}

bool EventQueue::Push(PendingEvent event) {
  std::string identity = event.Identity();
  if (const auto found = by_identity_.find(identity); found != by_identity_.end()) {
    PendingEvent& waiting = *found->second;
    waiting.count += event.count;
    waiting.last = event.last;
    return true;
  }
  if (events_.size() >= limit_) return false;
  events_.push_back(std::move(event));
  by_identity_.emplace(std::move(identity), std::prev(events_.end()));
  return true;
}

std::optional<PendingEvent> EventQueue::Pop() {
  if (events_.empty()) return std::nullopt;
  PendingEvent event = std::move(events_.front());
  events_.pop_front();
  by_identity_.erase(event.Identity());
  return event;
}

bool EventThrottle::Admit(const ObjectReference& about, TimePoint now) {
  const auto burst = static_cast<double>(burst_);
  const double rate = 1.0 / std::chrono::duration<double>(refill_).count();
  const auto tokens_now = [&](const Bucket& bucket) {
    const double passed = std::chrono::duration<double>(now - bucket.filled).count();
    return std::min(burst, bucket.tokens + passed * rate);
  };
  if (buckets_.size() >= limit_) {
    // A full bucket is as good as none.
    std::erase_if(buckets_,
                  [&](const auto& entry) { return tokens_now(entry.second) >= burst - 0.5; });
    if (buckets_.size() >= limit_) buckets_.clear();
  }
  const std::string object =
      fmt::format("{}\n{}\n{}\n{}", about.kind, about.ns, about.name, about.uid);
  Bucket& bucket = buckets_.try_emplace(object, Bucket{burst, now}).first->second;
  bucket = {tokens_now(bucket), now};
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

EventMemory::Written* EventMemory::Find(const std::string& identity, WallTime now) {
  const auto found = by_identity_.find(identity);
  if (found == by_identity_.end()) return nullptr;
  Written& written = found->second->second;
  if (now - written.last < age_) return &written;
  Forget(identity);
  return nullptr;
}

void EventMemory::Remember(const std::string& identity, Written written) {
  Forget(identity);
  order_.emplace_back(identity, std::move(written));
  by_identity_.emplace(identity, std::prev(order_.end()));
  if (order_.size() > limit_) Forget(std::string(order_.front().first));
}

void EventMemory::Forget(const std::string& identity) {
  const auto found = by_identity_.find(identity);
  if (found == by_identity_.end()) return;
  order_.erase(found->second);
  by_identity_.erase(found);
}

}  // namespace paddleop::kube
