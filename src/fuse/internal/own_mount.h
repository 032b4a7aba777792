#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/posix.h"
#include "base/status.h"
#include "volume/meta/tree_paths.h"

namespace paddleop::fuse {

// The mount as its own process reaches it: through private copies, so that the mount point is never
// busy because of us. If the mount is taken away meanwhile, it ends when the copy is closed.
//
// Thread-safe.
class OwnMount {
 public:
  // `minor` is the mount's device.
  OwnMount(std::string mount_point, unsigned minor);

  // The root of a new copy. Fails for good where that is not permitted (without root, IsForGood)
  // or the mount is not there any more.
  Result<UniqueFd> Copy() const;
  static bool IsForGood(const Status& error);

  // Of the state in use; empty if the file is not in it.
  std::string PathOf(const std::shared_ptr<const volume::Tree>& tree, volume::Ino file);

  // Opens what the kernel knows, without asking the mount for it. kNotFound if it does not know it.
  static Result<UniqueFd> OpenKnown(const UniqueFd& copy, const std::string& path);

 private:
  const std::string mount_point_;
  const unsigned minor_;
  Mutex mutex_;
  std::weak_ptr<const volume::Tree> tree_ GUARDED_BY(mutex_);
  std::unique_ptr<const volume::TreePaths> paths_ GUARDED_BY(mutex_);  // of that tree
};

}  // namespace paddleop::fuse
