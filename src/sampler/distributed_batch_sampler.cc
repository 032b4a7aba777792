#include "sampler/distributed_batch_sampler.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <random>

#include "base/check.h"

namespace paddleop::sampler {
namespace {

// numpy's legacy bounded draw: uniform in [0, limit], by masking and trying again.
std::uint32_t DrawUpTo(std::mt19937& generator, std::uint32_t limit) {
  if (limit == 0) return 0;
  const std::uint32_t mask = std::numeric_limits<std::uint32_t>::max() >> std::countl_zero(limit);
  for (;;) {
    const auto value = static_cast<std::uint32_t>(generator()) & mask;
    if (value <= limit) return value;
  }
}

// Fisher-Yates from the end, as numpy shuffles.
void Shuffle(std::vector<SampleIndex>& order, std::uint32_t seed) {
  std::mt19937 generator(seed);
  for (std::size_t i = order.size(); i-- > 1;) {
    std::swap(order[i], order[DrawUpTo(generator, static_cast<std::uint32_t>(i))]);
  }
}

// The list all ranks cut their shares from: 0..N-1 repeated from its head until the ranks divide
// it.
std::vector<SampleIndex> PaddedOrder(const SamplerOptions& options) {
  const std::uint64_t per_rank = (options.samples + options.ranks - 1) / options.ranks;
  std::vector<SampleIndex> order(per_rank * options.ranks);
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<SampleIndex>(i % options.samples);
  }
  if (options.shuffle) Shuffle(order, options.epoch);
  return order;
}

std::vector<SampleIndex> Cut(const SamplerOptions& options, const std::vector<SampleIndex>& order,
                             std::uint64_t rank) {
  const std::uint64_t batch = options.batch_size;
  const std::uint64_t stride = batch * options.ranks;
  const std::uint64_t tail = order.size() % stride;
  const std::uint64_t body = order.size() - tail;
  std::vector<SampleIndex> share;
  share.reserve(order.size() / options.ranks);
  const auto take = [&](std::uint64_t from, std::uint64_t to) {
    share.insert(share.end(), order.begin() + static_cast<std::ptrdiff_t>(from),
                 order.begin() + static_cast<std::ptrdiff_t>(to));
  };
  for (std::uint64_t at = rank * batch; at < body; at += stride) take(at, at + batch);
  const std::uint64_t tail_share = tail / options.ranks;
  take(body + rank * tail_share, body + (rank + 1) * tail_share);
  if (options.drop_last) share.resize(share.size() / batch * batch);
  return share;
}

}  // namespace

Result<void> SamplerOptions::Validate() const {
  if (samples == 0) return Fail(Code::kInvalid, "samples is 0: there is nothing to order");
  if (ranks == 0) return Fail(Code::kInvalid, "ranks is 0; give at least 1");
  if (batch_size == 0) return Fail(Code::kInvalid, "batchSize is 0; give at least 1");
  // Padding adds less than one sample per rank, and indices are 32 bits wide.
  if (samples + ranks > std::numeric_limits<SampleIndex>::max()) {
    return Fail(Code::kInvalid, "samples is {}; at most 2^32 - 1 with their padding can be ordered",
                samples);
  }
  return {};
}

std::vector<SampleIndex> NumpyPermutation(std::uint64_t n, std::uint32_t seed) {
  CHECK(n <= std::numeric_limits<SampleIndex>::max(), "permutation of {}", n);
  std::vector<SampleIndex> order(n);
  for (std::uint64_t i = 0; i < n; ++i) order[i] = static_cast<SampleIndex>(i);
  Shuffle(order, seed);
  return order;
}

Result<std::vector<SampleIndex>> RankOrder(const SamplerOptions& options, std::uint32_t rank) {
  RETURN_IF_ERROR(options.Validate());
  if (rank >= options.ranks) {
    return Fail(Code::kInvalid, "rank is {}; with {} ranks it is at most {}", rank, options.ranks,
                options.ranks - 1);
  }
  return Cut(options, PaddedOrder(options), rank);
}

Result<std::vector<std::vector<SampleIndex>>> AllRankOrders(const SamplerOptions& options) {
  RETURN_IF_ERROR(options.Validate());
  const auto order = PaddedOrder(options);
  std::vector<std::vector<SampleIndex>> shares;
  shares.reserve(options.ranks);
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
    shares.push_back(Cut(options, order, rank));
  return shares;
}

std::pair<std::uint64_t, std::uint64_t> ContiguousShare(std::uint64_t samples, std::uint32_t parts,
                                                        std::uint32_t part) {
  CHECK(part < parts, "part {} of {}", part, parts);
  const std::uint64_t base = samples / parts, longer = samples % parts;
  const std::uint64_t begin = part * base + std::min<std::uint64_t>(part, longer);
  return {begin, begin + base + (part < longer ? 1 : 0)};
}

std::uint32_t PartitionOfRank(std::uint32_t rank, std::uint32_t ranks, std::uint32_t partitions) {
  CHECK(rank < ranks && partitions > 0, "rank {} of {}, {} partitions", rank, ranks, partitions);
  if (ranks <= partitions) return rank;
  return static_cast<std::uint32_t>(std::uint64_t{rank} * partitions / ranks);
}

}  // namespace paddleop::sampler
