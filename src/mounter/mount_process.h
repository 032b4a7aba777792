#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/posix.h"
#include "base/process_identity.h"

namespace paddleop::mounter {

struct MountCommand {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;  // added to ours
  std::string log_file;
};

// Starts it in a session of its own; it outlives us. As its parent we must bury it: Bury().
Result<ProcessIdentity> StartDetached(const MountCommand& command);

// Takes the exit status of an ended child, which would stay as a zombie otherwise. Fine for others.
void Bury(const ProcessIdentity& process);

// What an earlier Mounter wrote down about the process, if it makes sense.
std::optional<ProcessIdentity> ReadProcess(const std::string& file);
Result<void> WriteProcess(const std::string& file, const ProcessIdentity& process);

// Is something mounted at the directory? One whose process is gone counts.
bool IsMounted(const std::string& directory);
// Takes away what is mounted there, however often, also when it hangs.
void Detach(const std::string& directory);

}  // namespace paddleop::mounter
