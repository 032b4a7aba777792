#include "volume/chunk/block_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/thread_pool.h"

namespace paddleop::volume {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHuge = 2U << 20;
// Free buffers: as many as were in use together lately, but not more than that.
constexpr std::size_t kMostFree = 16;

std::byte* Allocate(std::size_t size) {
  const std::size_t alignment = size >= kHuge ? kHuge : kPage;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  // Without huge pages it is only slower.
  if (size >= kHuge) ::madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

BlockBuffer::BlockBuffer(std::size_t size) : memory_(Allocate(size)), size_(size) {}

void BlockBuffer::Free::operator()(std::byte* memory) const {
  if (pool) {
    pool->GiveBack(memory);
  } else {
    std::free(memory);
  }
}

BlockBufferPool::BlockBufferPool(std::size_t block_size, std::chrono::milliseconds rest)
    : block_size_(block_size), rest_(rest), trimmer_([this](const std::stop_token& stop) {
        SetThreadName("block-buffers");
        TrimWhenAtRest(stop);
      }) {}

BlockBufferPool::~BlockBufferPool() {
  trimmer_ = {};
  for (std::byte* memory : free_) std::free(memory);
}

BlockBuffer BlockBufferPool::Take(std::size_t size) {
  if (block_size_ < kHuge || size > block_size_ || size <= block_size_ / 2)
    return BlockBuffer(size);
  std::byte* memory = nullptr;
  {
    MutexLock lock(mutex_);
    used_ = std::chrono::steady_clock::now();
    if (!free_.empty()) {
      memory = free_.back();
      free_.pop_back();
    }
  }
  if (memory == nullptr) memory = Allocate(block_size_);
  return {BlockBuffer::Memory(memory, {shared_from_this()}), size};
}

void BlockBufferPool::GiveBack(std::byte* memory) {
  {
    MutexLock lock(mutex_);
    used_ = std::chrono::steady_clock::now();
    if (free_.size() < kMostFree) {
      free_.push_back(std::exchange(memory, nullptr));
      if (free_.size() == 1) first_free_.notify_one();
    }
  }
  std::free(memory);
}

void BlockBufferPool::TrimWhenAtRest(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (first_free_.wait(lock, stop, [this]() REQUIRES(mutex_) { return !free_.empty(); })) {
    const auto at_rest = used_ + rest_;
    first_free_.wait_until(lock, stop, at_rest, [] { return false; });
    if (!stop.stop_requested() && at_rest != used_ + rest_) continue;
    std::vector<std::byte*> unneeded;
    unneeded.swap(free_);
    lock.unlock();
    for (std::byte* memory : unneeded) std::free(memory);
    lock.lock();
  }
}

std::size_t BlockBufferPool::kept() const {
  MutexLock lock(mutex_);
  return free_.size();
}

}  // namespace paddleop::volume
