// What is to be said, and what has been said: the bookkeeping of EventRecorder, without a thread or
// a client.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "kube/manager/events.h"

namespace paddleop::kube {

using WallTime = std::chrono::system_clock::time_point;

struct PendingEvent {
  ObjectReference about;
  EventType type = EventType::kNormal;
  std::string reason;
  std::string message;
  std::int64_t count = 1;
  WallTime first{};
  WallTime last{};

  // Equal for events that are one event said again.
  std::string Identity() const;
};

// Events not yet sent, first come first sent; the same one said again is counted. Not thread-safe.
class EventQueue {
 public:
  explicit EventQueue(std::size_t limit) : limit_(limit) {}

  // False if it is full.
  bool Push(PendingEvent event);
  std::optional<PendingEvent> Pop();
  bool empty() const { return events_.empty(); }
  std::size_t size() const { return events_.size(); }

 private:
  const std::size_t limit_;
  std::list<PendingEvent> events_;
  std::unordered_map<std::string, std::list<PendingEvent>::iterator> by_identity_;
};

// Lets each object say `burst` things at once and one more in each `refill`. Not thread-safe.
class EventThrottle {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  EventThrottle(std::size_t burst, std::chrono::seconds refill, std::size_t limit)
      : burst_(burst), refill_(refill), limit_(limit) {}

  bool Admit(const ObjectReference& about, TimePoint now);

 private:
  struct Bucket {
    double tokens = 0;
    TimePoint filled{};
  };

  const std::size_t burst_;
  const std::chrono::seconds refill_;
  const std::size_t limit_;
  std::unordered_map<std::string, Bucket> buckets_;
};

// Events that the server has: what to count up when one is said again. Forgets the oldest. Not
// thread-safe.
class EventMemory {
 public:
  struct Written {
    std::string ns;
    std::string name;
    std::int64_t count = 0;
    WallTime last{};
  };

  EventMemory(std::size_t limit, std::chrono::minutes age) : limit_(limit), age_(age) {}

  // The event written under this identity, unless the server may have forgotten it by now.
  Written* Find(const std::string& identity, WallTime now);
  void Remember(const std::string& identity, Written written);
  void Forget(const std::string& identity);
  std::size_t size() const { return order_.size(); }

 private:
  using Order = std::list<std::pair<std::string, Written>>;  // oldest first

  const std::size_t limit_;
  const std::chrono::minutes age_;
  Order order_;
  std::unordered_map<std::string, Order::iterator> by_identity_;
};

}  // namespace paddleop::kube
