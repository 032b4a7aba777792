#pragma once

#include <cstdint>
#include <set>

#include "base/context.h"
#include "base/mutex.h"

namespace paddleop::volume {

// Bounds the bytes of all buffers in flight. Callers take what they need before they allocate it
// and wait while there is none; a request for more than the whole budget gets the whole. They get
// it in the order in which they came, so that many who need little do not keep those waiting who
// need much. Who holds bytes already goes first: others may be waiting for those.
//
// Thread-safe.
class BufferBudget {
 public:
  // Gives its bytes back at its end.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : budget_(other.budget_), bytes_(other.bytes_), leaving_(other.leaving_) {
      other.budget_ = nullptr;
    }
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { Release(); }
    void Release();
    // Tells those who wait whether these bytes will soon be given back, whatever others do.
    void SetLeaving(bool leaving);

   private:
    friend class BufferBudget;
    Lease(BufferBudget* budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {}
    BufferBudget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
    bool leaving_ = false;
  };

  explicit BufferBudget(std::uint64_t bytes);

  // kDeadline or kCancelled if the bytes were not free in the caller's time.
  Result<Lease> Acquire(const Context& ctx, std::uint64_t bytes);
  // Adds bytes to a lease of this budget (or to an empty one).
  Result<void> Extend(const Context& ctx, Lease& lease, std::uint64_t bytes);
  // The same for a caller that holds bytes while it waits: false as soon as nobody's are leaving,
  // because all who hold some may be waiting like this one.
  Result<bool> ExtendUnlessStuck(const Context& ctx, Lease& lease, std::uint64_t bytes);
  std::uint64_t used() const;

 private:
  // Waits until the bytes are free or, if the caller holds some, nobody's are leaving.
  Result<Lease> Take(const Context& ctx, std::uint64_t bytes, bool holds_some);
  void Add(Lease& lease, Lease more);

  const std::uint64_t total_;
  mutable Mutex mutex_;
  CondVar freed_;
  std::uint64_t used_ GUARDED_BY(mutex_) = 0;
  std::uint64_t leaving_ GUARDED_BY(mutex_) = 0;  // of those used
  std::uint64_t next_turn_ GUARDED_BY(mutex_) = 0;
  std::set<std::uint64_t> waiting_ GUARDED_BY(mutex_);  // turns of those who hold nothing
};

}  // namespace paddleop::volume
