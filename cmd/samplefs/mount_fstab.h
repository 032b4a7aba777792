// The line of fstab that `samplefs mount --update-fstab` writes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace paddleop::cmd {

// The line that mounts as the command line `arguments` (with the program's name) does. kInvalid if
// a value cannot be written there.
Result<std::string> FstabLine(const std::vector<std::string>& arguments, const std::string& volume,
                              const std::string& mount_point);

// A line with a password belongs only where its owner alone reads it: kPermission, with what to do,
// if the volume's URL has one and the file is open to others.
Result<void> CheckFstabReaders(const std::string& volume, mode_t mode);

// Puts the line into the text in place of the one for the same mount point, or at the end.
std::string WithFstabLine(const std::string& text, const std::string& line);

// Does so with /etc/fstab, and makes /sbin/mount.samplefs, which mount(8) needs for it, if it is
// not there. Nothing is done for mount(8) itself, which has the line already.
Result<void> UpdateFstab(const std::string& volume, const std::string& mount_point);

}  // namespace paddleop::cmd
