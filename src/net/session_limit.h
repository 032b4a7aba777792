#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace paddleop::net {

// How many long sessions (followed logs, shells) a server has open at a time: asked before a
// request is answered, since it cannot be refused once its answer has begun.
//
// Thread-safe.
class SessionLimit {
 public:
  explicit SessionLimit(std::size_t most)
      : most_(most), open_(std::make_shared<std::atomic<std::size_t>>(0)) {}

  // A place, given back with its last copy. Null if all are taken.
  std::shared_ptr<const void> Take() const {
    if (open_->fetch_add(1) < most_) return std::make_shared<const Place>(open_);
    open_->fetch_sub(1);
    return nullptr;
  }

 private:
  using Count = std::shared_ptr<std::atomic<std::size_t>>;
  class Place {
   public:
    explicit Place(Count open) : open_(std::move(open)) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { open_->fetch_sub(1); }

   private:
    const Count open_;
  };

  const std::size_t most_;
  const Count open_;
};

}  // namespace paddleop::net
