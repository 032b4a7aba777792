#include "controllers/common/runtimes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace paddleop::controllers {
namespace {

// Long enough for a runtime that is busy, short enough not to hold a worker for a dead one.
constexpr std::chrono::milliseconds kCallTimeout(5'000);

}  // namespace

std::string RuntimeAuthName(const std::string& set) { return set + "-runtime-auth"; }

RuntimeAccess RuntimeAccess::From(const api::SecretObject& secret) {
  RuntimeAccess access;
  const auto authority = secret.data.find(auth_key::kAuthority);
  if (authority != secret.data.end()) access.authority = authority->second.Reveal();
  access.token = secret.Value(auth_key::kToken);
  access.previous_token = secret.Value(auth_key::kPreviousToken);
  return access;
}

RuntimePool::RuntimePool(runtime::RuntimeDialer dial, std::size_t limit)
    : dial_(std::move(dial)), limit_(limit) {}

Result<std::shared_ptr<runtime::RuntimeClient>> RuntimePool::Find(const std::string& host,
                                                                  const std::string& tls_name,
                                                                  const RuntimeAccess& access) {
  const bool v6 = host.find(':') != std::string::npos;
  const std::string address =
      fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", runtime::kDefaultPort);
  const std::string key = address + " " + tls_name;
  {
    MutexLock lock(mutex_);
    const auto it = clients_.find(key);
    if (it != clients_.end() && it->second.access.authority == access.authority &&
        it->second.access.token == access.token &&
        it->second.access.previous_token == access.previous_token) {
      it->second.used = ++uses_;
      return it->second.client;
    }
  }
  runtime::ClientOptions options;
  options.address = address;
  options.tls_name = tls_name;
  options.ca_pem = access.authority;
  options.token = access.token;
  options.previous_token = access.previous_token;
  options.timeout = kCallTimeout;
  ASSIGN_OR_RETURN(auto made, dial_(options));
  std::shared_ptr<runtime::RuntimeClient> client = std::move(made);
  MutexLock lock(mutex_);
  clients_[key] = Entry{client, access, ++uses_};
  if (clients_.size() > limit_) {
    const auto oldest = std::min_element(
        clients_.begin(), clients_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    clients_.erase(oldest);
  }
  return client;
}

}  // namespace paddleop::controllers
