// Refusals as the Kubernetes API words them: meta/v1 Status.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "standalone/apiserver/kinds.h"

namespace paddleop::standalone::apiserver {

// One thing that is wrong with a field.
struct Cause {
  std::string reason;   // FieldValueRequired, FieldValueInvalid, ...
  std::string message;  // without the field's name
  std::string field;
};

struct ApiError {
  int code = 500;
  std::string reason;
  std::string message;
  std::string name;  // of the object it is about
  std::string group;
  std::string kind;
  std::vector<Cause> causes;

  // The JSON of the Status.
  std::string Body() const;
};

// A value, or what the client is told instead.
template <class T>
class [[nodiscard]] Answer : public std::expected<T, ApiError> {
 public:
  using value_type = T;
  using std::expected<T, ApiError>::expected;
};

using Refusal = std::unexpected<ApiError>;

Refusal NotFound(const Kind& kind, std::string_view name);
Refusal AlreadyExists(const Kind& kind, std::string_view name);
// `why` follows the name of the object.
Refusal Conflict(const Kind& kind, std::string_view name, std::string_view why);
Refusal ModifiedMeanwhile(const Kind& kind, std::string_view name);
Refusal Invalid(const Kind& kind, std::string_view name, std::vector<Cause> causes);
// The request itself is invalid, whatever object it is about.
Refusal InvalidRequest(std::vector<Cause> causes);
Refusal BadRequest(std::string message);
Refusal Forbidden(const Kind& kind, std::string_view name, std::string_view why);
Refusal Expired(std::string message);
Refusal MethodNotAllowed();
Refusal NoSuchResource();
Refusal UnsupportedMediaType(std::string message);
Refusal Internal(const Status& status);

// Causes, in the API's own words. `value` is shown as it is; quote strings.
Cause Required(std::string field, std::string_view detail = "");
Cause InvalidValue(std::string field, std::string_view value, std::string_view detail);
Cause NotSupportedValue(std::string field, std::string_view value,
                        const std::vector<std::string_view>& supported);
Cause ForbiddenField(std::string field, std::string_view detail);
Cause DuplicateValue(std::string field, std::string_view value);

// `text` in quotes, as Go prints it.
std::string Quoted(std::string_view text);

}  // namespace paddleop::standalone::apiserver
