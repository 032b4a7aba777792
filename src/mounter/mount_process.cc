#include "mounter/mount_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "base/mount_info.h"

extern char** environ;

namespace paddleop::mounter {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<ProcessIdentity> StartDetached(const MountCommand& command) {
  ASSIGN_OR_RETURN(const UniqueFd log,
                   OpenFile(command.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, log.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, log.get(), 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  std::vector<std::string> words = command.argv;
  std::vector<std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) env.emplace_back(*entry);
  for (const auto& [name, value] : command.env) env.push_back(fmt::format("{}={}", name, value));
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, words.front().c_str(), &actions, &attributes,
                                   Pointers(words).data(), Pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return std::unexpected(ErrnoStatus(error, "start " + words.front()));
  return ProcessIdentity::Of(pid);
}

void Bury(const ProcessIdentity& process) {
  if (process.pid > 0) ::waitpid(process.pid, nullptr, WNOHANG);
}

std::optional<ProcessIdentity> ReadProcess(const std::string& file) {
  const auto text = ReadFile(file, 1000);
  if (!text) return std::nullopt;
  std::istringstream words(*text);
  ProcessIdentity out;
  words >> out.pid >> out.start_ticks;
  if (words.fail() || out.pid <= 0) return std::nullopt;
  return out;
}

Result<void> WriteProcess(const std::string& file, const ProcessIdentity& process) {
  return WriteFileAtomic(file, fmt::format("{} {}\n", process.pid, process.start_ticks), 0640);
}

bool IsMounted(const std::string& directory) {
  const auto text = ReadFile("/proc/self/mountinfo");
  if (!text) return false;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 5; ++i) words >> word;  // the fifth is the mount point
    if (UnescapeMountPath(word) == directory) return true;
  }
  return false;
}

void Detach(const std::string& directory) {
  for (int i = 0; i < 16 && IsMounted(directory); ++i) {
    if (::umount2(directory.c_str(), MNT_DETACH) != 0) return;
  }
}

}  // namespace paddleop::mounter
