#include "controllers/paddlejob/etcd.h"

#include <fmt/format.h>

#include "base/crypto.h"

namespace paddleop::controllers::paddlejob {
namespace {

constexpr std::chrono::seconds kTimeout(3);

}  // namespace

std::string NpKey(const std::string& job_id) { return fmt::format("/paddle/{}/np", job_id); }

Etcd::Etcd(std::vector<std::string> servers, std::unique_ptr<net::HttpClient> http)
    : servers_(std::move(servers)), http_(std::move(http)) {}

Result<std::unique_ptr<Etcd>> Etcd::Create(std::vector<std::string> servers) {
  for (auto& server : servers) {
    if (server.find("://") == std::string::npos) server.insert(0, "http://");
  }
  ASSIGN_OR_RETURN(auto http,
                   net::HttpClient::Create({.connect_timeout = std::chrono::seconds(2)}));
  return std::unique_ptr<Etcd>(new Etcd(std::move(servers), std::move(http)));
}

Result<void> Etcd::Put(const Context& ctx, const std::string& key, const std::string& value) {
  return Post(
      ctx, "/v3/kv/put",
      fmt::format(R"({{"key":"{}","value":"{}"}})", Base64Encode(key), Base64Encode(value)));
}

Result<void> Etcd::Remove(const Context& ctx, const std::string& key) {
  return Post(ctx, "/v3/kv/deleterange", fmt::format(R"({{"key":"{}"}})", Base64Encode(key)));
}

Result<void> Etcd::Post(const Context& ctx, const std::string& path, const std::string& body) {
  Status last(Code::kUnavailable, "no etcd server is configured");
  for (const auto& server : servers_) {
    net::HttpRequest request;
    request.method = "POST";
    request.url = server + path;
    request.headers = {{"Content-Type", "application/json"}};
    request.body = body;
    auto reply = http_->Do(ctx.WithTimeout(kTimeout), std::move(request));
    if (reply && reply->status == 200) return {};
    last = reply ? Status(Code::kUnavailable,
                          fmt::format("etcd {} answered {} to {}", server, reply->status, path))
                 : std::move(reply).error().Wrap("etcd " + server);
  }
  return std::unexpected(std::move(last));
}

}  // namespace paddleop::controllers::paddlejob
