#include "base/mount_info.h"

#include <charconv>
#include <system_error>

namespace paddleop {

std::string UnescapeMountPath(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      int value = 0;
      const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8);
      if (error == std::errc() && end == text.data() + i + 4) {
        out.push_back(static_cast<char>(value));
        i += 3;
        continue;
      }
    }
    out.push_back(text[i]);
  }
  return out;
}

}  // namespace paddleop
