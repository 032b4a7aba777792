#include "volume/cache/internal/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace paddleop::volume::cache {
namespace {

// What the official client uses; other values put blocks where it does not look.
constexpr int kPoints = 100;
constexpr int kAdjustments = 5;
constexpr double kDamping = 0.75;
constexpr double kWhole = 4294967296.0;  // the ring's length

std::uint32_t Scramble(std::uint32_t word) {
  return std::rotl(word * 0xcc9e2d51U, 15) * 0x1b873593U;
}

}  // namespace

std::uint32_t Murmur3(std::string_view data) {
  std::uint32_t hash = 0;
  std::size_t at = 0;
  for (; at + 4 <= data.size(); at += 4) {
    std::uint32_t word = 0;
    for (std::size_t i = 4; i-- > 0;) word = word << 8 | static_cast<unsigned char>(data[at + i]);
    hash = std::rotl(hash ^ Scramble(word), 13) * 5 + 0xe6546b64U;
  }
  std::uint32_t rest = 0;
  for (std::size_t i = data.size(); i-- > at;)
    rest = rest << 8 | static_cast<unsigned char>(data[i]);
  hash ^= Scramble(rest) ^ static_cast<std::uint32_t>(data.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return hash ^ hash >> 16;
}

Ring::Ring(const std::vector<std::string>& ids) {
  std::vector<int> counts(ids.size(), kPoints);
  const auto place = [&] {
    points_.clear();
    for (std::size_t dir = 0; dir < ids.size(); ++dir) {
      for (int i = 0; i < counts[dir]; ++i)
        points_.emplace_back(Murmur3(std::to_string(i) + ids[dir]), dir);
    }
    std::sort(points_.begin(), points_.end());
  };
  place();
  const double expected = 1.0 / static_cast<double>(ids.size());
  for (int round = 0; round < kAdjustments && ids.size() > 1; ++round) {
    std::vector<double> shares(ids.size());
    std::uint32_t last = points_.back().first;
    for (const auto& [point, dir] : points_) {
      shares[dir] += static_cast<double>(point - last) / kWhole;  // wraps at the first
      last = point;
    }
    for (std::size_t dir = 0; dir < ids.size(); ++dir) {
      const int more =
          static_cast<int>(counts[dir] * (expected - shares[dir]) / expected * kDamping);
      if (more != 1) counts[dir] += more;
    }
    place();
  }
}

std::size_t Ring::Choose(std::string_view key) const {
  const auto next = std::lower_bound(points_.begin(), points_.end(), Point(Murmur3(key), 0));
  return (next == points_.end() ? points_.front() : *next).second;
}

}  // namespace paddleop::volume::cache
