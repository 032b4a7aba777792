#include "volume/chunk/block_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace paddleop::volume {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHuge = 2U << 20;
// Free buffers: one for so many in use (a mount that rests keeps two blocks), and never more than
// the most.
constexpr std::size_t kInUseForOneFree = 3;
constexpr std::size_t kMostFree = 4;

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

BlockBufferPool::~BlockBufferPool() {
  for (std::byte* memory : free_) std::free(memory);
}

BlockBuffer BlockBufferPool::Take(std::size_t size) {
  if (block_size_ < kHuge || size > block_size_ || size <= block_size_ / 2)
    return BlockBuffer(size);
  std::byte* memory = nullptr;
  {
    MutexLock lock(mutex_);
    ++in_use_;
    if (!free_.empty()) {
      memory = free_.back();
      free_.pop_back();
    }
  }
  if (memory == nullptr) memory = Allocate(block_size_);
  return {BlockBuffer::Memory(memory, {shared_from_this()}), size};
}

void BlockBufferPool::GiveBack(std::byte* memory) {
  std::vector<std::byte*> excess;
  {
    MutexLock lock(mutex_);
    --in_use_;
    free_.push_back(memory);
    while (free_.size() > std::min(kMostFree, in_use_ / kInUseForOneFree)) {
      excess.push_back(free_.back());
      free_.pop_back();
    }
  }
  for (std::byte* unneeded : excess) std::free(unneeded);
}

std::size_t BlockBufferPool::kept() const {
  MutexLock lock(mutex_);
  return free_.size();
}

}  // namespace paddleop::volume
