#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "redis/reply.h"

struct redisReader;
struct redisReadTask;

namespace paddleop::redis {

// What we accept from a server; more ends the connection. Arrays nest at most seven deep.
struct ReplyLimits {
  std::size_t max_string_bytes = 512 << 20;  // the server's own default limit
  std::size_t max_reply_bytes = std::size_t{1}
                                << 30;    // of one reply with everything in it, in memory
  std::size_t max_line_bytes = 64 << 10;  // statuses, errors and lengths
};

// Turns bytes from a connection into replies, in whatever pieces they come. The grammar is hiredis'
// redisReader; the values are ours from the start, and bytes are read straight into the reader's
// buffer, so that a large string is copied once.
//
// Memory grows with what has arrived, never with what a length promises. Not thread-safe.
class ReplyParser {
 public:
  explicit ReplyParser(const ReplyLimits& limits = {});
  ~ReplyParser();
  ReplyParser(const ReplyParser&) = delete;
  ReplyParser& operator=(const ReplyParser&) = delete;

  // Where the next bytes go; sized by what is still missing. Valid until the next call.
  std::span<char> Room();
  // That many bytes of Room() were filled.
  void Commit(std::size_t size);
  // Room() and Commit() for bytes that are elsewhere.
  void Feed(std::string_view bytes);

  // Moves the next whole reply into `reply`; false if more bytes are needed for it. kCorrupt when
  // the bytes are no RESP2, kInvalid when they exceed a limit; the parser is of no use afterwards.
  Result<bool> Next(Reply& reply);

  // True between replies, with nothing unread.
  bool idle() const;

 private:
  struct Builder;  // hiredis' callbacks

  Result<void> CheckPending();
  std::unexpected<Status> Broken() const;

  ReplyLimits limits_;
  redisReader* reader_;
  Reply root_;                     // the reply under construction
  std::size_t used_ = 0;           // its bytes in memory
  std::size_t missing_ = 0;        // bytes that a pending string still needs; 0: unknown
  const char* problem_ = nullptr;  // what a callback objected to
  bool over_limit_ = false;
};

}  // namespace paddleop::redis
