#include "volume/data/copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/posix.h"

namespace paddleop::volume::data {
namespace {

constexpr std::size_t kPiece = 4 << 20;

Timestamp FromStat(const timespec& time) {
  return {.seconds = time.tv_sec, .nanos = static_cast<std::uint32_t>(time.tv_nsec)};
}

// Releases the handle whatever happens; the error of an ordinary end is the caller's.
class OpenGuard {
 public:
  OpenGuard(Vfs& vfs, const Context& ctx, Handle handle) : vfs_(vfs), ctx_(ctx), handle_(handle) {}
  ~OpenGuard() {
    if (open_) static_cast<void>(vfs_.Release(ctx_, handle_));  // an error is on its way already
  }
  Result<void> Release() {
    open_ = false;
    return vfs_.Release(ctx_, handle_);
  }

 private:
  Vfs& vfs_;
  const Context& ctx_;
  const Handle handle_;
  bool open_ = true;
};

// All pages of a directory.
Result<std::vector<DirEntry>> ReadAll(const Context& ctx, MetaStore& meta, const Caller& caller,
                                      Ino ino) {
  std::vector<DirEntry> all;
  std::string cursor;
  do {
    ASSIGN_OR_RETURN(auto page, meta.ReadDir(ctx, caller, ino, cursor, 4096, true));
    for (auto& entry : page.entries) all.push_back(std::move(entry));
    cursor = page.next;
  } while (!cursor.empty());
  return all;
}

}  // namespace

void Copier::Count(Result<void> result, const std::string& path) {
  if (result) return;
  report_.failures.push_back({path, std::move(result).error()});
}

void Copier::In(const Context& ctx, const std::string& local, Ino parent, const std::string& name) {
  struct stat info{};
  if (::lstat(local.c_str(), &info) != 0) return Count(ErrnoFail("read"), local);
  if (S_ISDIR(info.st_mode)) return Count(DirectoryIn(ctx, local, parent, name), local);
  if (S_ISREG(info.st_mode)) return Count(FileIn(ctx, local, parent, name), local);
  if (S_ISLNK(info.st_mode)) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(local, error);
    if (error) return Count(std::unexpected(ErrnoStatus(error.value(), "read link")), local);
    auto made = vfs_.meta().Symlink(ctx, caller_, parent, name, target.string());
    return Count(made ? Result<void>{} : std::unexpected(made.error()), local);
  }
  Count(Fail(Code::kNotSupported, "only files, directories and links are copied"), local);
}

Result<void> Copier::FileIn(const Context& ctx, const std::string& local, Ino parent,
                            const std::string& name) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(local, O_RDONLY));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return ErrnoFail("stat {}", local);
  ASSIGN_OR_RETURN(
      const auto opened,
      vfs_.Create(ctx, caller_, parent, name, static_cast<std::uint16_t>(info.st_mode & 07777),
                  {.read = false, .write = true, .truncate = true}, false));
  OpenGuard guard(vfs_, ctx, opened.handle);
  std::vector<std::byte> buffer(kPiece);
  for (std::uint64_t offset = 0;;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoFail("read {}", local);
    if (n == 0) break;
    RETURN_IF_ERROR(vfs_.Write(ctx, opened.handle, offset,
                               std::span(buffer).first(static_cast<std::size_t>(n))));
    offset += static_cast<std::uint64_t>(n);
    report_.bytes += static_cast<std::uint64_t>(n);
  }
  RETURN_IF_ERROR(vfs_.Flush(ctx, opened.handle));
  RETURN_IF_ERROR(vfs_.SetAttr(ctx, caller_, opened.entry.ino, {.mtime = FromStat(info.st_mtim)}));
  RETURN_IF_ERROR(guard.Release());
  ++report_.files;
  return {};
}

Result<Ino> Copier::MakeDirectory(const Context& ctx, Ino parent, const std::string& name,
                                  std::uint16_t mode) {
  auto made = vfs_.meta().Mkdir(ctx, caller_, parent, name, mode);
  if (made) {
    ++report_.directories;
    return made->ino;
  }
  if (!IsAlreadyExists(made.error())) return std::unexpected(std::move(made).error());
  ASSIGN_OR_RETURN(const auto existing, vfs_.meta().Lookup(ctx, caller_, parent, name));
  if (existing.attr.type != FileType::kDirectory)
    return Fail(Code::kNotDirectory, "\"{}\" exists and is not a directory", name);
  return existing.ino;
}

Result<void> Copier::DirectoryIn(const Context& ctx, const std::string& local, Ino parent,
                                 const std::string& name) {
  if (!recursive_) return Fail(Code::kIsDirectory, "is a directory; use --recursive");
  struct stat info{};
  if (::stat(local.c_str(), &info) != 0) return ErrnoFail("stat {}", local);
  ASSIGN_OR_RETURN(
      const Ino directory,
      MakeDirectory(ctx, parent, name, static_cast<std::uint16_t>(info.st_mode & 07777)));
  std::error_code error;
  for (std::filesystem::directory_iterator it(local, error), end; !error && it != end;
       it.increment(error)) {
    RETURN_IF_ERROR(ctx.Check());
    In(ctx, it->path().string(), directory, it->path().filename().string());
  }
  if (error) return std::unexpected(ErrnoStatus(error.value(), "list " + local));
  return {};
}

