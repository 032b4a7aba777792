#include "base/posix.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/crypto.h"

namespace paddleop {
namespace {

Code CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermission;
    case EINVAL:
    case EBADF:
    case ERANGE:
      return Code::kInvalid;
    case EISDIR:
      return Code::kIsDirectory;
    case ENOTDIR:
      return Code::kNotDirectory;
    case ENOTEMPTY:
      return Code::kNotEmpty;
    case ENAMETOOLONG:
      return Code::kNameTooLong;
    case ENOSPC:
      return Code::kNoSpace;
    case EDQUOT:
      return Code::kQuota;
    case ENOTSUP:
    case ENOSYS:
      return Code::kNotSupported;
    case ETIMEDOUT:
      return Code::kDeadline;
    case ECANCELED:
    case EINTR:
      return Code::kCancelled;
    case EAGAIN:
    case EBUSY:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EMFILE:
    case ENFILE:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Status ErrnoStatus(int error, std::string what) {
  what += ": " + std::system_category().message(error);
  return Status(CodeOf(error), std::move(what));
}

int ToErrno(Code code) {
  switch (code) {
    case Code::kNotFound:
      return ENOENT;
    case Code::kAlreadyExists:
      return EEXIST;
    case Code::kInvalid:
      return EINVAL;
    case Code::kPermission:
      return EACCES;
    case Code::kCancelled:
      return EINTR;
    case Code::kNotSupported:
      return ENOTSUP;
    case Code::kNoSpace:
      return ENOSPC;
    case Code::kQuota:
      return EDQUOT;
    case Code::kIsDirectory:
      return EISDIR;
    case Code::kNotDirectory:
      return ENOTDIR;
    case Code::kNotEmpty:
      return ENOTEMPTY;
    case Code::kNameTooLong:
      return ENAMETOOLONG;
    case Code::kConflict:
    case Code::kExpired:
    case Code::kUnavailable:
    case Code::kDeadline:
    case Code::kCorrupt:
    case Code::kInternal:
      break;
  }
  return EIO;
}

void UniqueFd::Reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<UniqueFd> OpenFile(const std::string& path, int flags, mode_t mode) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoFail("open {}", path);
  return fd;
}

Result<std::string> ReadFile(const std::string& path, std::size_t limit) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY));
  std::string content;
  char buffer[65536];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoFail("read {}", path);
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > limit)
      return Fail(Code::kInvalid, "{} is larger than {} bytes", path, limit);
  }
}

Result<void> WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoFail("write");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> WriteFileAtomic(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = path + ".tmp." + HexEncode(RandomBytes(6));
  const auto write = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(temporary, O_WRONLY | O_CREAT | O_EXCL, mode));
    if (auto written = WriteAll(fd.get(), content); !written)
      return std::unexpected(written.error().Wrap(temporary));
    if (::fchmod(fd.get(), mode) != 0) return ErrnoFail("chmod {}", temporary);
    if (::fsync(fd.get()) != 0) return ErrnoFail("fsync {}", temporary);
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      return ErrnoFail("rename {} to {}", temporary, path);
    return {};
  };
  auto result = write();
  if (!result) ::unlink(temporary.c_str());
  return result;
}

Result<void> MakeDirectories(const std::string& path, mode_t mode) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat info{};
      if (::stat(part.c_str(), &info) != 0)
        return std::unexpected(ErrnoStatus(error, "mkdir " + part));
    }
    if (at == std::string::npos) break;
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return ErrnoFail("stat {}", path);
  if (!S_ISDIR(info.st_mode))
    return Fail(Code::kNotDirectory, "{} exists and is not a directory", path);
  return {};
}

Result<TempDir> TempDir::Create(std::string_view prefix) {
  std::string path = fmt::format("{}/{}.XXXXXX", GetEnv("TMPDIR", "/tmp"), prefix);
  if (::mkdtemp(path.data()) == nullptr) return ErrnoFail("mkdtemp {}", path);
  return TempDir(std::move(path));
}

TempDir::~TempDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string GetEnv(const char* name, std::string fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::string(value) : std::move(fallback);
}

}  // namespace paddleop
