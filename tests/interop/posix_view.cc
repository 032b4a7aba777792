#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>

#include "base/posix.h"
#include "interop/file_view.h"

namespace paddleop::testing {

std::string Describe(const FileFacts& facts) {
  std::string text =
      fmt::format("type {} mode {:o} size {} links {} mtime {} content of {} bytes", facts.type,
                  facts.mode, facts.size, facts.links, facts.mtime, facts.content.size());
  for (const auto& [name, value] : facts.xattrs) text += fmt::format(" {}={}", name, value);
  return text;
}

namespace {

class PosixView final : public FileView {
 public:
  explicit PosixView(std::string root) : root_(std::move(root)) {}

  Result<void> Write(const std::string& path, std::uint64_t offset,
                     std::string_view data) override {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(At(path), O_WRONLY | O_CREAT, 0644));
    while (!data.empty()) {
      const ssize_t n = ::pwrite(fd.get(), data.data(), data.size(), static_cast<off_t>(offset));
      if (n < 0) return ErrnoFail("write {}", path);
      offset += static_cast<std::uint64_t>(n);
      data.remove_prefix(static_cast<std::size_t>(n));
    }
    return Close(fd, path);
  }
  Result<void> Truncate(const std::string& path, std::uint64_t length) override {
    return Check(::truncate(At(path).c_str(), static_cast<off_t>(length)), "truncate", path);
  }
  Result<void> PunchHole(const std::string& path, std::uint64_t offset,
                         std::uint64_t length) override {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(At(path), O_WRONLY));
    RETURN_IF_ERROR(Check(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      static_cast<off_t>(offset), static_cast<off_t>(length)),
                          "punch", path));
    return Close(fd, path);
  }
  Result<void> Mkdir(const std::string& path) override {
    return Check(::mkdir(At(path).c_str(), 0755), "mkdir", path);
  }
  Result<void> Rmdir(const std::string& path) override {
    return Check(::rmdir(At(path).c_str()), "rmdir", path);
  }
  Result<void> Unlink(const std::string& path) override {
    return Check(::unlink(At(path).c_str()), "unlink", path);
  }
  Result<void> Rename(const std::string& from, const std::string& to) override {
    return Check(::rename(At(from).c_str(), At(to).c_str()), "rename", from);
  }
  Result<void> Link(const std::string& existing, const std::string& path) override {
    return Check(::link(At(existing).c_str(), At(path).c_str()), "link", path);
  }
  Result<void> Symlink(const std::string& target, const std::string& path) override {
    return Check(::symlink(target.c_str(), At(path).c_str()), "symlink", path);
  }
  Result<void> Chmod(const std::string& path, unsigned mode) override {
    return Check(::chmod(At(path).c_str(), mode), "chmod", path);
  }
  Result<void> SetTime(const std::string& path, std::int64_t mtime) override {
    const timespec times[2] = {{0, UTIME_OMIT}, {mtime, 0}};
    return Check(::utimensat(AT_FDCWD, At(path).c_str(), times, 0), "utimens", path);
  }
  Result<void> SetXattr(const std::string& path, const std::string& name,
                        const std::string& value) override {
    return Check(::setxattr(At(path).c_str(), name.c_str(), value.data(), value.size(), 0),
                 "setxattr", path);
  }

  Result<std::map<std::string, FileFacts>> Snapshot() override {
    std::map<std::string, FileFacts> all;
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator it(root_, error), end; !error && it != end;
         it.increment(error)) {
      const std::string path = it->path().lexically_relative(root_).string();
      // The official mount shows its control files in the root, some of which never end.
      if (path.starts_with('.')) {
        it.disable_recursion_pending();
        continue;
      }
      ASSIGN_OR_RETURN(all[path], FactsOf(it->path().string()));
    }
    if (error) return std::unexpected(ErrnoStatus(error.value(), "walk " + root_));
    return all;
  }

 private:
  std::string At(const std::string& path) const { return root_ + "/" + path; }

  static Result<void> Check(int result, std::string_view what, const std::string& path) {
    if (result == 0) return {};
    return ErrnoFail("{} {}", what, path);
  }
  // close() is where a file system that uploads late reports what it lost.
  static Result<void> Close(UniqueFd& fd, const std::string& path) {
    return Check(::close(fd.Release()), "close", path);
  }

  static Result<FileFacts> FactsOf(const std::string& path) {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) return ErrnoFail("stat {}", path);
    FileFacts facts{.type = S_ISDIR(info.st_mode) ? 'd' : S_ISLNK(info.st_mode) ? 'l' : 'f'};
    if (facts.type == 'l') {
      facts.content = std::filesystem::read_symlink(path).string();
      return facts;
    }
    facts.mode = info.st_mode & 07777;
    if (facts.type == 'f') {
      facts.size = static_cast<std::uint64_t>(info.st_size);
      facts.links = info.st_nlink;
      facts.mtime = info.st_mtim.tv_sec;
      ASSIGN_OR_RETURN(facts.content, ReadFile(path, 1 << 30));
    }
    char names[4096];
    const ssize_t size = ::listxattr(path.c_str(), names, sizeof(names));
    for (ssize_t at = 0; at < size;) {
      const std::string name(names + at);
      at += static_cast<ssize_t>(name.size()) + 1;
      if (!name.starts_with("user.")) continue;
      char value[4096];
      const ssize_t length = ::getxattr(path.c_str(), name.c_str(), value, sizeof(value));
      if (length >= 0) facts.xattrs[name] = std::string(value, static_cast<std::size_t>(length));
    }
    return facts;
  }

  const std::string root_;
};

}  // namespace

std::unique_ptr<FileView> MakePosixView(std::string root) {
  return std::make_unique<PosixView>(std::move(root));
}

}  // namespace paddleop::testing
