#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paddleop::volume::object::internal {

// The length of the character at the front of `text`, which is put into `code`; 0 if the bytes are
// not UTF-8 (RFC 3629). `text` is not empty.
std::size_t TakeUtf8(std::string_view text, std::uint32_t& code);

bool IsUtf8(std::string_view text);

}  // namespace paddleop::volume::object::internal
