#include "volume/object/file/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/bytes.h"
#include "base/posix.h"
#include "volume/object/file/file_walk.h"

namespace paddleop::volume::object {
namespace {

constexpr mode_t kFileMode = 0666, kDirectoryMode = 0777;  // both less the umask

Result<void> CheckKey(std::string_view key) {
  if (FileWalk::IsFileKey(key)) return {};
  return Fail(
      Code::kInvalid,
      "a file store holds no key that is empty or has a NUL byte or an empty, \".\" or \"..\" "
      "part: \"{}\"",
      key);
}

class FileStore final : public ObjectStore {
 public:
  FileStore(std::string root, FileStoreOptions options)
      : root_(std::move(root)), options_(options) {}

  std::string name() const override { return "file://" + root_; }
  StoreTraits traits() const override { return {.copy = true}; }

  Result<void> Create(const Context&) override { return MakeDirectories(root_, kDirectoryMode); }
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override;
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override;
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override {
    return FileWalk(ctx, root_, options, visit).Run();
  }
  Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to) override;

 private:
  std::string PathOf(std::string_view key) const { return root_ + std::string(key); }
  // A regular file, or the directory a key with a trailing '/' names.
  Result<UniqueFd> OpenObject(std::string_view key, struct stat* info) const;
  // Writes a file beside its place with `fill` and moves it there.
  template <class Fill>
  Result<void> Replace(std::string_view key, Fill fill);
  Result<UniqueFd> MakeTemporary(const std::string& path) const;

  const std::string root_;  // with a trailing '/'
  const FileStoreOptions options_;
};

Result<UniqueFd> FileStore::OpenObject(std::string_view key, struct stat* info) const {
  RETURN_IF_ERROR(CheckKey(key));
  const std::string path = PathOf(key);
  // Without O_NONBLOCK a pipe that somebody put there would block for ever.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid() && (errno == ENOENT || errno == ENOTDIR)) {
    return Fail(Code::kNotFound, "there is no file {}", path);
  }
  if (!fd.valid()) return ErrnoFail("open {}", path);
  if (::fstat(fd.get(), info) != 0) return ErrnoFail("stat {}", path);
  const bool wants_directory = key.ends_with('/');
  if (S_ISDIR(info->st_mode) && !wants_directory) {
    return Fail(Code::kNotFound, "{} is a directory, not an object", path);
  }
  if (!S_ISDIR(info->st_mode) && !S_ISREG(info->st_mode)) {
    return Fail(Code::kInvalid, "{} is neither a file nor a directory", path);
  }
  return fd;
}

Result<GetResult> FileStore::Get(const Context& ctx, std::string_view key,
                                 const GetOptions& options, std::span<std::byte> out) {
  RETURN_IF_ERROR(ctx.Check());
  struct stat info{};
  ASSIGN_OR_RETURN(UniqueFd fd, OpenObject(key, &info));
  GetResult got;
  if (S_ISDIR(info.st_mode)) return got;
  got.etag = FileWalk::Etag(info);
  got.object_size = static_cast<std::uint64_t>(info.st_size);
  if (!options.if_match.empty() && options.if_match != got.etag) {
    return Fail(Code::kConflict, "{} has changed", PathOf(key));
  }
  const std::uint64_t offset = std::min(options.range.offset, got.object_size);
  const std::uint64_t wanted = std::min(options.range.length, got.object_size - offset);
  if (wanted > out.size()) {
    return Fail(Code::kInvalid, "{}: {} bytes do not fit into a buffer of {}", PathOf(key), wanted,
                out.size());
  }
  while (got.size < wanted) {
    const ssize_t n = ::pread(fd.get(), out.data() + got.size, wanted - got.size,
                              static_cast<off_t>(offset + got.size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoFail("read {}", PathOf(key));
    if (n == 0) return Fail(Code::kConflict, "{} became shorter while it was read", PathOf(key));
    got.size += static_cast<std::size_t>(n);
  }
  if (options.if_match.empty()) return got;
  if (::fstat(fd.get(), &info) != 0) return ErrnoFail("stat {}", PathOf(key));
  if (FileWalk::Etag(info) != got.etag) {
    return Fail(Code::kConflict, "{} changed while it was read", PathOf(key));
  }
  return got;
}

Result<UniqueFd> FileStore::MakeTemporary(const std::string& path) const {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), kFlags, kFileMode));
  if (fd.valid()) return fd;
  if (errno == ENOENT) {
    RETURN_IF_ERROR(MakeDirectories(path.substr(0, path.rfind('/')), kDirectoryMode));
    fd = UniqueFd(::open(path.c_str(), kFlags, kFileMode));
  }
  if (fd.valid()) return fd;
  return ErrnoFail("create {}", path);
}

