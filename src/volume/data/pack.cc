#include "volume/data/internal/pack.h"

namespace paddleop::volume::data {

std::optional<std::uint32_t> PackLayout::Add(std::uint64_t size) {
  std::uint64_t offset = used_;
  if (size >= kPage) offset = (offset + kPage - 1) / kPage * kPage;
  if (files_ >= kMaxFiles || offset + size > block_size_) return std::nullopt;
  used_ = static_cast<std::uint32_t>(offset + size);
  ++files_;
  return static_cast<std::uint32_t>(offset);
}

}  // namespace paddleop::volume::data
