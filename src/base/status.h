#pragma once

#include <fmt/format.h>

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace paddleop {

// What went wrong, chosen by what the caller can do about it. The list is closed: a new value needs
// a caller that acts differently on it.
enum class Code {
  kNotFound,
  kAlreadyExists,
  kConflict,     // somebody else was faster; read again and retry
  kExpired,      // what we went on from (a version, a page token) is too old; start afresh
  kInvalid,      // the request itself is wrong; retrying is useless
  kPermission,   // refused for who we are
  kUnavailable,  // the other side is away or overloaded; retry with back-off
  kDeadline,     // the caller's time is up
  kCancelled,    // the caller asked to stop
  kCorrupt,      // stored or received bytes are not what they must be
  kNotSupported,
  kNoSpace,
  kQuota,
  kIsDirectory,
  kNotDirectory,
  kNotEmpty,
  kNameTooLong,
  kInternal,
};

std::string_view CodeName(Code code);

// A failure: a code for programs, a message for people, and optionally the failure that caused it.
// There is no OK value; success without a value is Result<void>.
class Status {
 public:
  Status(Code code, std::string message);

  Code code() const { return code_; }
  // The message followed by the messages of the causes: "open volume: connect: refused".
  std::string message() const;
  // "kNotFound: ..." for logs and tests.
  std::string ToString() const;
  const Status* cause() const { return cause_.get(); }
  // True if what was asked for may have happened all the same, because only the answer was lost.
  // Then it may be tried again only if doing it twice is harmless. Wrap() keeps it.
  bool maybe_done() const { return maybe_done_; }
  Status MarkMaybeDone() &&;

  // The same code under a wider message: what we were doing when `this` happened.
  Status Wrap(std::string message) &&;
  Status Wrap(std::string message) const&;

 private:
  Code code_;
  bool maybe_done_ = false;
  std::string message_;
  std::shared_ptr<const Status> cause_;
};

// std::expected drops errors silently when its result is ignored; this one warns.
template <class T>
class [[nodiscard]] Result : public std::expected<T, Status> {
 public:
  using value_type = T;
  using std::expected<T, Status>::expected;
};

// Builds the error side of a Result: return Fail(Code::kNotFound, "no volume at {}", url);
template <class... Args>
[[nodiscard]] std::unexpected<Status> Fail(Code code, fmt::format_string<Args...> format,
                                           Args&&... args) {
  return std::unexpected(Status(code, fmt::format(format, std::forward<Args>(args)...)));
}

inline bool IsNotFound(const Status& s) { return s.code() == Code::kNotFound; }
inline bool IsAlreadyExists(const Status& s) { return s.code() == Code::kAlreadyExists; }
inline bool IsConflict(const Status& s) { return s.code() == Code::kConflict; }
// Worth another try with the same arguments.
inline bool IsRetryable(const Status& s) {
  return s.code() == Code::kUnavailable || s.code() == Code::kConflict;
}

}  // namespace paddleop

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are declarations and names, not operands.
#define PADDLEOP_CONCAT_INNER(a, b) a##b
#define PADDLEOP_CONCAT(a, b) PADDLEOP_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto x, MayFail());
#define ASSIGN_OR_RETURN(lhs, expr) \
  PADDLEOP_ASSIGN_OR_RETURN(PADDLEOP_CONCAT(result_, __LINE__), lhs, expr)
#define PADDLEOP_ASSIGN_OR_RETURN(tmp, lhs, expr)           \
  auto tmp = (expr);                                        \
  if (!tmp) return std::unexpected(std::move(tmp).error()); \
  lhs = *std::move(tmp)

#define RETURN_IF_ERROR(expr) PADDLEOP_RETURN_IF_ERROR(PADDLEOP_CONCAT(result_, __LINE__), expr)
#define PADDLEOP_RETURN_IF_ERROR(tmp, expr)                                      \
  do {                                                                           \
    if (auto tmp = (expr); !tmp) return std::unexpected(std::move(tmp).error()); \
  } while (false)
// NOLINTEND(bugprone-macro-parentheses)
