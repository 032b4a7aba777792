#include "standalone/node/process/pod_root.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ranges>
#include <set>

#include "base/posix.h"
#include "standalone/node/process/mount_table.h"

namespace paddleop::standalone::node {
namespace {

namespace fs = std::filesystem;

// More entries than this in a directory that must be mirrored is a mistake of the mount path.
constexpr int kMirrorLimit = 20'000;

Result<void> Mount(const std::string& source, const std::string& target, const char* type,
                   unsigned long flags, const char* options = nullptr) {
  if (::mount(source.c_str(), target.c_str(), type, flags, options) != 0) {
    return ErrnoFail("mount {} at {}", source, target);
  }
  return {};
}

Result<void> MakeFile(const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  return {};
}

// Shows one entry of the directory `from` under the same name in `to`.
Result<void> MirrorEntry(const std::string& from, const std::string& to) {
  struct stat st{};
  if (::lstat(from.c_str(), &st) != 0) return {};  // gone meanwhile
  if (S_ISLNK(st.st_mode)) {
    std::error_code error;
    const fs::path link = fs::read_symlink(from, error);
    if (!error && ::symlink(link.c_str(), to.c_str()) != 0) return ErrnoFail("link {}", to);
    return {};
  }
  if (S_ISDIR(st.st_mode)) {
    if (::mkdir(to.c_str(), 0755) != 0) return ErrnoFail("make {}", to);
  } else {
    RETURN_IF_ERROR(MakeFile(to));
  }
  return Mount(from, to, nullptr, MS_BIND | MS_REC);
}

// Fills `to`, an empty directory in memory, with what is in the directory `from`; "" is the root.
Result<void> Mirror(const std::string& from, const std::string& to) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(from.empty() ? "/" : from.c_str()),
                                                ::closedir);
  if (!dir) return ErrnoFail("read directory {}", from);
  int entries = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++entries > kMirrorLimit) {
      return Fail(Code::kNotSupported,
                  "a mount point below a directory with over {} entries does not exist; create it",
                  kMirrorLimit);
    }
    RETURN_IF_ERROR(MirrorEntry(fmt::format("{}/{}", from, name), fmt::format("{}/{}", to, name)));
  }
  return {};
}

// A root in memory that shows everything of the old one, so that "/new" can be made.
Result<void> OwnRoot(const std::string& stage) {
  RETURN_IF_ERROR(Mount("tmpfs", stage, "tmpfs", 0, "mode=755,size=64m"));
  RETURN_IF_ERROR(Mirror("", stage));
  if (::chdir(stage.c_str()) != 0) return ErrnoFail("enter {}", stage);
  RETURN_IF_ERROR(Mount(".", "/", nullptr, MS_MOVE));
  if (::chroot(".") != 0) return ErrnoFail("change root");
  if (::chdir("/") != 0) return ErrnoFail("enter /");
  return {};
}

// The same for a directory further down. It is mirrored through a descriptor, since the path is
// covered by then.
Result<void> OwnDirectory(const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd below, OpenFile(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
  RETURN_IF_ERROR(Mount("tmpfs", path, "tmpfs", 0, "mode=755,size=64m"));
  return Mirror(fmt::format("/proc/self/fd/{}", below.get()), path);
}

// The deepest part of the path that exists.
std::string ExistingAncestor(const std::string& path) {
  fs::path at = fs::path(path);
  std::error_code error;
  while (at != "/" && !fs::exists(at, error)) at = at.parent_path();
  return at.string();
}

// Is the directory in a file system that we have made?
bool IsOwn(const std::string& path, const std::set<dev_t>& own) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && own.contains(st.st_dev);
}

void Remember(const std::string& path, std::set<dev_t>& own) {
  struct stat st{};
  if (::stat(path.c_str(), &st) == 0) own.insert(st.st_dev);
}

// What kind of thing is mounted: a directory or a file?
Result<bool> IsDirectory(const std::string& source) {
  std::error_code error;
  const bool directory = fs::is_directory(source, error);
  if (error || !fs::exists(source, error)) {
    return Fail(Code::kNotFound, "volume source {} does not exist", source);
  }
  return directory;
}

