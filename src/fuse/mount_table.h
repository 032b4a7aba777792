// The kernel's mount table, and taking mounts away. Nothing here touches a mounted file system, so
// nothing waits for one that hangs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/status.h"

namespace paddleop::fuse {

inline constexpr char kFileSystemType[] = "fuse.samplefs";

struct MountEntry {
  std::string mount_point;
  std::string type;    // "ext4", "fuse.samplefs"
  std::string source;  // "/dev/vda", "SampleFS:images"
  bool read_only = false;
  unsigned major = 0;  // of the device; unique among all mounted file systems
  unsigned minor = 0;
  std::optional<uid_t> user = {};  // who mounted it, of those file systems that say so
};

// Reads the text of /proc/self/mountinfo; kCorrupt names a line that is not as proc(5) says.
Result<std::vector<MountEntry>> ParseMountInfo(std::string_view text);
// What is mounted at exactly this directory (the uppermost, if several are); nullopt if nothing is.
Result<std::optional<MountEntry>> FindMount(const std::string& directory);

// The directory's absolute path without symbolic links, as the mount table has it. Only the
// directories above it are looked at.
Result<std::string> CanonicalDirectory(const std::string& directory);

// Something can be mounted there: it is a directory, and no mount point yet.
Result<void> CheckMountPoint(const std::string& directory);

// Takes the mount away at once; files that are open stay usable while its process lives. kNotFound
// if nothing is mounted there.
Result<void> DetachMount(const std::string& directory);

struct UnmountOptions {
  // Also when files are in use, and when its process does not answer: what waits for the mount gets
  // an error.
  bool force = false;
  std::chrono::milliseconds timeout{20'000};
};

// Unmounts a file system of ours. kPermission if another user mounted it, kUnavailable if it is in
// use (and not `force`), kDeadline if the kernel waits for a process that does not answer.
Result<void> Unmount(const Context& ctx, const std::string& directory,
                     const UnmountOptions& options);

}  // namespace paddleop::fuse
