#include "kube/wire/watch_event.h"

namespace paddleop::kube {

Result<void> LineSplitter::Feed(std::string_view piece, const Sink& sink) {
  for (;;) {
    const std::size_t end = piece.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view line = piece.substr(0, end);
    piece.remove_prefix(end + 1);
    if (!rest_.empty()) {
      rest_.append(line);
      line = rest_;
    }
    if (line.size() > limit_) return Fail(Code::kInvalid, "line of over {} bytes", limit_);
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    auto taken = blank ? Result<void>{} : sink(line);
    rest_.clear();
    // One huge object must not hold its memory for the life of the watch.
    if (rest_.capacity() > (64 << 10)) rest_.shrink_to_fit();
    if (!taken) return taken;
  }
  if (rest_.size() + piece.size() > limit_)
    return Fail(Code::kInvalid, "line of over {} bytes", limit_);
  rest_.append(piece);
  return {};
}

}  // namespace paddleop::kube
