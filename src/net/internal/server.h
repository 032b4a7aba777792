#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "net/http_server.h"
#include "net/internal/listen_socket.h"
#include "net/internal/server_tls.h"
#include "net/internal/session.h"

namespace paddleop::net::internal {

// Accepts connections and owns their sessions.
class Server final : public HttpServer {
 public:
  Server(HttpServerOptions options, Handler handler, ListenSocket socket,
         std::unique_ptr<ServerTlsSource> tls);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const override { return port_; }
  void Stop(std::chrono::milliseconds grace) override;
  std::size_t open_connections() const override;

 private:
  void WaitForConnections();
  enum class Accepted { kOne, kNone, kExhausted };
  Accepted AcceptOne();
  void Adopt(UniqueFd fd, std::string remote);
  void Refuse(UniqueFd fd);
  void OnClosed(Session* session);
  std::vector<std::shared_ptr<Session>> Sessions() const;

  const HttpServerOptions options_;
  const Handler handler_;
  const int family_;
  const std::uint16_t port_;
  const std::string unix_path_;
  const FileIdentity unix_file_;
  const std::unique_ptr<ServerTlsSource> tls_;
  MetricsRegistry own_metrics_;  // when the caller has none
  ServerMetrics metrics_;
  std::atomic<bool> stopping_ = false;

  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  Strand accept_strand_;
  boost::asio::posix::basic_stream_descriptor<Strand> listener_;
  boost::asio::steady_timer accept_pause_;

  Mutex stop_mutex_;  // held by the one Stop() that does the work; before mutex_
  bool stopped_ GUARDED_BY(stop_mutex_) = false;
  mutable Mutex mutex_;
  CondVar drained_;
  std::unordered_map<Session*, std::shared_ptr<Session>> sessions_ GUARDED_BY(mutex_);

  ThreadPool handlers_;
  SessionHost host_;
  std::vector<std::jthread> threads_;
};

}  // namespace paddleop::net::internal
