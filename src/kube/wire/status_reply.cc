#include "kube/wire/status_reply.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace paddleop::kube {
namespace {

using Json = nlohmann::json;

std::string Text(const Json& object, const char* field) {
  if (!object.is_object()) return "";
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

struct Reply {
  int code = 0;
  std::string reason;
  std::string message;
  bool has_causes = false;
  bool other_uid = false;
};

Reply ReadReply(int http_status, std::string_view body) {
  Reply reply{.code = http_status, .reason = {}, .message = {}};
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || Text(json, "kind") != "Status") {
    // A proxy or a panic handler answered. Its text may help, in moderation.
    reply.message = std::string(body.substr(0, 200));
    return reply;
  }
  reply.reason = Text(json, "reason");
  reply.message = Text(json, "message");
  if (const auto code = json.find("code"); code != json.end() && code->is_number_integer())
    reply.code = code->get<int>();
  const auto details = json.find("details");
  if (details == json.end() || !details->is_object() || !details->contains("causes")) return reply;
  for (const Json& cause : (*details)["causes"]) {
    reply.has_causes = true;
    // A merge patch that names another UID: the server takes it for an attempt to change it.
    if (Text(cause, "field") == "metadata.uid") reply.other_uid = true;
  }
  return reply;
}

Code CodeOfReply(const Reply& reply, bool tested) {
  if (reply.reason == "Expired" || reply.reason == "Gone") return Code::kExpired;
  switch (reply.code) {
    case 401:
    case 403:
      return Code::kPermission;
    case 404:
      return Code::kNotFound;
    case 405:
    case 406:
    case 415:
      return Code::kNotSupported;
    case 408:
    case 429:
      return Code::kUnavailable;
    case 409:
      return reply.reason == "AlreadyExists" ? Code::kAlreadyExists : Code::kConflict;
    case 410:
      return Code::kExpired;
    case 422:
      return reply.other_uid || (tested && !reply.has_causes) ? Code::kConflict : Code::kInvalid;
    default:
      return reply.code >= 500 || reply.code == 0 ? Code::kUnavailable : Code::kInvalid;
  }
}

}  // namespace

Status StatusOfReply(int http_status, std::string_view body, std::string_view what, bool tested) {
  const Reply reply = ReadReply(http_status, body);
  std::string message = fmt::format("{}: {}", what, reply.code);
  if (!reply.reason.empty()) message += " " + reply.reason;
  if (!reply.message.empty()) message += ": " + reply.message;
  return Status(CodeOfReply(reply, tested), std::move(message));
}

}  // namespace paddleop::kube
