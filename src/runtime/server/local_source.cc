#include <filesystem>

#include "runtime/server/parts.h"

namespace paddleop::runtime {

Result<void> CheckLocalSource(const std::string& uri, const std::vector<std::string>& allowed) {
  const auto colon = uri.find("://");
  if (colon == std::string::npos) return {};
  const std::string scheme = uri.substr(0, colon);
  if (scheme != "file" && scheme != "sqlite3") return {};
  const std::string_view rest = std::string_view(uri).substr(colon + 3);
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(rest.substr(0, rest.find('?')), error);
  for (const std::string& directory : allowed) {
    const auto top = std::filesystem::weakly_canonical(directory, error);
    const auto relative = path.lexically_relative(top);
    if (!error && !relative.empty() && *relative.begin() != "..") return {};
  }
  return Fail(Code::kPermission,
              "source {}: files of the runtime's own machine may only be imported from the "
              "directories given with --source-dir",
              uri);
}

}  // namespace paddleop::runtime
