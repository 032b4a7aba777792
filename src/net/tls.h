#pragma once

#include <string>

#include "base/secret.h"

namespace paddleop::net {

// How a client proves servers and itself. Files are read again when they change, so that rotated
// certificates take effect on the next connection; PEM text wins over the file of the same meaning.
struct ClientTls {
  std::string ca_file = {};  // empty: the system's roots
  std::string ca_pem = {};
  std::string cert_file = {};  // client certificate and key, if the server asks for one
  std::string key_file = {};
  std::string cert_pem = {};
  Secret key_pem = {};
  std::string server_name = {};  // name to expect in the certificate, when it is not the URL's host
  bool insecure_skip_verify = false;
};

// A server's certificate; the files are read again when they change.
struct ServerTls {
  std::string cert_file = {};
  std::string key_file = {};
  std::string client_ca_file = {};  // non-empty: clients must show a certificate signed by it

  bool enabled() const { return !cert_file.empty(); }
};

}  // namespace paddleop::net
