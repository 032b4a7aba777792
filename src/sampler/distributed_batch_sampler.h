// Paddle's sample orders, bit for bit: what each rank of a training job reads, and when.
//
// Pure functions. The orders are those of paddle.io.DistributedBatchSampler in Paddle 2.6 and 3.3
// (see README.md); a test compares them with the real class.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"

namespace paddleop::sampler {

struct SamplerOptions {
  std::uint64_t samples = 0;  // N, at most 2^32 - 1
  std::uint32_t ranks = 1;
  std::uint32_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  std::uint32_t epoch = 0;  // seeds the shuffle; without shuffle it changes nothing

  // kInvalid names the option that is out of range.
  Result<void> Validate() const;
};

using SampleIndex = std::uint32_t;

// The order of numpy's RandomState(seed).permutation(n): the shuffle under every rank's share.
std::vector<SampleIndex> NumpyPermutation(std::uint64_t n, std::uint32_t seed);

// What `rank` reads in one epoch, in order; batches are consecutive runs of batch_size. With
// drop_last a short last batch is left out. Every rank gets the same number of samples: when the
// ranks do not divide N, the first samples of the set are repeated, so a sample can be in several
// ranks' shares.
Result<std::vector<SampleIndex>> RankOrder(const SamplerOptions& options, std::uint32_t rank);

// All ranks' orders at once, which costs one shuffle instead of one per rank.
Result<std::vector<std::vector<SampleIndex>>> AllRankOrders(const SamplerOptions& options);

// The half-open range of samples that part `part` of `parts` holds when a set is cut into
// contiguous pieces whose sizes differ by at most one.
std::pair<std::uint64_t, std::uint64_t> ContiguousShare(std::uint64_t samples, std::uint32_t parts,
                                                        std::uint32_t part);

// The cache partition that serves `rank` when there are more ranks than partitions or fewer:
// neighbouring ranks share a partition.
std::uint32_t PartitionOfRank(std::uint32_t rank, std::uint32_t ranks, std::uint32_t partitions);

}  // namespace paddleop::sampler
