#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/context.h"
#include "standalone/node/process/process_files.h"

namespace paddleop::standalone::node {

// What a client asks of a container's log, as a kubelet's parameters have it.
struct LogQuery {
  bool follow = false;
  bool timestamps = false;
  std::optional<std::int64_t> tail_lines;
  std::optional<std::int64_t> limit_bytes;
  std::optional<WallTime> since;
};

// Writes the log of one run of a container (the directory has its `log` and, when it has ended,
// `exit.json`) to `sink`, piece by piece. With `follow` until the run has ended. An error of the
// sink ends it and is returned.
Result<void> ReadLog(const Context& ctx, const std::string& run_directory, const LogQuery& query,
                     const std::function<Result<void>(std::string_view)>& sink);

// One line of a log file: "2026-01-02T03:04:05.000000006Z stdout F text".
struct LogLine {
  std::string_view time;
  std::string_view text;
  bool whole = true;
};
std::optional<LogLine> ParseLogLine(std::string_view line);

}  // namespace paddleop::standalone::node
