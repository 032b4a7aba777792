#include "runtime/protocol/job.h"

#include "runtime/protocol/internal/fields.h"
#include "runtime/protocol/paths.h"

namespace paddleop::runtime {
namespace {

using internal::Fields;
using internal::Json;

constexpr std::pair<JobKind, std::string_view> kKinds[] = {
    {JobKind::kSync, "sync"},
    {JobKind::kWarmup, "warmup"},
    {JobKind::kClear, "clear"},
    {JobKind::kRmr, "rmr"},
};

constexpr std::pair<JobState, std::string_view> kStates[] = {
    {JobState::kQueued, "queued"},
    {JobState::kRunning, "running"},
    {JobState::kNeedsCredentials, "needsCredentials"},
    {JobState::kSucceeded, "succeeded"},
    {JobState::kFailed, "failed"},
    {JobState::kCancelled, "cancelled"},
};

Result<void> ValidatePaths(const std::vector<std::string>& paths, std::string_view field,
                           bool absolute_allowed) {
  if (paths.size() > kMaxPaths) {
    return Fail(Code::kInvalid, "{} has {} entries; at most {} are allowed", field, paths.size(),
                kMaxPaths);
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (absolute_allowed && paths[i].starts_with('/')) continue;
    RETURN_IF_ERROR(CheckSetPath(paths[i], fmt::format("{}[{}]", field, i)));
  }
  return {};
}

Result<void> ValidateSync(const JobRequest& request) {
  if (request.sources.empty()) return Fail(Code::kInvalid, "sources is empty; name a source");
  if (request.sources.size() > kMaxSources) {
    return Fail(Code::kInvalid, "sources has {} entries; at most {} are allowed",
                request.sources.size(), kMaxSources);
  }
  for (std::size_t i = 0; i < request.sources.size(); ++i) {
    const JobSource& source = request.sources[i];
    const auto scheme = source.uri.find("://");
    if (scheme == std::string::npos || scheme == 0 ||
        source.uri.find("://", scheme + 3) != std::string::npos) {
      return Fail(Code::kInvalid, "sources[{}].uri is \"{}\"; it must be SCHEME://PLACE", i,
                  RedactUrl(source.uri));
    }
    RETURN_IF_ERROR(CheckSetPath(source.path, fmt::format("sources[{}].path", i)));
  }
  if (request.sync.threads < 0) {
    return Fail(Code::kInvalid, "options.threads is {}; give 0 or more", request.sync.threads);
  }
  if (request.sync.bwlimit < 0) {
    return Fail(Code::kInvalid, "options.bwlimit is {}; give 0 or more", request.sync.bwlimit);
  }
  return {};
}

Result<void> ValidateWarmup(const api::WarmupOptions& options) {
  RETURN_IF_ERROR(ValidatePaths(options.paths, "options.paths", false));
  if (!options.file.empty()) RETURN_IF_ERROR(CheckSetPath(options.file, "options.file"));
  if (options.strategy_name != "sequence" && options.strategy_name != "random") {
    return Fail(Code::kInvalid, "options.strategyName is \"{}\"; it must be sequence or random",
                options.strategy_name);
  }
  if (options.threads < 0) {
    return Fail(Code::kInvalid, "options.threads is {}; give 0 or more", options.threads);
  }
  if (options.batch_size && *options.batch_size < 1) {
    return Fail(Code::kInvalid, "options.batchSize is {}; give 1 or more", *options.batch_size);
  }
  if (options.ranks && *options.ranks < 1) {
    return Fail(Code::kInvalid, "options.ranks is {}; give 1 or more", *options.ranks);
  }
  if (options.epoch && (*options.epoch < 0 || *options.epoch > 0xffffffffLL)) {
    return Fail(Code::kInvalid, "options.epoch is {}; give 0 to 4294967295", *options.epoch);
  }
  return {};
}

Json OptionsJson(const JobRequest& request) {
  switch (request.kind) {
    case JobKind::kSync:
      return api::ToJson(request.sync);
    case JobKind::kWarmup:
      return api::ToJson(request.warmup);
    case JobKind::kClear:
    case JobKind::kRmr:
      return api::ToJson(request.paths);
  }
  return Json::object();
}

Json RequestJson(const JobRequest& request, bool with_credentials) {
  Json out = {{"options", OptionsJson(request)}};
  for (const JobSource& source : request.sources) {
    Json entry = {{"uri", with_credentials ? source.uri : RedactUrl(source.uri)}};
    if (!source.path.empty()) entry["path"] = source.path;
    if (with_credentials && !source.credentials.empty()) {
      entry["accessKey"] = source.credentials.access_key;
      entry["secretKey"] = source.credentials.secret_key.Reveal();
      if (!source.credentials.session_token.empty()) {
        entry["sessionToken"] = source.credentials.session_token.Reveal();
      }
    }
    out["sources"].push_back(std::move(entry));
  }
  if (request.part) out["part"] = {{"index", request.part->index}, {"count", request.part->count}};
  return out;
}

Result<void> ReadOptions(const Json& json, JobRequest& request) {
  switch (request.kind) {
    case JobKind::kSync: {
      ASSIGN_OR_RETURN(request.sync, api::SyncOptionsFromJson(json));
      break;
    }
    case JobKind::kWarmup: {
      ASSIGN_OR_RETURN(request.warmup, api::WarmupOptionsFromJson(json));
      break;
    }
    case JobKind::kClear:
    case JobKind::kRmr: {
      ASSIGN_OR_RETURN(request.paths, api::PathOptionsFromJson(json));
      break;
    }
  }
  // A field that the kind does not have would be ignored silently.
  const Json known = OptionsJson(request);
  for (const auto& [key, value] : json.items()) {
    const bool zero = value.is_null() || value == Json(false) || value == Json(0) ||
                      value == Json("") || (value.is_array() && value.empty());
    if (!known.contains(key) && !zero && key != "Strategy" && key != "strategyName") {
      return Fail(Code::kInvalid, "options.{} is not an option of {}", key, KindName(request.kind));
    }
  }
  return {};
}

Result<JobSource> ReadSource(const Json& json, const std::string& path) {
  JobSource source;
  std::string secret;
  std::string session;
  Fields fields(json, path);
  fields("uri", source.uri);
  fields("path", source.path);
  fields("accessKey", source.credentials.access_key);
  fields("secretKey", secret);
  fields("sessionToken", session);
  source.credentials.secret_key = Secret(std::move(secret));
  source.credentials.session_token = Secret(std::move(session));
  RETURN_IF_ERROR(fields.Finish());
  return source;
}

}  // namespace

std::string_view KindName(JobKind kind) {
  for (const auto& [value, name] : kKinds) {
    if (value == kind) return name;
  }
  return "?";
}

Result<JobKind> ParseKind(std::string_view name) {
  for (const auto& [value, known] : kKinds) {
    if (known == name) return value;
  }
  return Fail(Code::kInvalid, "no kind of job is called \"{}\"; there are sync, warmup, clear, rmr",
              name);
}

std::string_view StateName(JobState state) {
  for (const auto& [value, name] : kStates) {
    if (value == state) return name;
  }
  return "?";
}

Result<JobState> ParseState(std::string_view name) {
  for (const auto& [value, known] : kStates) {
    if (known == name) return value;
  }
  return Fail(Code::kInvalid, "no state of a job is called \"{}\"", name);
}

Result<void> CheckSetPath(std::string_view path, std::string_view field) {
  if (path.empty()) return {};
  if (path.size() > kMaxPathBytes) {
    return Fail(Code::kInvalid, "{} has {} bytes; at most {} are allowed", field, path.size(),
                kMaxPathBytes);
  }
  if (path.find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalid, "{} contains a NUL byte", field);
  }
  if (path.starts_with('/')) {
    return Fail(Code::kInvalid, "{} is \"{}\"; paths are relative to the root of the set", field,
                path);
  }
  std::string_view rest = path;
  if (rest.ends_with('/')) rest.remove_suffix(1);
  while (true) {
    const auto slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") {
      return Fail(Code::kInvalid,
                  R"({} is "{}"; empty parts, "." and ".." are not allowed in a path)", field,
                  path);
    }
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

Result<void> Validate(const JobRequest& request) {
  if (!IsJobName(request.name)) {
    return Fail(Code::kInvalid, "the name of a job must be a UUID in lower case");
  }
  if (request.part && (request.part->count == 0 || request.part->index >= request.part->count)) {
    return Fail(Code::kInvalid, "part is {}/{}; the index must be below the count",
                request.part->index, request.part->count);
  }
  if (request.kind != JobKind::kSync && !request.sources.empty()) {
    return Fail(Code::kInvalid, "sources belong to a sync job, this is {}", KindName(request.kind));
  }
  switch (request.kind) {
    case JobKind::kSync:
      return ValidateSync(request);
    case JobKind::kWarmup:
      return ValidateWarmup(request.warmup);
    case JobKind::kClear:
      return ValidatePaths(request.paths.paths, "options.paths", true);
    case JobKind::kRmr:
      if (request.paths.paths.empty()) {
        return Fail(Code::kInvalid, "options.paths is empty; name what to remove");
      }
      for (const std::string& path : request.paths.paths) {
        if (path.empty()) {
          return Fail(Code::kInvalid, "options.paths has an empty entry: the root of the set");
        }
      }
      return ValidatePaths(request.paths.paths, "options.paths", false);
  }
  return {};
}

Json ToJson(const JobRequest& request) { return RequestJson(request, true); }
Json ToPublicJson(const JobRequest& request) { return RequestJson(request, false); }

Result<JobRequest> JobRequestFromJson(const Json& json, JobKind kind, std::string name) {
  JobRequest request{.kind = kind, .name = std::move(name)};
  Fields fields(json);
  RETURN_IF_ERROR(fields.Finish());
  if (const Json* options = fields.Find("options")) {
    auto read = ReadOptions(*options, request);
    if (!read) return std::unexpected(std::move(read).error());
  }
  if (const Json* sources = fields.Array("sources")) {
    for (std::size_t i = 0; i < sources->size() && i <= kMaxSources; ++i) {
      ASSIGN_OR_RETURN(auto source, ReadSource((*sources)[i], fmt::format("sources[{}]", i)));
      request.sources.push_back(std::move(source));
    }
  }
  if (const Json* part = fields.Find("part")) {
    Fields inner(*part, "part");
    request.part.emplace();
    inner("index", request.part->index);
    inner("count", request.part->count);
    fields.Add(inner.Finish());
  }
  RETURN_IF_ERROR(fields.Finish());
  RETURN_IF_ERROR(Validate(request));
  return request;
}

}  // namespace paddleop::runtime
