#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace paddleop::volume {

// Memory for one block, not initialised. Blocks come and go by the hundred each second: large ones
// ask for huge pages, which take two faults instead of a thousand.
class BlockBuffer {
 public:
  BlockBuffer() = default;
  explicit BlockBuffer(std::size_t size) : size_(size) {
    const std::size_t alignment = size >= kHuge ? kHuge : kPage;
    const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
    if (memory_ == nullptr) throw std::bad_alloc();
    // Without huge pages it is only slower.
    if (size >= kHuge) ::madvise(memory_.get(), rounded, MADV_HUGEPAGE);
  }

  std::span<std::byte> bytes() { return {memory_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kHuge = 2U << 20;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace paddleop::volume
