#include "standalone/node/process/mount_table.h"

#include <cstdlib>
#include <sstream>

#include "base/mount_info.h"
#include "base/posix.h"

namespace paddleop::standalone::node {

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
      mount.path = UnescapeMountPath(mount.path);
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
