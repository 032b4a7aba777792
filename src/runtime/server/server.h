#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/backoff.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "net/http_server.h"
#include "runtime/protocol/paths.h"
#include "runtime/server/api.h"
#include "runtime/server/engine.h"
#include "runtime/server/spread_runner.h"

namespace paddleop::runtime {

struct ServerOptions {
  std::uint32_t index = 0;  // of the partition
  std::string address = "0.0.0.0";
  std::uint16_t port = kDefaultPort;
  std::string auth_dir;  // token, certificate, key, authority: names in runtime/protocol/paths.h
  // Opens the volume. Called again, with growing delays, until it succeeds.
  std::function<Result<std::shared_ptr<Engine>>(const Context& ctx)> open;
  BackoffOptions open_backoff{.initial = std::chrono::milliseconds(500),
                              .maximum = std::chrono::seconds(10)};
  std::chrono::milliseconds look_interval{2'000};  // at whether the cache directory is still ours
  std::chrono::seconds peer_patience{300};
  std::size_t handler_threads = 48;
  std::uint64_t max_body_bytes = 20 << 20;
};

// A Cache Runtime Server: the interface of runtime/protocol over TLS, jobs, peers. It answers from
// the first moment; jobs are taken when the volume is open. When somebody empties the cache
// directory under it, it begins anew.
class Server {
 public:
  // Listens before it returns. kNotFound, kInvalid name the file of auth_dir that is wrong.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, const Logger& log,
                                               MetricsRegistry& metrics);
  ~Server();

  std::uint16_t port() const { return http_->port(); }
  // Interrupts jobs (the journal says they go on), lets requests finish, closes.
  void Stop();

 private:
  Server(ServerOptions options, const Logger& log, MetricsRegistry& metrics)
      : options_(std::move(options)), log_(log), metrics_(metrics) {}
  void KeepOpen(const std::stop_token& stop);
  bool OpenUntilDone(const Context& ctx);
  Result<void> OpenOnce(const Context& ctx);
  Result<void> ServeLocally(const std::string& path, std::unique_ptr<net::HttpServer>* out);
  Result<void> Purge(const Context& ctx) EXCLUDES(purge_mutex_);
  // Takes what serves out of service.
  std::shared_ptr<Serving> Close(std::string why) EXCLUDES(mutex_);
  std::pair<std::shared_ptr<Serving>, std::string> Current() const;

  const ServerOptions options_;
  const Logger& log_;
  MetricsRegistry& metrics_;
  std::unique_ptr<TokenStore> tokens_;
  std::unique_ptr<Api> api_;
  Mutex purge_mutex_;  // taken before mutex_
  std::shared_ptr<Serving> purging_ GUARDED_BY(purge_mutex_);
  mutable Mutex mutex_;
  bool purged_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<Serving> serving_ GUARDED_BY(mutex_);
  std::string why_not_ GUARDED_BY(mutex_) = "starting";
  UniqueFd socket_dir_;  // that of the local socket, which is unlinked through it
  std::unique_ptr<net::HttpServer> local_ GUARDED_BY(mutex_);
  std::unique_ptr<net::HttpServer> http_;
  std::jthread opener_;
};

}  // namespace paddleop::runtime
