#include "volume/peer/rendezvous.h"

namespace paddleop::volume {
namespace {

// The finalizer of splitmix64: every bit of the input moves every bit of the output.
std::uint64_t Mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint32_t OwnerOf(const BlockId& block, std::uint32_t partitions) {
  const std::uint64_t key = Mix(block.slice * 0x9e3779b97f4a7c15ULL + block.index + 1);
  std::uint32_t best = 0;
  std::uint64_t best_weight = 0;
  for (std::uint32_t i = 0; i < partitions; ++i) {
    const std::uint64_t weight = Mix(key ^ Mix(i + 0x9e3779b97f4a7c15ULL));
    if (i == 0 || weight > best_weight) {
      best = i;
      best_weight = weight;
    }
  }
  return best;
}

}  // namespace paddleop::volume