Result<void> MakeMountPoint(const std::string& target, bool directory, std::set<dev_t>& own) {
  std::error_code error;
  if (fs::exists(target, error)) return {};
  const std::string ancestor = ExistingAncestor(target);
  if (!fs::is_directory(ancestor, error)) {
    return Fail(Code::kNotDirectory, "mount path {}: {} is no directory", target, ancestor);
  }
  if (!IsOwn(ancestor, own)) {
    RETURN_IF_ERROR(OwnDirectory(ancestor));
    Remember(ancestor, own);
  }
  if (directory) return MakeDirectories(target);
  RETURN_IF_ERROR(MakeDirectories(fs::path(target).parent_path().string()));
  return MakeFile(target);
}

Result<void> MakeReadOnly(const BindMount& mount) {
  if (!mount.read_only) return {};
  return Mount("none", mount.target, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY);
}

Result<void> Bind(const BindMount& mount) {
  RETURN_IF_ERROR(Mount(mount.source, mount.target, nullptr, MS_BIND | MS_REC));
  return MakeReadOnly(mount);
}

Result<void> Attach(const MountTree& tree) {
  const std::string& target = tree.mount.target;
  if (::move_mount(tree.tree.get(), "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return ErrnoFail("mount {} at {}", tree.mount.source, target);
  }
  RETURN_IF_ERROR(Mount("none", target, nullptr, MS_REC | MS_SLAVE));
  return MakeReadOnly(tree.mount);
}

// Takes away what is mounted below the agent's directory: held here, another pod's network or
// volume could not be removed.
void HideOthers(const std::string& data_dir) {
  const auto text = ReadFile("/proc/self/mountinfo");
  if (!text) return;
  std::vector<std::string> points;
  for (MountedAt& mount : ParseMountTable(*text)) {
    if (mount.path.starts_with(data_dir + "/")) points.push_back(std::move(mount.path));
  }
  std::reverse(points.begin(), points.end());
  for (const std::string& point : points) ::umount2(point.c_str(), MNT_DETACH);
}

bool NeedsOwnRoot(const ShimSpec& spec) {
  return std::any_of(spec.mounts.begin(), spec.mounts.end(), [](const BindMount& mount) {
    return ExistingAncestor(mount.target) == "/" && mount.target != "/";
  });
}

}  // namespace

Result<void> EnterPodRoot(const ShimSpec& spec) {
  RETURN_IF_ERROR(Mount("none", "/", nullptr, MS_REC | MS_SLAVE));
  std::set<dev_t> own;
  if (NeedsOwnRoot(spec)) {
    RETURN_IF_ERROR(OwnRoot(spec.stage));
    Remember("/", own);
  }
  RETURN_IF_ERROR(Mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC));
  if (!spec.hosts_file.empty()) {
    RETURN_IF_ERROR(Mount(spec.hosts_file, "/etc/hosts", nullptr, MS_BIND));
  }
  // Shorter paths first, so that a volume may lie inside another one.
  std::vector<BindMount> mounts = spec.mounts;
  std::stable_sort(mounts.begin(), mounts.end(), [](const BindMount& a, const BindMount& b) {
    return a.target.size() < b.target.size();
  });
  for (const BindMount& mount : mounts) {
    ASSIGN_OR_RETURN(const bool directory, IsDirectory(mount.source));
    RETURN_IF_ERROR(MakeMountPoint(mount.target, directory, own));
    RETURN_IF_ERROR(Bind(mount));
  }
  HideOthers(spec.data_dir);
  return {};
}

Result<MountTree> OpenMountTree(const BindMount& mount) {
  ASSIGN_OR_RETURN(const bool directory, IsDirectory(mount.source));
  UniqueFd tree(::open_tree(AT_FDCWD, mount.source.c_str(),
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  if (!tree.valid()) return ErrnoFail("take a mount of {}", mount.source);
  return MountTree{mount, std::move(tree), directory};
}

Result<void> ReplaceMounts(const std::vector<MountTree>& trees) {
  for (const MountTree& tree : std::views::reverse(trees)) {
    // More than one where something had to be made inside of it. What else was there is covered by
    // what comes now.
    for (int i = 0; i < 16; ++i) {
      if (::umount2(tree.mount.target.c_str(), MNT_DETACH) != 0) break;
    }
  }
  std::set<dev_t> own;
  for (const MountTree& tree : trees) {
    RETURN_IF_ERROR(MakeMountPoint(tree.mount.target, tree.directory, own));
    RETURN_IF_ERROR(Attach(tree));
  }
  return {};
}

}  // namespace paddleop::standalone::node
