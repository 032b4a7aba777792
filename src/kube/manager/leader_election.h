#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client/cluster_client.h"

namespace paddleop::kube {

struct LeaderElectionOptions {
  std::string ns;
  std::string name;      // of the Lease
  std::string identity;  // unique per process: host name and a UUID when empty
  std::chrono::milliseconds lease_duration{
      15'000};  // after this long without renewal others may take over
  std::chrono::milliseconds renew_deadline{10'000};  // after this long without renewal we give up
  std::chrono::milliseconds retry_period{2'000};

  // kInvalid names the field: durations must satisfy retry_period < renew_deadline <
  // lease_duration.
  Result<void> Validate() const;
};

// What a Lease says. Times are the writer's; others only ask whether the record has changed.
struct LeaseRecord {
  std::string holder;
  std::chrono::seconds duration{15};
  std::string acquire_time;
  std::string renew_time;
  std::int64_t transitions = 0;
  std::string resource_version;

  bool operator==(const LeaseRecord&) const = default;
};

// Leadership of one group of processes by a coordination.k8s.io/v1 Lease. At most one of them
// believes it leads, as long as their clocks run at the same speed: they need not agree on the
// time.
//
// Acquire, then Hold; both from one thread. is_leader() from any.
class LeaderElector {
 public:
  LeaderElector(LeaderElectionOptions options, ClusterClient& client, const Logger& log,
                Clock& clock = Clock::System());

  // Waits until we lead. kCancelled or kDeadline as the context ends; failures of the API server
  // are logged and tried again.
  Result<void> Acquire(const Context& ctx);
  // Renews until the context stops (success: still leading, call Release) or leadership is lost:
  // kConflict if someone else has it, kUnavailable if it could not be renewed in time. By then the
  // lease has not yet run out, so there is time to stop.
  Result<void> Hold(const Context& ctx);
  // Gives the lease up, so that the next one need not wait for it to run out. Call it after the
  // work has stopped; does nothing unless we lead.
  Result<void> Release(const Context& ctx);

  bool is_leader() const { return leading_.load(std::memory_order_acquire); }
  const std::string& identity() const { return options_.identity; }

 private:
  // One attempt to take or renew the lease; true if we lead afterwards.
  Result<bool> TryOnce(const Context& ctx);
  Result<bool> Create(const Context& ctx);
  Result<bool> Write(const Context& ctx, const LeaseRecord& record);
  Result<void> Read(const Context& ctx);

  LeaderElectionOptions options_;
  ClusterClient& client_;
  const Logger& log_;
  Clock& clock_;
  std::atomic<bool> leading_ = false;
  std::optional<LeaseRecord> seen_;                  // the record as last read or written
  std::chrono::steady_clock::time_point seen_at_{};  // when it last changed, by our clock
  std::chrono::steady_clock::time_point renewed_at_{};
};

}  // namespace paddleop::kube
