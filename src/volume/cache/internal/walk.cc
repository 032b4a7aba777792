#include "volume/cache/internal/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/posix.h"
#include "volume/format/cache_file.h"

namespace paddleop::volume::cache {
namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

Result<void> Walk(const Context& ctx, const std::string& folder, int depth, const BlockFileFn& fn) {
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(folder.c_str()));
  if (!dir) {
    if (errno == ENOENT) return {};
    return ErrnoFail("open directory {}", folder);
  }
  for (;;) {
    RETURN_IF_ERROR(ctx.Check());
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0 && errno != ENOENT) return ErrnoFail("read directory {}", folder);
      return {};
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info{};
    const auto block = ParseBlockKey(name);
    if (block || entry->d_type == DT_UNKNOWN) {
      if (::fstatat(::dirfd(dir.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (block && S_ISREG(info.st_mode)) {
        fn(folder + "/" + std::string(name), *block, info);
        continue;
      }
    }
    const bool is_folder = entry->d_type == DT_DIR || S_ISDIR(info.st_mode);
    if (is_folder && depth > 0)
      RETURN_IF_ERROR(Walk(ctx, folder + "/" + std::string(name), depth - 1, fn));
  }
}

}  // namespace

Result<void> WalkBlocks(const Context& ctx, const std::string& folder, const BlockFileFn& fn) {
  constexpr int kDeepest = 8;  // pinned/<plan>/raw/chunks/a/b is 6
  return Walk(ctx, folder, kDeepest, fn);
}

Result<void> RemoveTree(const Context& ctx, const std::string& folder) {
  // Removing may hide names from the listing, so there may have to be several.
  while (::rmdir(folder.c_str()) != 0) {
    if (errno == ENOENT) return {};
    if (errno == ENOTDIR && (::unlink(folder.c_str()) == 0 || errno == ENOENT)) return {};
    if (errno != ENOTEMPTY && errno != EEXIST) return ErrnoFail("remove {}", folder);
    const std::unique_ptr<DIR, CloseDir> dir(::opendir(folder.c_str()));
    if (!dir && errno == ENOENT) return {};
    if (!dir) return ErrnoFail("open directory {}", folder);
    bool found = false;
    for (;;) {
      RETURN_IF_ERROR(ctx.Check());
      errno = 0;
      const dirent* entry = ::readdir(dir.get());
      if (entry == nullptr && errno != 0 && errno != ENOENT)
        return ErrnoFail("read directory {}", folder);
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      found = true;
      if (::unlinkat(::dirfd(dir.get()), entry->d_name, 0) == 0 || errno == ENOENT) continue;
      if (errno != EISDIR && errno != EPERM) return ErrnoFail("remove {}/{}", folder, name);
      RETURN_IF_ERROR(RemoveTree(ctx, folder + "/" + std::string(name)));
    }
    if (!found && ::rmdir(folder.c_str()) != 0 && errno != ENOENT)
      return ErrnoFail("remove {}", folder);
  }
  return {};
}

void RemoveEmptyFolders(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) RemoveEmptyFolders(it->path().string());
  }
  ::rmdir(folder.c_str());
}

bool IsMediumError(int error) { return error == EIO || error == EUCLEAN || error == EBADMSG; }

bool IsNameError(int error) { return error == ELOOP || error == ENXIO; }

std::uint64_t ChargeOf(std::uint32_t length, bool checksums) {
  const std::uint64_t pieces =
      checksums ? (length + kCacheChecksumSpan - 1) / kCacheChecksumSpan : 0;
  return (length + 4 * pieces + 4095) / 4096 * 4096;
}

std::uint64_t ChargedBytes(const struct stat& info, bool part) {
  if (part) return static_cast<std::uint64_t>(info.st_blocks) * 512;
  return (static_cast<std::uint64_t>(info.st_size) + 4095) / 4096 * 4096;
}

}  // namespace paddleop::volume::cache
