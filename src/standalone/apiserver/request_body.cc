#include "standalone/apiserver/internal/request_body.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <charconv>
#include <set>

#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/internal/protobuf_body.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr int kMaxDepth = 256;

// Follows the parser to know where it is, and notes names that an object has twice.
class DuplicateFinder {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    too_deep_ = too_deep_ || depth > kMaxDepth;
    if (too_deep_) return false;
    if (event == Event::object_start) {
      levels_.emplace_back();
    } else if (event == Event::object_end) {
      levels_.pop_back();
    } else if (event == Event::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      levels_.back().name = name;
      if (!levels_.back().names.insert(name).second) found.push_back(Path());
    }
    return true;
  }
  bool too_deep() const { return too_deep_; }

  std::vector<std::string> found;

 private:
  struct Level {
    std::string name;
    std::set<std::string> names;
  };

  std::string Path() const {
    std::string out;
    for (const Level& level : levels_) out += (out.empty() ? "" : ".") + level.name;
    return out;
  }

  std::vector<Level> levels_;
  bool too_deep_ = false;
};

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Answer<kube::Propagation> ReadPropagation(const std::string& text) {
  if (text.empty()) return kube::Propagation::kServerDefault;
  if (text == "Background") return kube::Propagation::kBackground;
  if (text == "Foreground") return kube::Propagation::kForeground;
  if (text == "Orphan") return kube::Propagation::kOrphan;
  return BadRequest(fmt::format(
      "invalid propagationPolicy {}: use Background, Foreground or Orphan", Quoted(text)));
}

}  // namespace

std::string ContentType(const net::ServerRequest& request) {
  std::string_view type = request.headers.Get("content-type").value_or("");
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  return std::string(type);
}

Answer<RequestBody> ReadBody(const net::ServerRequest& request) {
  const std::string type = ContentType(request);
  if (type == kProtobufType) {
    auto read = FromProtobuf(request.body);
    if (read) return RequestBody{*std::move(read), {}};
    if (read.error().code() == Code::kNotSupported) {
      return UnsupportedMediaType(read.error().message());
    }
    return BadRequest(read.error().message());
  }
  if (!type.empty() && type != "application/json" && type != "*/*") {
    return UnsupportedMediaType(
        fmt::format("the body of the request was in an unknown format ({}) - accepted media types "
                    "include: application/json",
                    type));
  }
  DuplicateFinder duplicates;
  Json parsed = Json::parse(request.body, std::ref(duplicates), /*allow_exceptions=*/false);
  if (duplicates.too_deep()) {
    return BadRequest(fmt::format("the body is nested deeper than {} levels", kMaxDepth));
  }
  if (parsed.is_discarded()) {
    const auto why = api::ParseJson(request.body);
    return BadRequest(fmt::format("the body of the request is not JSON: {}",
                                  why ? "it cannot be read" : why.error().message()));
  }
  if (!parsed.is_object()) return BadRequest("the body of the request must be a JSON object");
  return RequestBody{std::move(parsed), std::move(duplicates.found)};
}

Answer<RequestBody> ReadObject(const net::ServerRequest& request, const Kind& kind,
                               std::string_view ns, std::string_view name) {
  ASSIGN_OR_RETURN(RequestBody body, ReadBody(request));
  const std::string version = TextAt(body.json, "apiVersion");
  const std::string kind_name = TextAt(body.json, "kind");
  // Clients of built-in kinds may leave both out.
  if (version.empty() && kind_name.empty() && !kind.custom) {
    body.json["apiVersion"] = kind.type.ApiVersion();
    body.json["kind"] = kind.type.kind;
  } else if (version != kind.type.ApiVersion()) {
    return BadRequest(
        fmt::format("the API version in the data ({}) does not match the expected API "
                    "version ({})",
                    version, kind.type.ApiVersion()));
  } else if (kind_name != kind.type.kind) {
    return BadRequest(fmt::format("the kind in the data ({}) does not match the expected kind ({})",
                                  kind_name, kind.type.kind));
  }
  const std::string has_ns = TextAt(body.json, "metadata.namespace");
  if (kind.type.namespaced && !has_ns.empty() && has_ns != ns) {
    return BadRequest(
        "the namespace of the provided object does not match the namespace sent on the request");
  }
  const std::string has_name = TextAt(body.json, "metadata.name");
  if (!name.empty() && has_name != name) {
    return BadRequest(
        has_name.empty() ? "name is required"
                         : fmt::format("the name of the object ({}) does not match the name on the "
                                       "URL ({})",
                                       has_name, name));
  }
  return body;
}

Answer<WriteOptions> ReadWriteOptions(const net::ServerRequest& request) {
  WriteOptions out;
  if (const auto dry = request.Query("dryRun"); dry && !dry->empty()) {
    if (*dry != "All") {
      return BadRequest(fmt::format("invalid dryRun {}: only All is supported", Quoted(*dry)));
    }
    out.dry_run = true;
  }
  const std::string fields = request.Query("fieldValidation").value_or("");
  if (fields == "Strict") {
    out.fields = FieldValidation::kStrict;
  } else if (fields == "Ignore") {
    out.fields = FieldValidation::kIgnore;
  } else if (!fields.empty() && fields != "Warn") {
    return BadRequest(
        fmt::format("invalid fieldValidation {}: use Ignore, Warn or Strict", Quoted(fields)));
  }
  return out;
}

Answer<DeleteRequest> ReadDeleteRequest(const net::ServerRequest& request) {
  DeleteRequest out;
  Json body = Json::object();
  if (!request.body.empty()) {
    ASSIGN_OR_RETURN(RequestBody read, ReadBody(request));
    body = std::move(read.json);
  }
  std::string propagation = TextAt(body, "propagationPolicy");
  if (const auto query = request.Query("propagationPolicy")) propagation = *query;
  ASSIGN_OR_RETURN(out.propagation, ReadPropagation(propagation));
  const Json* orphan = ValueAt(body, "orphanDependents");
  if (propagation.empty() && orphan != nullptr && orphan->is_boolean()) {
    out.propagation = *orphan == true ? kube::Propagation::kOrphan : kube::Propagation::kBackground;
  }
  if (const Json* grace = ValueAt(body, "gracePeriodSeconds");
      grace && grace->is_number_integer()) {
    out.grace_seconds = grace->get<std::int64_t>();
  }
  if (const auto query = request.Query("gracePeriodSeconds")) {
    out.grace_seconds = ParseInteger(*query);
    if (!out.grace_seconds) {
      return BadRequest(fmt::format("invalid gracePeriodSeconds {}: not a number", Quoted(*query)));
    }
  }
  if (out.grace_seconds && *out.grace_seconds < 0) {
    return BadRequest("gracePeriodSeconds must not be negative");
  }
  out.uid = TextAt(body, "preconditions.uid");
  out.resource_version = TextAt(body, "preconditions.resourceVersion");
  ASSIGN_OR_RETURN(const WriteOptions options, ReadWriteOptions(request));
  out.dry_run = options.dry_run || !ListAt(body, "dryRun").empty();
  return out;
}

}  // namespace paddleop::standalone::apiserver
