#include "volume/vfs/internal/read_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace paddleop::volume {
namespace {

constexpr std::size_t kPieces = 64;
constexpr std::size_t kArena = kPieces * ReadBuffers::kPiece;
constexpr std::size_t kHugePage = 2U << 20;
constexpr std::size_t kReadAlign = 4096;

std::byte* Aligned(std::size_t alignment, std::size_t size) {
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(alignment, size));
  CHECK(memory != nullptr, "no memory for a read of {} bytes", size);
  return memory;
}

// The lowest `count` bits in a row that are not set in `used`, or none.
std::uint64_t LowestRun(std::uint64_t used, std::size_t count) {
  if (count > kPieces) return 0;
  std::uint64_t begins = ~used;
  for (std::size_t i = 1; i < count; ++i) begins &= ~used >> i;
  if (begins == 0) return 0;
  const std::uint64_t run = count == kPieces ? ~0ULL : (1ULL << count) - 1;
  return run << std::countr_zero(begins);
}

}  // namespace

ReadBuffers::ReadBuffers() : arena_(Aligned(kHugePage, kArena)) {
  // A kernel without huge pages reads into small ones.
  ::madvise(arena_, kArena, MADV_HUGEPAGE);
}

ReadBuffers::~ReadBuffers() { std::free(arena_); }

ReadBuffers::Lease ReadBuffers::Take(std::size_t size) {
  const std::size_t count = (size + kPiece - 1) / kPiece;
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t run = count == 0 ? 0 : LowestRun(used, count);
    if (run == 0) break;
    if (used_.compare_exchange_weak(used, used | run, std::memory_order_acquire)) {
      const auto first = static_cast<std::size_t>(std::countr_zero(run));
      return {this, run, {arena_ + first * kPiece, size}};
    }
  }
  const std::size_t rounded = (size + kReadAlign - 1) / kReadAlign * kReadAlign;
  return {this, 0, {Aligned(kReadAlign, std::max(rounded, kReadAlign)), size}};
}

ReadBuffers::Lease::Lease(Lease&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), pieces_(other.pieces_), bytes_(other.bytes_) {}

ReadBuffers::Lease::~Lease() {
  if (owner_ == nullptr) return;
  if (pieces_ == 0) {
    std::free(bytes_.data());
  } else {
    owner_->used_.fetch_and(~pieces_, std::memory_order_release);
  }
}

}  // namespace paddleop::volume
