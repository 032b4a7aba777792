// Events of a watch: a line of JSON each.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/wire/raw_object.h"

namespace paddleop::kube {

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark };

struct WatchEvent {
  WatchEventType type = WatchEventType::kBookmark;
  RawObject object;  // of a bookmark only the resource_version; of a deletion the last state
};

// Reads one line. An ERROR event is the error it carries: kExpired for 410, and so on.
Result<WatchEvent> ParseWatchEvent(std::string_view line);

// Cuts a stream into lines, however its pieces fall.
class LineSplitter {
 public:
  using Sink = std::function<Result<void>(std::string_view line)>;

  explicit LineSplitter(std::size_t limit = 16 << 20) : limit_(limit) {}

  // Calls `sink` with each line that is complete now, without its end; stops at its first error.
  // kInvalid for a line over the limit.
  Result<void> Feed(std::string_view piece, const Sink& sink);
  // Bytes of a line that has not ended.
  std::size_t pending() const { return rest_.size(); }

 private:
  const std::size_t limit_;
  std::string rest_;
};

}  // namespace paddleop::kube
