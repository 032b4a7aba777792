#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/meta/object_meta.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/secret.h"
#include "base/thread_pool.h"
#include "net/http_server.h"
#include "net/session_limit.h"
#include "net/tls.h"

namespace paddleop::standalone::node {

struct EndpointOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one
  net::ServerTls tls;      // with a client CA, clients must show a certificate
  Secret token;            // otherwise they must show this one
  std::string data_dir;
  std::string program;  // can run commands in containers
  bool namespaces = false;
  std::size_t max_sessions = 32;  // followed logs and exec at a time; more get 503
};

// What an API server asks a kubelet for: logs and exec, over HTTPS.
//
//   GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=true&tailLines=10&...
//   GET or POST /exec/NAMESPACE/POD/CONTAINER?command=ls&...      a WebSocket, or SPDY/3.1
//
// Who shows neither a certificate of the client CA nor the token gets 401: a command in a container
// is a command on this machine. Thread-safe.
class Endpoint {
 public:
  // The UID of a pod of this machine by its name, or nullopt.
  using FindPod = std::function<std::optional<std::string>(const api::ObjectKey& key)>;

  // kInvalid if nothing would keep strangers out.
  static Result<std::unique_ptr<Endpoint>> Start(EndpointOptions options, FindPod find,
                                                 const Logger& log, MetricsRegistry& metrics);
  ~Endpoint();

  std::uint16_t port() const { return server_->port(); }
  void Stop();

 private:
  Endpoint(EndpointOptions options, FindPod find);
  net::ServerResponse Answer(const net::ServerRequest& request);
  net::ServerResponse Logs(const net::ServerRequest& request, const std::string& uid,
                           const std::string& container);
  net::ServerResponse Exec(const net::ServerRequest& request, const std::string& uid,
                           const std::string& container);
  bool Admitted(const net::ServerRequest& request) const;
  std::string RunDirectory(const std::string& uid, const std::string& container,
                           bool previous) const;

  const EndpointOptions options_;
  const FindPod find_;
  std::stop_source stop_;
  const net::SessionLimit limit_;
  ThreadPool sessions_;
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace paddleop::standalone::node
