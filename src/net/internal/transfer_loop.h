#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"
#include "net/internal/multi_events.h"
#include "net/internal/transfer.h"

namespace paddleop::net::internal {

// Runs any number of requests on one thread and one multi handle, for callers that do not wait.
//
// Thread-safe. The destructor completes what is left with kCancelled; callbacks run on the loop's
// thread and must not destroy it.
class TransferLoop {
 public:
  static Result<std::unique_ptr<TransferLoop>> Create(const ClientConfig& config);
  ~TransferLoop();
  TransferLoop(const TransferLoop&) = delete;
  TransferLoop& operator=(const TransferLoop&) = delete;

  // What `delivery` points to must live until `done` is called.
  void Start(const Context& ctx, HttpRequest request, const Delivery& delivery,
             HttpClient::Done done);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Job;
  using Jobs = std::map<std::uint64_t, std::unique_ptr<Job>>;

  TransferLoop(const ClientConfig& config, CURLM* multi, std::unique_ptr<MultiEvents> events);

  void Run();
  // The loop looks at its news before it waits again, so nobody has to wake it.
  void StayAwake();
  // False if there are news; otherwise the next ones will wake it.
  bool MayWait();
  // True if the loop shall end.
  bool TakeNews(std::vector<std::unique_ptr<Job>>& incoming, std::vector<std::uint64_t>& cancelled);
  void Launch(std::unique_ptr<Job> job);
  void CompleteFinished();
  // Ends jobs whose time is up; returns when to look again.
  TimePoint CheckTimes(TimePoint now);
  std::optional<Status> WhyOver(Job& job, TimePoint now);
  void BreakOff(std::uint64_t id, Status status);
  void Finish(Jobs::iterator it, CURLcode code, std::optional<Status> broken_off);
  void Cancel(std::uint64_t id);

  const ClientConfig& config_;
  const std::unique_ptr<MultiEvents> events_;
  CURLM* const multi_;

  Mutex mutex_;
  std::vector<std::unique_ptr<Job>> incoming_ GUARDED_BY(mutex_);
  std::vector<std::uint64_t> cancelled_ GUARDED_BY(mutex_);
  std::uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  bool awake_ GUARDED_BY(mutex_) = true;
  bool stopping_ GUARDED_BY(mutex_) = false;

  // Of the loop's thread alone.
  Jobs jobs_;
  std::multimap<TimePoint, std::uint64_t> timers_;
  std::vector<std::unique_ptr<Transfer>> spare_;

  std::jthread thread_;
};

}  // namespace paddleop::net::internal
