#pragma once

#include <string>
#include <string_view>

#include "base/secret.h"

namespace paddleop::mounter {

struct MetaUrl {
  std::string url;  // without the password
  Secret password;
};

// Takes the password out of a metadata URL: redis://user:pw@host/1 becomes redis://user@host/1. A
// URL without one stays as it is.
MetaUrl SplitPassword(std::string_view url);

}  // namespace paddleop::mounter
