#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"
#include "base/status.h"

namespace paddleop::kube {

// What a request shows: a bearer token, or a client certificate, or both.
struct Credential {
  Secret token;
  std::string cert_pem;
  Secret key_pem;
};

// Where credentials come from. Thread-safe.
class Credentials {
 public:
  virtual ~Credentials() = default;
  // The credential to use now, fetched if the last one is missing or about to run out.
  virtual Result<Credential> Get(const Context& ctx) = 0;
  // The server refused what Get() returned (401): fetch a new one next time.
  virtual void Invalidate() = 0;
};

std::shared_ptr<Credentials> TokenCredentials(Secret token);

// A token in a file that somebody renews (a projected service-account token). Read again every
// minute.
std::shared_ptr<Credentials> TokenFileCredentials(std::string path, Clock& clock = Clock::System());

// A program that prints an ExecCredential (client.authentication.k8s.io).
struct ExecPlugin {
  std::string api_version = "client.authentication.k8s.io/v1";
  std::string command;  // with a '/' in it: a path
  std::vector<std::string> args;
  std::map<std::string, std::string> env;  // in addition to ours
  std::string install_hint;                // shown when the program is not there
  std::string cluster_json;                // spec.cluster of what it is told, if it asks for that
  std::chrono::milliseconds timeout{60'000};
};

// Runs the plugin when there is no credential or it runs out within ten seconds.
std::shared_ptr<Credentials> ExecCredentials(ExecPlugin plugin, Clock& clock = Clock::System());

}  // namespace paddleop::kube
