#include "redis/reply.h"

#include <charconv>

namespace paddleop::redis {

std::string_view TypeName(Reply::Type type) {
  switch (type) {
    case Reply::Type::kNil:
      return "nil";
    case Reply::Type::kStatus:
      return "status";
    case Reply::Type::kError:
      return "error";
    case Reply::Type::kInteger:
      return "integer";
    case Reply::Type::kString:
      return "string";
    case Reply::Type::kArray:
      return "array";
  }
  return "unknown";
}

std::string_view Reply::text() const {
  if (const auto* string = std::get_if<std::string>(&value_)) return *string;
  if (const auto* status = std::get_if<StatusText>(&value_)) return status->text;
  if (const auto* error = std::get_if<ErrorText>(&value_)) return error->text;
  return {};
}

std::string Reply::TakeText() && {
  if (auto* string = std::get_if<std::string>(&value_)) return std::move(*string);
  if (auto* status = std::get_if<StatusText>(&value_)) return std::move(status->text);
  if (auto* error = std::get_if<ErrorText>(&value_)) return std::move(error->text);
  return {};
}

std::span<const Reply> Reply::elements() const {
  if (const auto* array = std::get_if<std::vector<Reply>>(&value_)) return *array;
  return {};
}

std::span<Reply> Reply::elements() {
  if (auto* array = std::get_if<std::vector<Reply>>(&value_)) return *array;
  return {};
}

std::vector<Reply> Reply::TakeElements() && {
  if (auto* array = std::get_if<std::vector<Reply>>(&value_)) return std::move(*array);
  return {};
}

Result<std::int64_t> Reply::ToInteger() const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return *integer;
  if (const auto* string = std::get_if<std::string>(&value_)) {
    std::int64_t value = 0;
    const char* const end = string->data() + string->size();
    const auto [stop, error] = std::from_chars(string->data(), end, value);
    if (error == std::errc() && stop == end) return value;
    return Fail(Code::kCorrupt, "expected a number, got a string of {} bytes", string->size());
  }
  if (is_nil()) return Fail(Code::kNotFound, "expected a number, got nil");
  return Fail(Code::kCorrupt, "expected a number, got {} {}", TypeName(type()),
              is_error() ? text() : "");
}

Result<std::string_view> Reply::ToText() const {
  if (type() == Type::kString || type() == Type::kStatus) return text();
  if (is_nil()) return Fail(Code::kNotFound, "expected a string, got nil");
  return Fail(Code::kCorrupt, "expected a string, got {} {}", TypeName(type()),
              is_error() ? text() : "");
}

}  // namespace paddleop::redis
