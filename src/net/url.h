#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "base/status.h"

namespace paddleop::net {

// A parsed URL. User, password, path and query values are decoded; the host is without brackets.
struct Url {
  std::string scheme = {};  // lower case
  std::string user = {};
  Secret password = {};
  std::string host = {};
  std::optional<std::uint16_t> port = {};
  std::string path = {};  // with its leading '/', or empty
  std::map<std::string, std::string> query = {};

  // host, host:port or [v6]:port.
  std::string Authority() const;
  // Without user, password and the values of secret query parameters.
  std::string Redacted() const;
};

// kInvalid says what is wrong and quotes the URL without its password.
Result<Url> ParseUrl(std::string_view text);

}  // namespace paddleop::net
