#include "runtime/server/disks.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

namespace paddleop::runtime {

void AddDisks(std::span<const volume::CacheDirectoryStatus> directories, CacheInfo& info) {
  std::set<dev_t> disks;
  for (const auto& status : directories) {
    struct stat st{};
    if (::stat(status.directory.path.c_str(), &st) != 0 || !disks.insert(st.st_dev).second) {
      continue;
    }
    info.disk_size += status.disk_total;
    info.disk_avail += status.disk_free;
    info.disk_used += status.disk_total - std::min(status.disk_total, status.disk_free);
  }
}

}  // namespace paddleop::runtime
