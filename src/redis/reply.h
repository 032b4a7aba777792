#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace paddleop::redis {

// What a server answers to one command (RESP2). A value of 40 bytes; short texts need no heap, and
// moving is cheap, so that pipelines of thousands of replies are.
class Reply {
 public:
  enum class Type : std::uint8_t { kNil, kStatus, kError, kInteger, kString, kArray };

  Reply() = default;  // nil
  static Reply OfStatus(std::string text) { return Reply(StatusText{std::move(text)}); }
  static Reply OfError(std::string text) { return Reply(ErrorText{std::move(text)}); }
  static Reply OfInteger(std::int64_t value) { return Reply(value); }
  static Reply OfString(std::string text) { return Reply(std::move(text)); }
  static Reply OfArray(std::vector<Reply> elements) { return Reply(std::move(elements)); }

  Type type() const { return static_cast<Type>(value_.index()); }
  bool is_nil() const { return type() == Type::kNil; }
  bool is_error() const { return type() == Type::kError; }
  bool is_array() const { return type() == Type::kArray; }

  // Of a status, an error or a string; empty for the others.
  std::string_view text() const;
  // The bytes without a copy.
  std::string TakeText() &&;
  // Of an array; empty for the others.
  std::span<const Reply> elements() const;
  std::span<Reply> elements();
  std::vector<Reply> TakeElements() &&;

  // Checked reads for callers that know what must come; kCorrupt says what came instead.
  // An integer, or a string of decimal digits as INCR and friends store it.
  Result<std::int64_t> ToInteger() const;
  // A string or status; kNotFound for nil.
  Result<std::string_view> ToText() const;

  bool operator==(const Reply&) const = default;

 private:
  friend class ReplyParser;

  struct StatusText {
    std::string text;
    bool operator==(const StatusText&) const = default;
  };
  struct ErrorText {
    std::string text;
    bool operator==(const ErrorText&) const = default;
  };
  // In the order of Type.
  using Value = std::variant<std::monostate, StatusText, ErrorText, std::int64_t, std::string,
                             std::vector<Reply>>;

  explicit Reply(Value value) : value_(std::move(value)) {}

  Value value_;
};

// "nil", "status", "error", ... for messages.
std::string_view TypeName(Reply::Type type);

}  // namespace paddleop::redis
