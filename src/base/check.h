#pragma once

#include <fmt/format.h>

#include <string_view>

namespace paddleop {

// Prints where and why to stderr and aborts. For broken invariants of our own; input from outside
// never reaches it.
[[noreturn]] void CheckFailed(std::string_view file, int line, std::string_view condition,
                              std::string_view message);

}  // namespace paddleop

#define CHECK(condition, ...)                                                                 \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::paddleop::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
