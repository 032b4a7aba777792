// What is under way on a disk, and since when: a disk that hangs gives no error, it gives nothing.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace paddleop::volume::cache {

// Thread-safe, and cheap enough for every read.
class Operations {
 public:
  using Steady = std::chrono::steady_clock;

  // An operation, as long as it lives.
  class Stamp {
   public:
    Stamp() = default;
    Stamp(Stamp&& other) noexcept : since_(std::exchange(other.since_, nullptr)) {}
    Stamp& operator=(Stamp&& other) noexcept {
      std::swap(since_, other.since_);
      return *this;
    }
    ~Stamp() {
      if (since_ != nullptr) since_->store(0, std::memory_order_release);
    }

   private:
    friend class Operations;
    explicit Stamp(std::atomic<std::int64_t>* since) : since_(since) {}
    std::atomic<std::int64_t>* since_ = nullptr;
  };

  // `what` is a literal.
  Stamp Begin(const char* what);

  struct Pending {
    const char* what;
    Steady::time_point since;
  };
  std::optional<Pending> Oldest() const;

 private:
  // More at once than this are not watched.
  static constexpr std::size_t kSlots = 128;
  struct alignas(64) Slot {
    std::atomic<std::int64_t> since = 0;  // of the steady clock; 0: free
    std::atomic<const char*> what = "";
  };
  std::array<Slot, kSlots> slots_;
};

}  // namespace paddleop::volume::cache
