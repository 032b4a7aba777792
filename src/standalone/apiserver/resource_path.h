#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "standalone/apiserver/kinds.h"

namespace paddleop::standalone::apiserver {

// What a path below /api or /apis names.
struct ResourcePath {
  const Kind* kind = nullptr;
  std::string ns;
  std::string name;         // empty: all of them
  std::string subresource;  // "status", "log", ...

  api::ObjectKey key() const { return {ns, name}; }
};

// nullopt if the path names nothing that is served here.
std::optional<ResourcePath> ParseResourcePath(std::string_view path);

}  // namespace paddleop::standalone::apiserver
