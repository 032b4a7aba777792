#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace paddleop {

void CheckFailed(std::string_view file, int line, std::string_view condition,
                 std::string_view message) {
  fmt::print(stderr, "{}:{}: CHECK failed: {} {}\n", file, line, condition, message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace paddleop
