#include "api_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "kube/wire/status_reply.h"

namespace paddleop::cmd {
namespace {

using api::Json;

constexpr std::chrono::seconds kCallTimeout{60};

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string GroupPath(const std::string& group, const std::string& version) {
  return group.empty() ? "/api/" + version : "/apis/" + group + "/" + version;
}

// What a refusal says, without the machine's part of it.
Status Refused(const net::HttpResponse& response, const std::string& what) {
  Status status = kube::StatusOfReply(response.status, response.body, what);
  const auto body = api::ParseJson(response.body);
  if (body && body->is_object() && body->contains("message") && (*body)["message"].is_string()) {
    return Status(status.code(), (*body)["message"].get<std::string>());
  }
  return status;
}

}  // namespace

std::string ApiResource::Label() const {
  return group.empty() ? Lower(kind) : Lower(kind) + "." + group;
}

ApiClient::ApiClient(kube::ClusterConfig config, std::string ns,
                     std::unique_ptr<net::HttpClient> http)
    : config_(std::move(config)), ns_(std::move(ns)), http_(std::move(http)) {}

Result<std::unique_ptr<ApiClient>> ApiClient::Connect(const ClientFlags& flags) {
  ASSIGN_OR_RETURN(auto config, kube::LoadClusterConfig(flags.kubeconfig, flags.context));
  net::HttpClientOptions options;
  options.tls = config.tls;
  options.stall_timeout = std::chrono::milliseconds(0);
  options.default_timeout = std::chrono::hours(24);
  ASSIGN_OR_RETURN(auto http, net::HttpClient::Create(std::move(options)));
  std::string ns = flags.ns.empty() ? config.ns : flags.ns;
  return std::unique_ptr<ApiClient>(
      new ApiClient(std::move(config), std::move(ns), std::move(http)));
}

Result<net::HttpRequest> ApiClient::Make(const Context& ctx, const Call& call) {
  net::HttpRequest request;
  request.method = call.method;
  request.url = config_.server + call.target;
  request.headers.Set("Accept", call.accept);
  if (!call.body.empty()) request.headers.Set("Content-Type", call.content_type);
  request.body = call.body;
  if (config_.credentials) {
    ASSIGN_OR_RETURN(const auto credential, config_.credentials->Get(ctx));
    if (!credential.token.empty()) {
      request.headers.Set("Authorization", "Bearer " + credential.token.Reveal());
    }
  }
  return request;
}

Result<std::string> ApiClient::Do(const Context& ctx, const Call& call) {
  const Context limited = ctx.WithTimeout(kCallTimeout);
  ASSIGN_OR_RETURN(auto request, Make(limited, call));
  ASSIGN_OR_RETURN(auto response, http_->Do(limited, std::move(request)));
  if (response.status / 100 != 2) {
    return std::unexpected(Refused(response, call.method + " " + call.target));
  }
  return std::move(response.body);
}

Result<Json> ApiClient::DoJson(const Context& ctx, const Call& call) {
  ASSIGN_OR_RETURN(const std::string body, Do(ctx, call));
  return api::ParseJson(body);
}

Result<void> ApiClient::Stream(const Context& ctx, const Call& call, const net::BodySink& sink) {
  ASSIGN_OR_RETURN(auto request, Make(ctx, call));
  ASSIGN_OR_RETURN(const auto response, http_->Stream(ctx, std::move(request), sink));
  if (response.status / 100 != 2) {
    return std::unexpected(Refused(response, call.method + " " + call.target));
  }
  return {};
}

Result<void> ApiClient::Discover(const Context& ctx) {
  if (!known_.empty()) return {};
  std::vector<std::pair<std::string, std::string>> versions = {{"", "v1"}};
  ASSIGN_OR_RETURN(const Json groups, DoJson(ctx, {.target = "/apis"}));
  for (const Json& group : groups.value("groups", Json::array())) {
    for (const Json& version : group.value("versions", Json::array())) {
      versions.emplace_back(group.value("name", ""), version.value("version", ""));
    }
  }
  for (const auto& [group, version] : versions) {
    ASSIGN_OR_RETURN(const Json list, DoJson(ctx, {.target = GroupPath(group, version)}));
    for (const Json& entry : list.value("resources", Json::array())) {
      const std::string plural = entry.value("name", "");
      if (plural.empty() || plural.find('/') != std::string::npos) continue;
      Known known{
          {group, version, plural, entry.value("kind", ""), entry.value("namespaced", true)},
          {plural, entry.value("singularName", ""), Lower(entry.value("kind", "")),
           fmt::format("{}.{}", plural, group)}};
      for (const Json& name : entry.value("shortNames", Json::array())) known.names.push_back(name);
      known_.push_back(std::move(known));
    }
  }
  return {};
}

Result<ApiResource> ApiClient::Find(const Context& ctx, const std::string& name) {
  RETURN_IF_ERROR(Discover(ctx));
  const std::string wanted = Lower(name);
  for (const Known& known : known_) {
    if (std::find(known.names.begin(), known.names.end(), wanted) != known.names.end()) {
      return known.resource;
    }
  }
  return Fail(Code::kNotFound, "the server doesn't have a resource type \"{}\"", name);
}

Result<ApiResource> ApiClient::FindKind(const Context& ctx, const std::string& api_version,
                                        const std::string& kind) {
  RETURN_IF_ERROR(Discover(ctx));
  for (const Known& known : known_) {
    const auto& r = known.resource;
    const std::string version = r.group.empty() ? r.version : r.group + "/" + r.version;
    if (version == api_version && r.kind == kind) return r;
  }
  return Fail(Code::kNotFound, R"(no matches for kind "{}" in version "{}")", kind, api_version);
}

std::string ApiClient::Path(const ApiResource& resource, const std::string& ns,
                            const std::string& name) {
  std::string path = GroupPath(resource.group, resource.version);
  if (resource.namespaced && !ns.empty()) path += "/namespaces/" + UrlEncode(ns);
  path += "/" + resource.plural;
  if (!name.empty()) path += "/" + UrlEncode(name);
  return path;
}

int ClientFailed(const char* command, const Status& status) {
  std::cerr << "paddle-operator " << command << ": " << status.message() << "\n";
  return status.code() == Code::kInvalid ? 2 : 1;
}

}  // namespace paddleop::cmd
