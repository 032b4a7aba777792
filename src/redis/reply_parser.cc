#include "redis/reply_parser.h"

#include <hiredis/read.h>
extern "C" {
#include <hiredis/sds.h>
}

#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>

#include "base/check.h"

namespace paddleop::redis {
namespace {

// Bytes asked from the connection when nothing is known of what comes. Larger pieces save system
// calls but make the reader move more bytes after each reply it hands out.
constexpr std::size_t kChunk = 16 << 10;
// A buffer that one large reply made larger than this is given back.
constexpr std::size_t kKeep = 256 << 10;

}  // namespace

struct ReplyParser::Builder {
  static ReplyParser& Self(const redisReadTask* task) {
    return *static_cast<ReplyParser*>(task->privdata);
  }

  // Null tells the reader to stop; Broken() then knows why.
  static void* Refuse(ReplyParser& self, const char* problem, bool over_limit) {
    self.problem_ = problem;
    self.over_limit_ = over_limit;
    return nullptr;
  }

  // Accounts for `bytes` more of the reply and lets `fill` set the value where it belongs. A
  // parent's elements move only when the next sibling is added, and by then nobody points at the
  // ones before.
  template <class Fill>
  static void* Place(const redisReadTask* task, std::size_t bytes, Fill fill) noexcept {
    ReplyParser& self = Self(task);
    self.used_ += sizeof(Reply) + bytes;
    if (self.used_ > self.limits_.max_reply_bytes) {
      return Refuse(self, "the reply is too large", true);
    }
    try {
      Reply* slot = &self.root_;
      if (task->parent != nullptr) {
        auto& parent = static_cast<Reply*>(task->parent->obj)->value_;
        slot = &std::get_if<std::vector<Reply>>(&parent)->emplace_back();
      }
      fill(slot->value_);
      return slot;
    } catch (const std::exception&) {  // of the allocator, or of a length that nobody could hold
      return Refuse(self, "no memory left for the reply", true);
    }
  }

  static void* String(const redisReadTask* task, char* text, std::size_t size) {
    // Checked here as well as in CheckPending(), so that it does not matter in how many pieces the
    // bytes came.
    const bool is_string = task->type == REDIS_REPLY_STRING;
    ReplyParser& self = Self(task);
    if (is_string && size > self.limits_.max_string_bytes) {
      return Refuse(self, "the server sends a string that is too long", true);
    }
    if (!is_string && size > self.limits_.max_line_bytes) {
      return Refuse(self, "a line is too long", false);
    }
    // The reader skips the two bytes after a string without looking at them.
    if (is_string && std::memcmp(text + size, "\r\n", 2) != 0) {
      return Refuse(self, "a string does not end where its length says", false);
    }
    return Place(task, size, [&](Reply::Value& value) {
      if (task->type == REDIS_REPLY_STATUS) {
        value.emplace<Reply::StatusText>().text.assign(text, size);
      } else if (task->type == REDIS_REPLY_ERROR) {
        value.emplace<Reply::ErrorText>().text.assign(text, size);
      } else {
        value.emplace<std::string>(text, size);
      }
    });
  }
  static void* Array(const redisReadTask* task, int size) {
    return Place(task, 0, [&](Reply::Value& value) {
      // No more than has been promised, and no more than a promise deserves.
      value.emplace<std::vector<Reply>>().reserve(
          static_cast<std::size_t>(std::clamp(size, 0, 64)));
    });
  }
  static void* Integer(const redisReadTask* task, long long integer) {
    return Place(task, 0, [&](Reply::Value& value) { value.emplace<std::int64_t>(integer); });
  }
  static void* Nil(const redisReadTask* task) {
    return Place(task, 0, [](Reply::Value& value) { value.emplace<std::monostate>(); });
  }
  // Values belong to the parser, not to the reader.
  static void Free(void*) {}

  static redisReplyObjectFunctions* Functions() {
    static redisReplyObjectFunctions functions = {String, Array, Integer, Nil, Free};
    return &functions;
  }
};

ReplyParser::ReplyParser(const ReplyLimits& limits)
    : limits_(limits), reader_(redisReaderCreateWithFunctions(Builder::Functions())) {
  CHECK(reader_ != nullptr, "out of memory");
  reader_->privdata = this;
}

ReplyParser::~ReplyParser() { redisReaderFree(reader_); }

std::span<char> ReplyParser::Room() {
  if (reader_->len == 0 && sdsavail(reader_->buf) > kKeep) {
    sdsfree(reader_->buf);
    reader_->buf = sdsempty();
    CHECK(reader_->buf != nullptr, "out of memory");
  }
  // A long string gets room for all of it, but no faster than the buffer doubles.
  const std::size_t size = std::clamp(missing_, kChunk, std::max(kChunk, reader_->len));
  if (sdsavail(reader_->buf) < size) {
    reader_->buf = sdsMakeRoomFor(reader_->buf, size);
    CHECK(reader_->buf != nullptr, "out of memory");
  }
  return {reader_->buf + reader_->len, size};
}

void ReplyParser::Commit(std::size_t size) {
  sdsIncrLen(reader_->buf, static_cast<int>(size));
  reader_->len += size;
}

void ReplyParser::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto room = Room();
    const std::size_t size = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), size);
    Commit(size);
    bytes.remove_prefix(size);
  }
}

Result<bool> ReplyParser::Next(Reply& reply) {
  void* root = nullptr;
  if (redisReaderGetReply(reader_, &root) != REDIS_OK) return Broken();
  if (root == nullptr) {
    RETURN_IF_ERROR(CheckPending());
    return false;
  }
  reply = std::move(root_);
  used_ = 0;
  missing_ = 0;
  return true;
}

// Looks at what the reader could not use yet: it would wait for any promised length, and search an
// unending line again and again from its start.
Result<void> ReplyParser::CheckPending() {
  missing_ = 0;
  if (reader_->ridx < 0) return {};
  const std::string_view pending(reader_->buf + reader_->pos, reader_->len - reader_->pos);
  const std::size_t longest = limits_.max_line_bytes + 2;
  const std::size_t line = pending.substr(0, longest).find("\r\n");
  if (line == std::string_view::npos) {
    if (pending.size() < longest) return {};
    return Fail(Code::kCorrupt, "malformed reply: a line of more than {} bytes",
                limits_.max_line_bytes);
  }
  if (reader_->rstack[reader_->ridx].type != REDIS_REPLY_STRING) return {};
  // The reader has taken '$' and waits for the body of this length.
  std::uint64_t length = 0;
  const auto [stop, error] = std::from_chars(pending.data(), pending.data() + line, length);
  if (error != std::errc() || stop != pending.data() + line) return {};
  if (length > limits_.max_string_bytes || used_ + length > limits_.max_reply_bytes) {
    return Fail(Code::kInvalid, "the server sends a string of {} bytes, more than we accept",
                length);
  }
  const std::size_t whole = line + 2 + length + 2;
  missing_ = whole > pending.size() ? whole - pending.size() : 0;
  return {};
}

std::unexpected<Status> ReplyParser::Broken() const {
  if (over_limit_) return Fail(Code::kInvalid, "{}", problem_);
  return Fail(Code::kCorrupt, "malformed reply: {}",
              problem_ != nullptr ? problem_ : reader_->errstr);
}

bool ReplyParser::idle() const {
  if (reader_->pos != reader_->len) return false;
  // The reader opens the first item before it looks for bytes.
  return reader_->ridx < 0 || (reader_->ridx == 0 && reader_->rstack[0].type < 0);
}

}  // namespace paddleop::redis
