// What the program that gets killed and the test that kills it agree on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace paddleop::testing {

// Operations, one per line on the victim's standard input; it prints the line's number when the
// operation has returned.
//   put NAME ID SIZE        writes a new file beside it and renames it over NAME
//   poke NAME OFFSET ID SIZE  overwrites in place
//   cut NAME LENGTH         truncates
//   move NAME NAME          renames over
//   link NAME NAME
//   remove NAME
//   hold NAME               opens and unlinks; the handle stays open
//   pack DIR ID COUNT       a directory of files that share one slice, committed in bulk
//   rmr DIR
inline constexpr std::size_t kPackedSize = 3000;  // of each file of a pack

// Bytes that tell where they came from.
inline std::string VictimBytes(std::uint64_t id, std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = id * 0x9E3779B97F4A7C15ULL + 1;
  for (std::size_t at = 0; at < size; at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(bytes.data() + at, &state, std::min(sizeof state, size - at));
  }
  return bytes;
}

}  // namespace paddleop::testing
