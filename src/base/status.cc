#include "base/status.h"

namespace paddleop {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kNotFound:
      return "NotFound";
    case Code::kAlreadyExists:
      return "AlreadyExists";
    case Code::kConflict:
      return "Conflict";
    case Code::kExpired:
      return "Expired";
    case Code::kInvalid:
      return "Invalid";
    case Code::kPermission:
      return "Permission";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kDeadline:
      return "Deadline";
    case Code::kCancelled:
      return "Cancelled";
    case Code::kCorrupt:
      return "Corrupt";
    case Code::kNotSupported:
      return "NotSupported";
    case Code::kNoSpace:
      return "NoSpace";
    case Code::kQuota:
      return "Quota";
    case Code::kIsDirectory:
      return "IsDirectory";
    case Code::kNotDirectory:
      return "NotDirectory";
    case Code::kNotEmpty:
      return "NotEmpty";
    case Code::kNameTooLong:
      return "NameTooLong";
    case Code::kInternal:
      return "Internal";
  }
  return "Unknown";
}

Status::Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

std::string Status::message() const {
  if (!cause_) return message_;
  return message_ + ": " + cause_->message();
}

std::string Status::ToString() const { return fmt::format("{}: {}", CodeName(code_), message()); }

Status Status::Wrap(std::string message) && {
  Status outer(code_, std::move(message));
  outer.maybe_done_ = maybe_done_;
  outer.cause_ = std::make_shared<const Status>(std::move(*this));
  return outer;
}

Status Status::Wrap(std::string message) const& { return Status(*this).Wrap(std::move(message)); }

Status Status::MarkMaybeDone() && {
  maybe_done_ = true;
  return std::move(*this);
}

}  // namespace paddleop
