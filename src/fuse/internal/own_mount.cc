#include "fuse/internal/own_mount.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace paddleop::fuse {

using volume::Ino;
using volume::Tree;

OwnMount::OwnMount(std::string mount_point, unsigned minor)
    : mount_point_(std::move(mount_point)), minor_(minor) {}

Result<UniqueFd> OwnMount::Copy() const {
  const UniqueFd copy(
      ::open_tree(AT_FDCWD, mount_point_.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!copy.valid()) return ErrnoFail("copy the mount at {}", mount_point_);
  struct stat info = {};
  if (::fstat(copy.get(), &info) != 0) return ErrnoFail("look at {}", mount_point_);
  if (::major(info.st_dev) != 0 || ::minor(info.st_dev) != minor_)
    return Fail(Code::kNotFound, "{} is another mount now", mount_point_);
  UniqueFd root(::openat(copy.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME));
  if (!root.valid()) return ErrnoFail("open a copy of {}", mount_point_);
  return root;
}

bool OwnMount::IsForGood(const Status& error) {
  return error.code() == Code::kPermission || error.code() == Code::kNotSupported ||
         error.code() == Code::kNotFound;
}

std::string OwnMount::PathOf(const std::shared_ptr<const Tree>& tree, Ino file) {
  const Tree::NodeIndex node = tree->Find(file);
  if (node == Tree::kNone) return "";
  MutexLock lock(mutex_);
  if (!paths_ || tree_.owner_before(tree) || tree.owner_before(tree_)) {
    paths_ = std::make_unique<volume::TreePaths>(*tree);
    tree_ = tree;
  }
  return paths_->Of(*tree, node);
}

Result<UniqueFd> OwnMount::OpenKnown(const UniqueFd& copy, const std::string& path) {
  open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOATIME | O_NOFOLLOW | O_NONBLOCK,
                  .mode = 0,
                  .resolve = RESOLVE_CACHED | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  UniqueFd file(
      static_cast<int>(::syscall(SYS_openat2, copy.get(), path.c_str(), &how, sizeof how)));
  if (file.valid()) return file;
  if (errno == EAGAIN) return Fail(Code::kNotFound, "the kernel does not know {}", path);
  return ErrnoFail("open {}", path);
}

}  // namespace paddleop::fuse
