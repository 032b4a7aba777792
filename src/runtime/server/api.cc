#include "runtime/server/api.h"

#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "runtime/protocol/paths.h"
#include "runtime/server/metrics.h"

namespace paddleop::runtime {
namespace {

using net::ServerRequest;
using net::ServerResponse;

ServerResponse Error(const Status& error) {
  return ServerResponse::Json(HttpStatusOf(error.code()), ErrorBody(error));
}

ServerResponse Reply(const Result<JobResult>& result) {
  if (!result) return Error(result.error());
  return ServerResponse::Json(200, api::DumpJson(ToJson(*result)));
}

ServerResponse WrongMethod(std::string_view allowed) {
  ServerResponse response =
      ServerResponse::Json(405, ErrorBody(Status(Code::kInvalid, "method not allowed here")));
  response.headers.Set("Allow", std::string(allowed));
  return response;
}

// "syncOptions" -> kSync
Result<JobKind> KindBefore(std::string_view text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return Fail(Code::kNotFound, "no such path");
  return ParseKind(text.substr(0, text.size() - suffix.size()));
}

}  // namespace

Api::Api(ApiParts parts) : parts_(std::move(parts)), boot_id_(RandomUuid()) {
  for (const char* reason : {"no_token", "wrong_token", "not_found"}) {
    parts_.metrics->AddCounter(metric::kRefused, metric::kRefusedHelp, {{"reason", reason}});
  }
}

ServerResponse Api::Refuse(int status, const char* reason, std::string message) {
  parts_.metrics->AddCounter(metric::kRefused, metric::kRefusedHelp, {{"reason", reason}})
      .Increment();
  const Code code = status == 404 ? Code::kNotFound : Code::kPermission;
  return ServerResponse::Json(status, ErrorBody(Status(code, std::move(message))));
}

ServerResponse Api::Health(const ServerRequest& request) {
  if (request.path == "/healthz") return ServerResponse::Text(200, "ok\n");
  const auto [serving, why] = parts_.serving();
  if (request.path == "/metrics") {
    parts_.metrics->AddGauge(metric::kJobsUnfinished, metric::kJobsUnfinishedHelp)
        .Set(serving ? serving->jobs->unfinished() : 0);
    return ServerResponse::Text(200, parts_.metrics->Serialize());
  }
  // The reason may name servers; it is for those with a token (CacheInfo).
  return serving ? ServerResponse::Text(200, "ok\n") : ServerResponse::Text(503, "not ready\n");
}

ServerResponse Api::Handle(const Context& ctx, const ServerRequest& request) {
  if (request.path == "/healthz" || request.path == "/readyz" || request.path == "/metrics") {
    return Health(request);
  }
  switch (parts_.tokens->Check(request.headers.Get("Authorization"))) {
    case TokenStore::Verdict::kGood:
      break;
    case TokenStore::Verdict::kMissing:
      return Refuse(401, "no_token", "a bearer token is needed");
    case TokenStore::Verdict::kWrong:
      return Refuse(401, "wrong_token", "this token is not good here");
  }
  if (request.path == kCacheInfoPath) {
    return request.method == "GET" ? Info(ctx) : WrongMethod("GET");
  }
  if (request.path == kPurgePath) {
    if (request.method != "POST") return WrongMethod("POST");
    auto purged = parts_.purge(ctx);
    return purged ? ServerResponse::Json(200, "{}") : Error(purged.error());
  }
  auto [serving, why] = parts_.serving();
  if (!serving) return Error(Status(Code::kUnavailable, "not ready: " + why));
  if (request.path.starts_with(kUploadPrefix)) return Upload(*serving, request);
  if (request.path.starts_with(kJobsPath)) return Jobs(*serving, request);
  if (request.path == kPeersPath) return Peers(*serving, request);
  if (auto response = Stored(*serving, request)) return *std::move(response);
  if (auto response = serving->engine->Serve(ctx, request, false)) return *std::move(response);
  return Refuse(404, "not_found", "no such path");
}

ServerResponse Api::HandleLocal(const Context& ctx, const ServerRequest& request) {
  auto [serving, why] = parts_.serving();
  if (!serving) return Error(Status(Code::kUnavailable, "not ready"));
  if (auto response = serving->engine->Serve(ctx, request, true)) return *std::move(response);
  return Refuse(404, "not_found", "no such path");
}

ServerResponse Api::Info(const Context& ctx) {
  CacheInfo info{.index = parts_.index, .boot_id = boot_id_};
  auto [serving, why] = parts_.serving();
  info.message = std::move(why);
  if (serving) {
    info.ready = true;
    info.peers_generation = serving->peers->Table().generation;
    info.active_jobs = serving->jobs->unfinished();
    serving->engine->Describe(ctx, info);
  }
  return ServerResponse::Json(200, api::DumpJson(ToJson(info)));
}

ServerResponse Api::Upload(Serving& serving, const ServerRequest& request) {
  auto kind = KindBefore(std::string_view(request.path).substr(kUploadPrefix.size()), "Options");
  if (!kind) return Refuse(404, "not_found", "no such path");
  if (request.method != "POST") return WrongMethod("POST");
  const auto name = request.headers.Get(kJobNameHeader);
  if (!name) {
    return Error(Status(Code::kInvalid, fmt::format("header {} is missing", kJobNameHeader)));
  }
  if (const auto terminate = request.Query("terminate"); terminate && !terminate->empty()) {
    serving.jobs->CancelAll();
    if (*name == kTerminateName) return ServerResponse::Json(200, "{}");
  }
  if (!IsJobName(*name)) {
    return Error(Status(Code::kInvalid,
                        fmt::format("header {} must be a UUID in lower case", kJobNameHeader)));
  }
  auto json = api::ParseJson(request.body);
  if (!json) return Error(json.error());
  auto job = JobRequestFromJson(*json, *kind, std::string(*name));
  if (!job) return Error(job.error());
  return Reply(serving.jobs->Post(*std::move(job)));
}

ServerResponse Api::Jobs(Serving& serving, const ServerRequest& request) {
  std::string_view rest = std::string_view(request.path).substr(kJobsPath.size());
  if (rest.empty()) {
    if (request.method != "GET") return WrongMethod("GET");
    api::Json list = api::Json::array();
    for (const JobResult& job : serving.jobs->List()) list.push_back(ToJson(job));
    return ServerResponse::Json(200, api::DumpJson(list));
  }
  constexpr std::string_view kCancel = "/cancel";
  if (!rest.starts_with('/') || !rest.ends_with(kCancel)) {
    return Refuse(404, "not_found", "no such path");
  }
  if (request.method != "POST") return WrongMethod("POST");
  const std::string_view name = rest.substr(1, rest.size() - 1 - kCancel.size());
  if (!IsJobName(name)) return Refuse(404, "not_found", "no such job");
  return Reply(serving.jobs->Cancel(std::string(name)));
}

ServerResponse Api::Peers(Serving& serving, const ServerRequest& request) {
  if (request.method == "GET") {
    const PeerTable table = serving.peers->Table();
    if (table.peers.empty()) return Error(Status(Code::kNotFound, "no table of peers yet"));
    return ServerResponse::Json(200, api::DumpJson(ToJson(table)));
  }
  if (request.method != "PUT") return WrongMethod("GET, PUT");
  auto json = api::ParseJson(request.body);
  if (!json) return Error(json.error());
  auto table = PeerTableFromJson(*json);
  if (!table) return Error(table.error());
  auto put = serving.peers->Put(*table);
  return put ? ServerResponse::Json(200, "{}") : Error(put.error());
}

std::optional<ServerResponse> Api::Stored(Serving& serving, const ServerRequest& request) {
  const auto slash = request.path.find('/', 1);
  if (slash == std::string::npos) return std::nullopt;
  const std::string_view what = std::string_view(request.path).substr(1, slash - 1);
  const std::string name = request.path.substr(slash + 1);
  const auto options = KindBefore(what, "Options");
  const auto result = KindBefore(what, "Result");
  if (!options && !result) return std::nullopt;
  if (request.method != "GET") return WrongMethod("GET");
  if (!IsJobName(name)) return Refuse(404, "not_found", "no such job");
  if (result) return Reply(serving.jobs->Get(*result, name));
  auto stored = serving.jobs->GetRequest(*options, name);
  if (!stored) return Error(stored.error());
  return ServerResponse::Json(200, api::DumpJson(ToPublicJson(*stored)));
}

}  // namespace paddleop::runtime
