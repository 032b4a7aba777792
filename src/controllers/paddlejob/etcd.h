#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "net/http_client.h"

namespace paddleop::controllers::paddlejob {

// The little of etcd that elastic jobs need, over its JSON gateway (API v3). Thread-safe.
class Etcd {
 public:
  // `servers` are HOST:PORT or http(s)://HOST:PORT; tried in order.
  static Result<std::unique_ptr<Etcd>> Create(std::vector<std::string> servers);

  Result<void> Put(const Context& ctx, const std::string& key, const std::string& value);
  Result<void> Remove(const Context& ctx, const std::string& key);

 private:
  Etcd(std::vector<std::string> servers, std::unique_ptr<net::HttpClient> http);
  Result<void> Post(const Context& ctx, const std::string& path, const std::string& body);

  const std::vector<std::string> servers_;
  const std::unique_ptr<net::HttpClient> http_;
};

// /paddle/<namespace>-<job>/np, as Paddle's elastic manager has always called it.
std::string NpKey(const std::string& job_id);

}  // namespace paddleop::controllers::paddlejob