void Copier::Out(const Context& ctx, const Entry& from, const std::string& local) {
  switch (from.attr.type) {
    case FileType::kDirectory:
      return Count(DirectoryOut(ctx, from, local), local);
    case FileType::kFile:
      return Count(FileOut(ctx, from, local), local);
    case FileType::kSymlink: {
      auto target = vfs_.meta().ReadLink(ctx, from.ino);
      if (!target) return Count(std::unexpected(target.error()), local);
      ::unlink(local.c_str());
      if (::symlink(target->c_str(), local.c_str()) != 0) Count(ErrnoFail("link {}", local), local);
      return;
    }
    default:
      Count(Fail(Code::kNotSupported, "only files, directories and links are copied"), local);
  }
}

Result<void> Copier::FileOut(const Context& ctx, const Entry& from, const std::string& local) {
  ASSIGN_OR_RETURN(const auto opened, vfs_.Open(ctx, caller_, from.ino, {.read = true}));
  OpenGuard guard(vfs_, ctx, opened.handle);
  const std::string temporary = local + ".part";
  auto copied = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    std::vector<std::byte> buffer(kPiece);
    for (std::uint64_t offset = 0;;) {
      ASSIGN_OR_RETURN(const std::size_t n, vfs_.Read(ctx, opened.handle, offset, buffer));
      if (n == 0) break;
      RETURN_IF_ERROR(WriteAll(fd.get(), {reinterpret_cast<const char*>(buffer.data()), n}));
      offset += n;
      report_.bytes += n;
    }
    const auto& attr = from.attr;
    if (::fchmod(fd.get(), attr.mode) != 0) return ErrnoFail("chmod {}", local);
    const timespec times[2] = {{0, UTIME_OMIT},
                               {attr.mtime.seconds, static_cast<long>(attr.mtime.nanos)}};
    if (::futimens(fd.get(), times) != 0) return ErrnoFail("set the time of {}", local);
    if (::rename(temporary.c_str(), local.c_str()) != 0) return ErrnoFail("rename {}", temporary);
    return {};
  }();
  if (!copied) {
    ::unlink(temporary.c_str());
    return copied;
  }
  ++report_.files;
  return guard.Release();
}

Result<void> Copier::DirectoryOut(const Context& ctx, const Entry& from, const std::string& local) {
  if (!recursive_) return Fail(Code::kIsDirectory, "is a directory; use --recursive");
  RETURN_IF_ERROR(MakeDirectories(local));
  ++report_.directories;
  ASSIGN_OR_RETURN(const auto entries, ReadAll(ctx, vfs_.meta(), caller_, from.ino));
  for (const auto& entry : entries) {
    RETURN_IF_ERROR(ctx.Check());
    if (entry.attr) Out(ctx, {.ino = entry.ino, .attr = *entry.attr}, local + "/" + entry.name);
  }
  return {};
}

void Copier::Within(const Context& ctx, const Entry& from, Ino parent, const std::string& name,
                    const std::string& path) {
  switch (from.attr.type) {
    case FileType::kDirectory:
      return Count(DirectoryWithin(ctx, from, parent, name, path), path);
    case FileType::kFile:
      return Count(FileWithin(ctx, from, parent, name), path);
    case FileType::kSymlink: {
      auto target = vfs_.meta().ReadLink(ctx, from.ino);
      if (!target) return Count(std::unexpected(target.error()), path);
      auto made = vfs_.meta().Symlink(ctx, caller_, parent, name, *target);
      return Count(made ? Result<void>{} : std::unexpected(made.error()), path);
    }
    default:
      Count(Fail(Code::kNotSupported, "only files, directories and links are copied"), path);
  }
}

Result<void> Copier::FileWithin(const Context& ctx, const Entry& from, Ino parent,
                                const std::string& name) {
  ASSIGN_OR_RETURN(const auto opened,
                   vfs_.Create(ctx, caller_, parent, name, from.attr.mode,
                               {.read = false, .write = true, .truncate = true}, false));
  OpenGuard guard(vfs_, ctx, opened.handle);
  for (std::uint64_t offset = 0; offset < from.attr.length;) {
    ASSIGN_OR_RETURN(const std::uint64_t n, vfs_.CopyRange(ctx, from.ino, offset, opened.entry.ino,
                                                           offset, from.attr.length - offset));
    if (n == 0) break;
    offset += n;
    report_.bytes += n;
  }
  RETURN_IF_ERROR(vfs_.SetAttr(ctx, caller_, opened.entry.ino, {.mtime = from.attr.mtime}));
  ++report_.files;
  return guard.Release();
}

Result<void> Copier::DirectoryWithin(const Context& ctx, const Entry& from, Ino parent,
                                     const std::string& name, const std::string& path) {
  if (!recursive_) return Fail(Code::kIsDirectory, "is a directory; use --recursive");
  // The list is taken first, so that a copy into itself ends.
  ASSIGN_OR_RETURN(const auto entries, ReadAll(ctx, vfs_.meta(), caller_, from.ino));
  ASSIGN_OR_RETURN(const Ino directory, MakeDirectory(ctx, parent, name, from.attr.mode));
  for (const auto& entry : entries) {
    RETURN_IF_ERROR(ctx.Check());
    if (entry.ino == directory || !entry.attr) continue;
    Within(ctx, {.ino = entry.ino, .attr = *entry.attr}, directory, entry.name,
           path + "/" + entry.name);
  }
  return {};
}

}  // namespace paddleop::volume::data