template <class Fill>
Result<void> FileStore::Replace(std::string_view key, Fill fill) {
  const std::string path = PathOf(key);
  const std::size_t name = path.rfind('/') + 1;
  const std::string temporary = path.substr(0, name) + FileWalk::TemporaryName(path.substr(name));
  ASSIGN_OR_RETURN(UniqueFd fd, MakeTemporary(temporary));
  const auto write = [&]() -> Result<void> {
    RETURN_IF_ERROR(fill(fd.get()));
    if (options_.sync && ::fsync(fd.get()) != 0) return ErrnoFail("fsync");
    // A full disk may show only here.
    if (::close(fd.Release()) != 0) return ErrnoFail("close");
    if (::rename(temporary.c_str(), path.c_str()) != 0) return ErrnoFail("rename to {}", path);
    if (!options_.sync) return {};
    ASSIGN_OR_RETURN(UniqueFd directory, OpenFile(path.substr(0, name), O_RDONLY | O_DIRECTORY));
    if (::fsync(directory.get()) != 0) return ErrnoFail("fsync {}", path.substr(0, name));
    return {};
  };
  auto written = write();
  if (written) return written;
  ::unlink(temporary.c_str());
  return std::unexpected(std::move(written.error()).Wrap("write " + path));
}

Result<void> FileStore::Put(const Context& ctx, std::string_view key,
                            std::span<const std::byte> data, const PutOptions&) {
  RETURN_IF_ERROR(ctx.Check());
  RETURN_IF_ERROR(CheckKey(key));
  if (!key.ends_with('/')) {
    return Replace(key, [&](int fd) { return WriteAll(fd, AsText(data)); });
  }
  if (!data.empty()) {
    return Fail(Code::kInvalid, "{} is a directory in a file store and cannot hold {} bytes",
                PathOf(key), data.size());
  }
  return MakeDirectories(PathOf(key.substr(0, key.size() - 1)), kDirectoryMode);
}

Result<void> FileStore::Delete(const Context& ctx, std::string_view key) {
  RETURN_IF_ERROR(ctx.Check());
  RETURN_IF_ERROR(CheckKey(key));
  const std::string path = PathOf(key);
  const bool is_directory = key.ends_with('/');
  if ((is_directory ? ::rmdir(path.c_str()) : ::unlink(path.c_str())) == 0) return {};
  // Under a directory of the same name, or one that still holds something, there is no such object.
  if (errno == ENOENT || errno == ENOTDIR || errno == EISDIR) return {};
  if (is_directory && (errno == ENOTEMPTY || errno == EEXIST)) return {};
  return ErrnoFail("delete {}", path);
}

Result<ObjectInfo> FileStore::Head(const Context& ctx, std::string_view key) {
  RETURN_IF_ERROR(ctx.Check());
  RETURN_IF_ERROR(CheckKey(key));
  const std::string path = PathOf(key);
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return Fail(Code::kNotFound, "there is no file {}", path);
    return ErrnoFail("stat {}", path);
  }
  const bool is_directory = S_ISDIR(info.st_mode);
  if (is_directory != key.ends_with('/')) {
    return Fail(Code::kNotFound, "{} is {}, not an object", path,
                is_directory ? "a directory" : "a file");
  }
  ObjectInfo found;
  found.key = key;
  found.is_prefix = is_directory;
  found.mtime = FileWalk::ModifiedAt(info);
  found.owner = FileWalk::OwnerOf(info);
  if (is_directory) return found;
  found.size = static_cast<std::uint64_t>(info.st_size);
  found.etag = FileWalk::Etag(info);
  return found;
}

Result<void> FileStore::Copy(const Context& ctx, std::string_view from, std::string_view to) {
  RETURN_IF_ERROR(ctx.Check());
  struct stat info{};
  ASSIGN_OR_RETURN(UniqueFd source, OpenObject(from, &info));
  RETURN_IF_ERROR(CheckKey(to));
  if (S_ISDIR(info.st_mode) || to.ends_with('/')) return Put(ctx, to, {}, {});
  return Replace(to, [&](int target) -> Result<void> {
    for (off_t left = info.st_size; left > 0;) {
      const ssize_t n = ::copy_file_range(source.get(), nullptr, target, nullptr,
                                          static_cast<std::size_t>(left), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoFail("copy {}", PathOf(from));
      if (n == 0)
        return Fail(Code::kConflict, "{} became shorter while it was copied", PathOf(from));
      left -= n;
    }
    return {};
  });
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> OpenFileStore(const std::string& root,
                                                   FileStoreOptions options) {
  if (!root.starts_with('/')) {
    return Fail(Code::kInvalid,
                "the directory of a file store must be an absolute path, not \"{}\"", root);
  }
  std::string directory = root;
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  if (directory != "/") directory.push_back('/');
  return std::make_unique<FileStore>(std::move(directory), options);
}

}  // namespace paddleop::volume::object
