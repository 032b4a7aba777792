#include "standalone/node/process/mount_table.h"

#include <cstdlib>
#include <sstream>

#include "base/posix.h"

namespace paddleop::standalone::node {
namespace {

// Spaces and the like are written in octal.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

MountTable ParseMountTable(std::string_view mountinfo) {
  MountTable out;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id;
    std::string parent;
    std::string root;
    MountedAt mount;
    if (words >> id >> parent >> mount.device >> root >> mount.path) {
      mount.path = Unescaped(mount.path);
      out.push_back(std::move(mount));
    }
  }
  return out;
}

Result<MountTable> ReadMountTable(pid_t pid) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(fmt::format("/proc/{}/mountinfo", pid)));
  return ParseMountTable(text);
}

}  // namespace paddleop::standalone::node
