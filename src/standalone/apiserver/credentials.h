#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/secret.h"
#include "base/status.h"

namespace paddleop::standalone::apiserver {

// Who may talk to the server, and how a client knows that it is the right one. Made on the first
// start and kept in the data directory; the server's certificate is renewed in time.
struct Credentials {
  std::string ca_pem;
  std::string cert_file;
  std::string key_file;
  Secret token;
};

// Reads the credentials below `dir`, or makes them; `names` are the addresses and host names that
// the server is reached by. kInvalid or kPermission name the file and what to do.
Result<Credentials> OpenCredentials(const std::string& dir, const std::vector<std::string>& names);

// A kubeconfig for `server`, a URL.
std::string Kubeconfig(const Credentials& credentials, const std::string& server);

}  // namespace paddleop::standalone::apiserver
