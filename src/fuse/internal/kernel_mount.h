#pragma once

#include <string>
#include <vector>

#include "base/posix.h"
#include "fuse/session.h"

namespace paddleop::fuse {

// Opens /dev/fuse. The error says what to do where there is none, or where it is not for us.
Result<UniqueFd> OpenDevice();

// Mounts the connection at the mount point with mount(2), which needs root.
Result<void> MountDevice(const UniqueFd& device, const SessionOptions& options);

// Options as libfuse takes them, for those who mount through fusermount3.
std::vector<std::string> LibraryArguments(const SessionOptions& options);

// The limit for reads that libfuse was given with these options and wants to hear again when the
// kernel says hello; 0 if there is none or we mount by ourselves.
unsigned LibraryMaxRead(const SessionOptions& options);

}  // namespace paddleop::fuse
