#pragma once

#include <optional>
#include <string>

#include "net/http_server.h"

namespace paddleop::net::internal {

// How the end of a response's body is told to the client.
enum class Framing { kLength, kChunked, kUntilClose, kNone };

struct HeadOptions {
  Framing framing = Framing::kLength;
  std::size_t content_length = 0;  // with kLength
  bool keep_alive = true;
};

// The status line and header of a response. Headers that are the server's business are replaced;
// the result is nullopt if one of the handler's could be read as more than one line.
std::optional<std::string> FormatHead(const ServerResponse& response, const HeadOptions& options);

}  // namespace paddleop::net::internal
