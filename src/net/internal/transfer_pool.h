#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"
#include "net/internal/transfer.h"

namespace paddleop::net::internal {

// Runs requests on the calling thread, each on a multi handle of its own that keeps its connection
// afterwards. A request thus costs no hand-over between threads, and the pool of handles is the
// pool of connections: at most max_connections_per_host at a time for one origin, idle ones for a
// while.
//
// Thread-safe. The destructor breaks off calls in flight (kCancelled) and waits for them.
class TransferPool {
 public:
  explicit TransferPool(const ClientConfig& config);
  ~TransferPool();
  TransferPool(const TransferPool&) = delete;
  TransferPool& operator=(const TransferPool&) = delete;

  Result<HttpResponse> Run(const Context& ctx, const HttpRequest& request,
                           const Delivery& delivery);

 private:
  class Slot;
  struct Host {
    std::vector<std::unique_ptr<Slot>> idle;  // the last one was used last
    std::size_t busy = 0;
    std::size_t waiting = 0;
    CondVar freed;
  };

  Result<std::unique_ptr<Slot>> Acquire(const Context& ctx, const std::string& origin);
  void Release(const std::string& origin, std::unique_ptr<Slot> slot);
  // Moves handles idle for too long to `old`, to be closed without the lock.
  void Prune(std::vector<std::unique_ptr<Slot>>& old) REQUIRES(mutex_);

  const ClientConfig& config_;
  Mutex mutex_;
  CondVar drained_;
  std::map<std::string, Host, std::less<>> hosts_ GUARDED_BY(mutex_);
  std::set<Slot*> busy_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point next_prune_ GUARDED_BY(mutex_);
  std::size_t callers_ GUARDED_BY(mutex_) = 0;
  bool closing_ GUARDED_BY(mutex_) = false;
};

}  // namespace paddleop::net::internal
