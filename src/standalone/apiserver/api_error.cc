#include "standalone/apiserver/api_error.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "api/meta/json.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

ApiError About(const Kind& kind, std::string_view name) {
  ApiError error;
  error.name = name;
  error.group = kind.type.group;
  error.kind = kind.type.plural;
  return error;
}

ApiError Plain(int code, std::string reason, std::string message) {
  ApiError error;
  error.code = code;
  error.reason = std::move(reason);
  error.message = std::move(message);
  return error;
}

Refusal InvalidFor(ApiError error, const std::string& kind, std::vector<Cause> causes) {
  error.code = 422;
  error.reason = "Invalid";
  std::vector<std::string> texts;
  texts.reserve(causes.size());
  for (const Cause& cause : causes) {
    texts.push_back(fmt::format("{}: {}", cause.field, cause.message));
  }
  error.message = fmt::format("{} {} is invalid: ", kind, Quoted(error.name));
  error.message += texts.size() == 1 ? texts[0] : fmt::format("[{}]", fmt::join(texts, ", "));
  error.causes = std::move(causes);
  return Refusal(std::move(error));
}

}  // namespace

std::string ApiError::Body() const {
  Json details = Json::object();
  if (!name.empty()) details["name"] = name;
  if (!group.empty()) details["group"] = group;
  if (!kind.empty()) details["kind"] = kind;
  for (const Cause& cause : causes) {
    details["causes"].push_back(
        {{"reason", cause.reason}, {"message", cause.message}, {"field", cause.field}});
  }
  Json body = {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", Json::object()},
               {"status", "Failure"}, {"message", message}, {"reason", reason},
               {"code", code}};
  // kubectl prints the message of an invalid request only where there are details, if empty ones.
  if (!details.empty() || reason == "Invalid") body["details"] = std::move(details);
  return api::DumpJson(body) + "\n";
}

Refusal NotFound(const Kind& kind, std::string_view name) {
  ApiError error = About(kind, name);
  error.code = 404;
  error.reason = "NotFound";
  error.message = fmt::format("{} {} not found", kind.FullName(), Quoted(name));
  return Refusal(std::move(error));
}

Refusal AlreadyExists(const Kind& kind, std::string_view name) {
  ApiError error = About(kind, name);
  error.code = 409;
  error.reason = "AlreadyExists";
  error.message = fmt::format("{} {} already exists", kind.FullName(), Quoted(name));
  return Refusal(std::move(error));
}

Refusal Conflict(const Kind& kind, std::string_view name, std::string_view why) {
  ApiError error = About(kind, name);
  error.code = 409;
  error.reason = "Conflict";
  error.message =
      fmt::format("Operation cannot be fulfilled on {} {}: {}", kind.FullName(), Quoted(name), why);
  return Refusal(std::move(error));
}

Refusal ModifiedMeanwhile(const Kind& kind, std::string_view name) {
  return Conflict(kind, name,
                  "the object has been modified; please apply your changes to the latest version "
                  "and try again");
}

Refusal Invalid(const Kind& kind, std::string_view name, std::vector<Cause> causes) {
  ApiError error = About(kind, name);
  error.kind = kind.type.kind;
  return InvalidFor(std::move(error), kind.FullKind(), std::move(causes));
}

Refusal InvalidRequest(std::vector<Cause> causes) {
  return InvalidFor(ApiError{}, "", std::move(causes));
}

Refusal BadRequest(std::string message) {
  return Refusal(Plain(400, "BadRequest", std::move(message)));
}

Refusal Forbidden(const Kind& kind, std::string_view name, std::string_view why) {
  ApiError error = About(kind, name);
  error.code = 403;
  error.reason = "Forbidden";
  error.message = fmt::format("{} {} is forbidden: {}", kind.FullName(), Quoted(name), why);
  return Refusal(std::move(error));
}

Refusal Expired(std::string message) { return Refusal(Plain(410, "Expired", std::move(message))); }

Refusal MethodNotAllowed() {
  return Refusal(Plain(405, "MethodNotAllowed",
                       "the server does not allow this method on the requested resource"));
}

Refusal NoSuchResource() {
  return Refusal(Plain(404, "NotFound", "the server could not find the requested resource"));
}

Refusal UnsupportedMediaType(std::string message) {
  return Refusal(Plain(415, "UnsupportedMediaType", std::move(message)));
}

Refusal Internal(const Status& status) {
  const int code = status.code() == Code::kNoSpace ? 507 : 500;
  return Refusal(
      Plain(code, "InternalError", fmt::format("Internal error occurred: {}", status.message())));
}

Cause Required(std::string field, std::string_view detail) {
  return {"FieldValueRequired",
          detail.empty() ? "Required value" : fmt::format("Required value: {}", detail),
          std::move(field)};
}

Cause InvalidValue(std::string field, std::string_view value, std::string_view detail) {
  return {"FieldValueInvalid", fmt::format("Invalid value: {}: {}", value, detail),
          std::move(field)};
}

Cause NotSupportedValue(std::string field, std::string_view value,
                        const std::vector<std::string_view>& supported) {
  std::vector<std::string> quoted;
  quoted.reserve(supported.size());
  for (const auto word : supported) quoted.push_back(Quoted(word));
  return {"FieldValueNotSupported",
          fmt::format("Unsupported value: {}: supported values: {}", Quoted(value),
                      fmt::join(quoted, ", ")),
          std::move(field)};
}

Cause ForbiddenField(std::string field, std::string_view detail) {
  return {"FieldValueForbidden", fmt::format("Forbidden: {}", detail), std::move(field)};
}

Cause DuplicateValue(std::string field, std::string_view value) {
  return {"FieldValueDuplicate", fmt::format("Duplicate value: {}", value), std::move(field)};
}

std::string Quoted(std::string_view text) { return api::DumpJson(Json(std::string(text))); }

}  // namespace paddleop::standalone::apiserver
