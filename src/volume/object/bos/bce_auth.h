#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "volume/object/credentials.h"

namespace paddleop::volume::object {

// What a BCE signature covers of a request (Baidu AI Cloud, "Authentication", version 1): nothing
// encoded yet.
struct BceRequest {
  std::string method = {};
  std::string path = {};
  std::vector<std::pair<std::string, std::string>> query = {};
  // Those to sign; host must be among them.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// The value of the Authorization header. With `name_headers` it lists which headers are signed;
// without, the server takes for granted those that it always expects.
std::string BceAuthorization(const Credentials& credentials, const BceRequest& request,
                             std::chrono::system_clock::time_point now, int expiry_seconds,
                             bool name_headers);

// The text that is signed; public for its tests.
std::string BceCanonicalRequest(const BceRequest& request);

}  // namespace paddleop::volume::object
