// Which of several directories a block belongs into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paddleop::volume::cache {

// MurmurHash3, 32 bits, seed 0.
std::uint32_t Murmur3(std::string_view data);

// Spreads keys over directories by their ids, exactly as the official client does, so that both
// find each other's blocks: a ring of points, about a hundred for each directory, more where its
// points happen to lie close together. A directory that goes takes only its own keys along.
class Ring {
 public:
  // At least one id; no two are the same.
  explicit Ring(const std::vector<std::string>& ids);

  // The position, in `ids`, of the directory for a block's key ("chunks/0/0/1_0_4194304").
  std::size_t Choose(std::string_view key) const;

 private:
  using Point = std::pair<std::uint32_t, std::size_t>;  // place and directory, sorted
  std::vector<Point> points_;
};

}  // namespace paddleop::volume::cache
