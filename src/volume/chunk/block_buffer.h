#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace paddleop::volume {

class BlockBufferPool;

// Memory for one block, not initialised. Large ones ask for huge pages, which take two faults
// instead of a thousand.
class BlockBuffer {
 public:
  BlockBuffer() = default;
  explicit BlockBuffer(std::size_t size);

  std::span<std::byte> bytes() { return {memory_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  friend class BlockBufferPool;
  struct Free {
    std::shared_ptr<BlockBufferPool> pool;  // takes it back, if there is one
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;

  BlockBuffer(Memory memory, std::size_t size) : memory_(std::move(memory)), size_(size) {}

  Memory memory_;
  std::size_t size_ = 0;
};

// Buffers for blocks of one size, which come and go by the hundred each second: what the kernel
// gives out it has to empty first, and that took a third of the time of a mount that writes, and
// half of what the system did for one that fetches. They are kept for the next while blocks come
// and go; once none has for a moment, all of that memory goes back.
//
// Thread-safe.
class BlockBufferPool : public std::enable_shared_from_this<BlockBufferPool> {
 public:
  explicit BlockBufferPool(std::size_t block_size,
                           std::chrono::milliseconds rest = std::chrono::milliseconds(50));
  ~BlockBufferPool();
  BlockBufferPool(const BlockBufferPool&) = delete;
  BlockBufferPool& operator=(const BlockBufferPool&) = delete;

  // Blocks much smaller than the others get memory of their own.
  BlockBuffer Take(std::size_t size);
  std::size_t kept() const;

 private:
  friend struct BlockBuffer::Free;
  void GiveBack(std::byte* memory);
  void TrimWhenAtRest(const std::stop_token& stop);

  const std::size_t block_size_;
  const std::chrono::milliseconds rest_;
  mutable Mutex mutex_;
  CondVar first_free_;
  std::vector<std::byte*> free_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point used_ GUARDED_BY(mutex_);
  std::jthread trimmer_;
};

}  // namespace paddleop::volume
