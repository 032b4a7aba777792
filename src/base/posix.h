// RAII and error translation for POSIX calls: the one place that reads errno.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace paddleop {

// The Status for an errno: ENOENT is kNotFound, ENOSPC is kNoSpace, and so on.
Status ErrnoStatus(int error, std::string what);
// For `return ErrnoFail("open {}", path);` right after the failed call.
template <class... Args>
std::unexpected<Status> ErrnoFail(fmt::format_string<Args...> format, Args&&... args) {
  const int error = errno;
  return std::unexpected(ErrnoStatus(error, fmt::format(format, std::forward<Args>(args)...)));
}
// The errno to answer a kernel with; EIO for what has no closer one.
int ToErrno(Code code);

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();

 private:
  int fd_ = -1;
};

Result<UniqueFd> OpenFile(const std::string& path, int flags, mode_t mode = 0644);

// The whole file; kInvalid if it is larger than `limit`.
Result<std::string> ReadFile(const std::string& path, std::size_t limit = 64 << 20);
// Replaces the file in one step: whoever reads it sees the old or the new content, never a part.
Result<void> WriteFileAtomic(const std::string& path, std::string_view content, mode_t mode = 0644);
// Writes all of it, however many calls that takes.
Result<void> WriteAll(int fd, std::string_view bytes);
// Creates the directory and its parents; fine if it is there.
Result<void> MakeDirectories(const std::string& path, mode_t mode = 0755);

// A fresh directory, removed with everything in it at the end.
class TempDir {
 public:
  static Result<TempDir> Create(std::string_view prefix = "paddleop");
  ~TempDir();
  TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempDir& operator=(TempDir&&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The environment variable, or `fallback` if it is unset.
std::string GetEnv(const char* name, std::string fallback = "");

}  // namespace paddleop
