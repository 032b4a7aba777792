#include "fuse/mount_table.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/mount_info.h"
#include "base/posix.h"

namespace paddleop::fuse {
namespace {

std::vector<std::string_view> SplitWords(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const auto blank = line.find(' ');
    if (blank != 0) words.push_back(line.substr(0, blank));
    line.remove_prefix(blank == std::string_view::npos ? line.size() : blank + 1);
  }
  return words;
}

bool HasOption(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    const auto comma = options.find(',');
    if (options.substr(0, comma) == wanted) return true;
    options.remove_prefix(comma == std::string_view::npos ? options.size() : comma + 1);
  }
  return false;
}

bool ParseDevice(std::string_view text, MountEntry& entry) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const auto number = [](std::string_view digits, unsigned& out) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  return number(text.substr(0, colon), entry.major) && number(text.substr(colon + 1), entry.minor);
}

// Of the kernel's options of a FUSE mount.
std::optional<uid_t> UserOf(std::string_view options) {
  constexpr std::string_view kName = "user_id=";
  const auto at = options.find(kName);
  if (at == std::string_view::npos) return std::nullopt;
  uid_t user = 0;
  const char* const begin = options.data() + at + kName.size();
  if (std::from_chars(begin, options.data() + options.size(), user).ec != std::errc())
    return std::nullopt;
  return user;
}

// Runs fusermount3, the setuid helper that unmounts for users.
int RunHelper(const std::string& directory, bool lazy) {
  const pid_t pid = ::fork();
  if (pid < 0) return errno;
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 2);
    if (lazy) {
      ::execlp("fusermount3", "fusermount3", "-u", "-z", "--", directory.c_str(), nullptr);
    } else {
      ::execlp("fusermount3", "fusermount3", "-u", "--", directory.c_str(), nullptr);
    }
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? ENOENT : EBUSY;
}

