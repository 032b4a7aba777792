#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace paddleop::volume::data {

// Decides where files lie in a pack: a slice of one block that several files share. Files follow
// each other in the order they come; those of a page and more begin at a page, so that reading one
// is a single aligned read.
class PackLayout {
 public:
  static constexpr std::uint32_t kPage = 4096;
  // More files than this share no pack: a pack is committed in one transaction.
  static constexpr std::size_t kMaxFiles = 960;

  explicit PackLayout(std::uint32_t block_size) : block_size_(block_size) {}

  // Whether files of this size are packed at all; larger ones get slices of their own.
  bool Fits(std::uint64_t size) const { return size <= block_size_; }
  // The offset of the next file, or nothing if it needs another pack. `size` fits and is not zero.
  std::optional<std::uint32_t> Add(std::uint64_t size);
  void Clear() { used_ = 0, files_ = 0; }

  std::uint32_t used() const { return used_; }
  std::size_t files() const { return files_; }

 private:
  const std::uint32_t block_size_;
  std::uint32_t used_ = 0;
  std::size_t files_ = 0;
};

}  // namespace paddleop::volume::data
