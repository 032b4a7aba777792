#pragma once

#include <string>

#include "base/secret.h"

namespace paddleop::volume::object {

// Who asks. Without an access key requests are not signed: public buckets.
struct Credentials {
  std::string access_key = {};
  Secret secret_key = {};
  Secret session_token = {};

  bool anonymous() const { return access_key.empty(); }
};

}  // namespace paddleop::volume::object