int UnmountNow(const std::string& directory, bool lazy) {
  if (::umount2(directory.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return 0;
  if (errno == EPERM && ::geteuid() != 0) return RunHelper(directory, lazy);
  return errno;
}

// Takes the mount away and ends the kernel's side of the connection: everybody who waits for the
// mount gets an error.
Result<void> DetachAndAbort(const MountEntry& mount) {
  // Opened before: once it is detached, the number may be another file system's. The open file
  // stays with this connection.
  const std::string path = fmt::format("/sys/fs/fuse/connections/{}/abort", mount.minor);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  RETURN_IF_ERROR(DetachMount(mount.mount_point));
  if (file.valid()) [[maybe_unused]]
    const auto written = ::write(file.get(), "1", 1);
  return {};
}

Status UnmountFailed(int error, const std::string& directory) {
  if (error == EBUSY) {
    return Status(Code::kUnavailable, directory +
                                          " is in use: close what is open there ('fuser -vm " +
                                          directory + "' shows it), or unmount with --force");
  }
  if (error == EPERM) {
    return Status(Code::kPermission, "not permitted to unmount " + directory +
                                         ": only root or the user who mounted it may");
  }
  return ErrnoStatus(error, "unmount " + directory);
}

}  // namespace

Result<std::vector<MountEntry>> ParseMountInfo(std::string_view text) {
  std::vector<MountEntry> entries;
  while (!text.empty()) {
    const auto newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    if (line.empty()) continue;
    // id parent major:minor root mount-point options [tags...] - type source super-options
    const auto words = SplitWords(line);
    std::size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    MountEntry entry;
    if (dash + 2 >= words.size() || !ParseDevice(words[2], entry))
      return Fail(Code::kCorrupt, "the mount table has a line we cannot read: {}", line);
    entry.mount_point = UnescapeMountPath(words[4]);
    entry.type = words[dash + 1];
    entry.source = UnescapeMountPath(words[dash + 2]);
    entry.read_only = HasOption(words[5], "ro");
    if (dash + 3 < words.size()) entry.user = UserOf(words[dash + 3]);
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::optional<MountEntry>> FindMount(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/self/mountinfo"));
  ASSIGN_OR_RETURN(const auto entries, ParseMountInfo(text));
  std::optional<MountEntry> found;
  for (const MountEntry& entry : entries) {
    if (entry.mount_point == directory) found = entry;  // later ones lie above
  }
  return found;
}

Result<std::string> CanonicalDirectory(const std::string& directory) {
  std::error_code error;
  auto path = std::filesystem::absolute(directory, error).lexically_normal();
  if (error) return Fail(Code::kInvalid, "{}: {}", directory, error.message());
  if (!path.has_filename()) path = path.parent_path();
  if (path.string() == "/") return path.string();
  // Asking about the directory itself could wait for a file system that hangs.
  const auto parent = std::filesystem::canonical(path.parent_path(), error);
  if (error) return std::unexpected(ErrnoStatus(error.value(), path.parent_path().string()));
  std::string plain = (parent / path.filename()).string();
  ASSIGN_OR_RETURN(const auto mount, FindMount(plain));
  if (mount) return plain;
  // No mount: then it may be a symbolic link to one.
  const auto target = std::filesystem::canonical(plain, error);
  return error ? plain : target.string();
}

Result<void> CheckMountPoint(const std::string& directory) {
  ASSIGN_OR_RETURN(const auto mount, FindMount(directory));
  if (mount) {
    return Fail(Code::kAlreadyExists, "{} is busy: {} ({}) is mounted there; unmount it first",
                directory, mount->source, mount->type);
  }
  struct stat status = {};
  if (::stat(directory.c_str(), &status) != 0) {
    if (errno == ENOENT) {
      return Fail(Code::kNotFound, "the mount point {} does not exist; make it with 'mkdir -p {}'",
                  directory, directory);
    }
    return ErrnoFail("mount point {}", directory);
  }
  if (!S_ISDIR(status.st_mode))
    return Fail(Code::kNotDirectory, "the mount point {} is not a directory", directory);
  return {};
}

Result<void> DetachMount(const std::string& directory) {
  const int error = UnmountNow(directory, /*lazy=*/true);
  if (error == EINVAL || error == ENOENT)
    return Fail(Code::kNotFound, "nothing is mounted at {}", directory);
  if (error != 0) return std::unexpected(UnmountFailed(error, directory));
  return {};
}

Result<void> Unmount(const Context& ctx, const std::string& directory,
                     const UnmountOptions& options) {
  ASSIGN_OR_RETURN(const auto mount, FindMount(directory));
  if (!mount) return Fail(Code::kNotFound, "nothing is mounted at {}", directory);
  if (mount->type != kFileSystemType) {
    return Fail(Code::kInvalid, "what is mounted at {} is not ours ({}); use umount", directory,
                mount->type);
  }
  if (::geteuid() != 0 && mount->user && *mount->user != ::geteuid())
    return std::unexpected(UnmountFailed(EPERM, directory));
  if (options.force) return DetachAndAbort(*mount);
  // The kernel writes dirty pages back first, which may wait for a process that hangs: a child
  // waits instead of us, and we leave it behind if it takes too long.
  const pid_t child = ::fork();
  if (child < 0) return ErrnoFail("fork");
  if (child == 0) ::_exit(UnmountNow(directory, /*lazy=*/false));
  const Context bounded = ctx.WithTimeout(options.timeout);
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return ErrnoFail("wait for the unmount");
    if (!Clock::System().SleepFor(bounded, std::chrono::milliseconds(10))) {
      return Fail(Code::kDeadline,
                  "{} did not unmount within {} s: its process does not answer; use --force",
                  directory, options.timeout.count() / 1000);
    }
  }
  const int error = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
  if (error != 0) return std::unexpected(UnmountFailed(error, directory));
  return {};
}

}  // namespace paddleop::fuse
