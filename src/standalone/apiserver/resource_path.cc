#include "standalone/apiserver/resource_path.h"

#include <vector>

namespace paddleop::standalone::apiserver {
namespace {

std::vector<std::string_view> Parts(std::string_view path) {
  std::vector<std::string_view> out;
  while (!path.empty()) {
    const auto slash = path.find('/');
    if (slash != 0) out.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return out;
}

}  // namespace

std::optional<ResourcePath> ParseResourcePath(std::string_view path) {
  const auto parts = Parts(path);
  std::string_view group;
  std::string_view version;
  std::size_t at = 0;
  if (parts.size() >= 3 && parts[0] == "api") {
    version = parts[1];
    at = 2;
  } else if (parts.size() >= 4 && parts[0] == "apis") {
    group = parts[1];
    version = parts[2];
    at = 3;
  } else {
    return std::nullopt;
  }
  ResourcePath out;
  // /namespaces/NS/pods is about pods, /namespaces/NS and /namespaces/NS/status about NS itself.
  if (parts[at] == "namespaces" && parts.size() > at + 2 &&
      FindKind(group, version, parts[at + 2]) != nullptr) {
    out.ns = parts[at + 1];
    at += 2;
  }
  out.kind = FindKind(group, version, parts[at]);
  if (out.kind == nullptr) return std::nullopt;
  if (out.kind->type.namespaced == out.ns.empty() && parts.size() > at + 1) return std::nullopt;
  if (!out.kind->type.namespaced && !out.ns.empty()) return std::nullopt;
  if (parts.size() > at + 1) out.name = parts[at + 1];
  if (parts.size() > at + 2) out.subresource = parts[at + 2];
  if (parts.size() > at + 3) return std::nullopt;
  return out;
}

}  // namespace paddleop::standalone::apiserver
