#include "runtime/client/runtime_client.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "net/http_client.h"

namespace paddleop::runtime {
namespace {

class HttpRuntimeClient final : public RuntimeClient {
 public:
  HttpRuntimeClient(ClientOptions options, std::unique_ptr<net::HttpClient> http)
      : options_(std::move(options)), http_(std::move(http)) {}

  Result<JobResult> Post(const Context& ctx, const JobRequest& request) override {
    RETURN_IF_ERROR(Validate(request));
    return ReadJob(Call(ctx, {.method = "POST",
                              .url = UploadPath(request.kind),
                              .headers = {{std::string(kJobNameHeader), request.name},
                                          {"Content-Type", "application/json"}},
                              .body = api::DumpJson(ToJson(request))}));
  }

  Result<JobResult> GetResult(const Context& ctx, JobKind kind, const std::string& name) override {
    return ReadJob(Call(ctx, {.url = ResultPath(kind, name)}));
  }

  Result<JobRequest> GetRequest(const Context& ctx, JobKind kind,
                                const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string body, Call(ctx, {.url = OptionsPath(kind, name)}));
    ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(body));
    return JobRequestFromJson(json, kind, name);
  }

  Result<std::vector<JobResult>> ListJobs(const Context& ctx) override {
    ASSIGN_OR_RETURN(const std::string body, Call(ctx, {.url = std::string(kJobsPath)}));
    ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(body));
    std::vector<JobResult> jobs;
    if (!json.is_array()) return Fail(Code::kInvalid, "the runtime's list of jobs is no array");
    for (const api::Json& entry : json) {
      ASSIGN_OR_RETURN(auto job, JobResultFromJson(entry));
      jobs.push_back(std::move(job));
    }
    return jobs;
  }

  Result<JobResult> Cancel(const Context& ctx, const std::string& name) override {
    return ReadJob(Call(ctx, {.method = "POST", .url = CancelPath(name)}));
  }

  Result<void> CancelAll(const Context& ctx) override {
    RETURN_IF_ERROR(
        Call(ctx, {.method = "POST",
                   .url = UploadPath(JobKind::kClear) + "?terminate=1",
                   .headers = {{std::string(kJobNameHeader), std::string(kTerminateName)}}}));
    return {};
  }

  Result<CacheInfo> GetCacheInfo(const Context& ctx) override {
    ASSIGN_OR_RETURN(const std::string body, Call(ctx, {.url = std::string(kCacheInfoPath)}));
    ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(body));
    return CacheInfoFromJson(json);
  }

  Result<void> PutPeers(const Context& ctx, const PeerTable& table) override {
    RETURN_IF_ERROR(Call(ctx, {.method = "PUT",
                               .url = std::string(kPeersPath),
                               .headers = {{"Content-Type", "application/json"}},
                               .body = api::DumpJson(ToJson(table))}));
    return {};
  }

  Result<PeerTable> GetPeers(const Context& ctx) override {
    ASSIGN_OR_RETURN(const std::string body, Call(ctx, {.url = std::string(kPeersPath)}));
    ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(body));
    return PeerTableFromJson(json);
  }

  Result<void> Purge(const Context& ctx) override {
    RETURN_IF_ERROR(Call(ctx, {.method = "POST", .url = std::string(kPurgePath)}));
    return {};
  }

 private:
  Result<net::HttpResponse> Once(const Context& ctx, net::HttpRequest request,
                                 const Secret& token) {
    request.headers.Set("Authorization", "Bearer " + token.Reveal());
    return http_->Do(ctx, std::move(request));
  }

  // The body of a 2xx answer; `request.url` is a path.
  Result<std::string> Call(const Context& parent, net::HttpRequest request) {
    const Context ctx = parent.WithTimeout(options_.timeout);
    const std::string what =
        fmt::format("runtime {}: {} {}", options_.address, request.method, request.url);
    request.url = "https://" + options_.address + request.url;
    auto response = Once(ctx, request, options_.token);
    if (response && response->status == 401 && !options_.previous_token.empty()) {
      response = Once(ctx, request, options_.previous_token);
    }
    if (!response) return std::unexpected(std::move(response).error().Wrap(what));
    if (response->status / 100 == 2) return std::move(response->body);
    return std::unexpected(ErrorFromBody(response->status, response->body).Wrap(what));
  }

  static Result<JobResult> ReadJob(Result<std::string> body) {
    if (!body) return std::unexpected(std::move(body).error());
    ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(*body));
    return JobResultFromJson(json);
  }

  const ClientOptions options_;
  const std::unique_ptr<net::HttpClient> http_;
};

}  // namespace

Result<std::unique_ptr<RuntimeClient>> OpenRuntimeClient(ClientOptions options) {
  if (options.address.empty()) return Fail(Code::kInvalid, "no address of the runtime");
  if (options.tls_name.empty()) return Fail(Code::kInvalid, "no TLS name of the runtime");
  if (options.ca_pem.empty() && options.ca_file.empty()) {
    return Fail(Code::kInvalid, "no certificate authority for the runtime {}", options.address);
  }
  if (options.token.empty()) {
    return Fail(Code::kInvalid, "no token for the runtime {}", options.address);
  }
  ASSIGN_OR_RETURN(auto http, net::HttpClient::Create({.tls = {.ca_file = options.ca_file,
                                                               .ca_pem = options.ca_pem,
                                                               .server_name = options.tls_name},
                                                       .user_agent = "paddle-operator-runtime"}));
  return std::make_unique<HttpRuntimeClient>(std::move(options), std::move(http));
}

}  // namespace paddleop::runtime
