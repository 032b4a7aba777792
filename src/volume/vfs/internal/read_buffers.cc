#include "volume/vfs/internal/read_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace paddleop::volume {
namespace {

constexpr std::size_t kPieces = ReadBuffers::kPieces;
constexpr std::size_t kHugePage = 2U << 20;

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

ReadBuffers::ReadBuffers() : arena_(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kMost))) {
  CHECK(arena_ != nullptr, "no memory for reads of cached blocks");
  // A kernel without huge pages reads into small ones.
  ::madvise(arena_, kMost, MADV_HUGEPAGE);
}

ReadBuffers::~ReadBuffers() { std::free(arena_); }

std::optional<ReadBuffers::Lease> ReadBuffers::TryTake(std::size_t size) {
  const std::size_t count = PiecesFor(size);
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t run = LowestRun(used, count);
    if (run == 0) return std::nullopt;
    if (used_.compare_exchange_weak(used, used | run, std::memory_order_acquire)) {
      const auto first = static_cast<std::size_t>(std::countr_zero(run));
      return Lease(this, run, {arena_ + first * kPiece, size});
    }
  }
}

ReadBuffers::Lease::Lease(Lease&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), pieces_(other.pieces_), bytes_(other.bytes_) {}

ReadBuffers::Lease& ReadBuffers::Lease::operator=(Lease&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(pieces_, other.pieces_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ReadBuffers::Lease::~Lease() {
  if (owner_ != nullptr) owner_->used_.fetch_and(~pieces_, std::memory_order_release);
}

}  // namespace paddleop::volume
