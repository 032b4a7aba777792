#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/secret.h"
#include "base/status.h"

namespace paddleop::standalone::apiserver {

struct ApiServerOptions {
  std::string data_dir;
  std::string address = "127.0.0.1";
  // 0: the port that this data directory had before, or else any free one.
  std::uint16_t port = 0;
  std::vector<std::string> names = {};  // further names and addresses that clients reach it by
};

// The Kubernetes REST API for one machine: the kinds of kinds.h over SQLite, behind TLS and a
// token.
//
// Thread-safe.
class ApiServer {
 public:
  // Serves when it returns, and `<data_dir>/kubeconfig` says where. kAlreadyExists if another
  // process uses the directory, kUnavailable if the port is taken; the message says what to do.
  static Result<std::unique_ptr<ApiServer>> Start(ApiServerOptions options, const Logger& log,
                                                  MetricsRegistry& metrics,
                                                  Clock& clock = Clock::System());
  virtual ~ApiServer() = default;

  virtual const std::string& url() const = 0;
  virtual std::string kubeconfig_file() const = 0;
  // What clients show; also what this server shows to the agents of nodes.
  virtual const Secret& token() const = 0;
  // Ends watches and requests. The destructor does the same.
  virtual void Stop() = 0;
};

}  // namespace paddleop::standalone::apiserver
