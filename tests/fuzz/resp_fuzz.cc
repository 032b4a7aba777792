// Whatever a server sends: the parser ends with replies or an error, within its limits, and comes
// to the same result however the bytes are cut into pieces. The first byte of the input is the size
// of the pieces.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "redis/reply_parser.h"

namespace {

using paddleop::Code;
using paddleop::redis::Reply;
using paddleop::redis::ReplyLimits;
using paddleop::redis::ReplyParser;

struct Outcome {
  std::vector<Reply> replies;
  std::optional<Code> error;

  bool operator==(const Outcome&) const = default;
};

Outcome Parse(std::string_view bytes, std::size_t piece) {
  ReplyParser parser(
      ReplyLimits{.max_string_bytes = 4096, .max_reply_bytes = 16384, .max_line_bytes = 256});
  Outcome outcome;
  while (!bytes.empty() && !outcome.error) {
    parser.Feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      Reply reply;
      const auto whole = parser.Next(reply);
      if (!whole) outcome.error = whole.error().code();
      if (!whole || !*whole) break;
      outcome.replies.push_back(std::move(reply));
    }
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = Parse(bytes, SIZE_MAX);
  const Outcome pieces = Parse(bytes, std::size_t{data[0]} + 1);
  CHECK(whole == pieces, "{} and {} replies", whole.replies.size(), pieces.replies.size());
  CHECK(!whole.error || *whole.error == Code::kCorrupt || *whole.error == Code::kInvalid,
        "unexpected error");
  return 0;
}
