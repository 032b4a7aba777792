#include "volume/object/file/file_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <system_error>

#include "base/posix.h"

namespace paddleop::volume::object {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using DirectoryStream = std::unique_ptr<DIR, CloseDirectory>;

constexpr std::string_view kTemporaryStart = ".jfs.";
constexpr std::string_view kTemporaryEnd = ".tmp.";

}  // namespace

FileWalk::FileWalk(const Context& ctx, std::string root, const ListOptions& options,
                   const ListVisitor& visit)
    : ctx_(ctx), root_(std::move(root)), options_(options), filter_(options, visit) {}

bool FileWalk::IsFileKey(std::string_view key) {
  if (key.empty() || key.find('\0') != key.npos) return false;
  for (std::size_t start = 0; start < key.size();) {
    const std::size_t end = std::min(key.find('/', start), key.size());
    const std::string_view part = key.substr(start, end - start);
    if (part.empty() || part == "." || part == "..") return false;
    start = end + 1;
  }
  return true;
}

std::string FileWalk::TemporaryName(std::string_view name) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{}{}{}", kTemporaryStart, name.substr(0, 200), kTemporaryEnd, random());
}

bool FileWalk::IsTemporary(std::string_view name) {
  if (!name.starts_with(kTemporaryStart)) return false;
  const std::size_t end = name.rfind(kTemporaryEnd);
  if (end == name.npos) return false;
  const std::string_view number = name.substr(end + kTemporaryEnd.size());
  return !number.empty() &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string FileWalk::Etag(const struct stat& info) {
  return fmt::format("{:x}.{:09}-{:x}-{:x}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                     info.st_size, info.st_ino);
}

std::chrono::system_clock::time_point FileWalk::ModifiedAt(const struct stat& info) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(info.st_mtim.tv_sec) +
                                               std::chrono::nanoseconds(info.st_mtim.tv_nsec));
}

FileOwner FileWalk::OwnerOf(const struct stat& info) {
  return {.mode = static_cast<std::uint16_t>(info.st_mode & 07777),
          .uid = info.st_uid,
          .gid = info.st_gid};
}

Result<void> FileWalk::Run() {
  struct stat info{};
  if (::stat(root_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Fail(Code::kInvalid, "there is no directory {}", root_);
  }
  // Everything below the last '/' of the prefix, and nothing else, can match.
  const std::size_t slash = options_.prefix.rfind('/');
  const std::string start =
      slash == options_.prefix.npos ? "" : options_.prefix.substr(0, slash + 1);
  if (!start.empty() && !IsFileKey(start)) return {};  // no key can begin so; it may lead outside
  RETURN_IF_ERROR(Directory(start));
  return {};
}

Result<bool> FileWalk::Directory(const std::string& directory) {
  ASSIGN_OR_RETURN(std::vector<Entry> entries, ReadEntries(directory));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
  Result<bool> more = true;
  for (const Entry& entry : entries) {
    const std::string key = directory + entry.key;
    if (!entry.is_directory || options_.directories) {
      more = Show(key, entry);
      if (!more || !*more) break;
    }
    if (!entry.is_directory || !filter_.MayContain(key)) continue;
    more = Directory(key);
    if (!more || !*more) break;
  }
  parents_.pop_back();
  return more;
}

Result<std::vector<FileWalk::Entry>> FileWalk::ReadEntries(const std::string& directory) {
  RETURN_IF_ERROR(ctx_.Check());
  std::vector<Entry> entries;
  const std::string path = root_ + directory;
  DirectoryStream stream(::opendir(path.c_str()));
  if (!stream) {
    // Gone since its parent was read, or the prefix names no directory: nothing is there to list.
    if (errno == ENOENT || errno == ENOTDIR) {
      parents_.emplace_back();
      return entries;
    }
    return ErrnoFail("list {}", path);
  }
  struct stat self{};
  if (::fstat(::dirfd(stream.get()), &self) != 0) return ErrnoFail("stat {}", path);
  parents_.emplace_back(self.st_dev, self.st_ino);
  for (;;) {
    errno = 0;
    const dirent* found = ::readdir(stream.get());
    if (found == nullptr && errno != 0) return ErrnoFail("read directory {}", path);
    if (found == nullptr) return entries;
    const std::string_view name = found->d_name;
    if (name == "." || name == "..") continue;
    if (IsTemporary(name) && !options_.unfinished) continue;
    if (auto entry = EntryOf(::dirfd(stream.get()), *found)) entries.push_back(*std::move(entry));
  }
}

std::optional<FileWalk::Entry> FileWalk::EntryOf(int directory, const struct dirent& found) const {
  Entry entry{.key = found.d_name, .is_directory = found.d_type == DT_DIR};
  if (found.d_type == DT_LNK || found.d_type == DT_UNKNOWN) {
    struct stat info{};
    if (::fstatat(directory, found.d_name, &info, 0) != 0) {
      const int why = errno;
      // Others are gone meanwhile.
      if (::fstatat(directory, found.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
      entry.problem = why == ELOOP    ? "a symbolic link that leads to itself"
                      : why == ENOENT ? "a symbolic link to something that does not exist"
                                      : std::system_category().message(why);
    } else if (S_ISDIR(info.st_mode)) {
      entry.is_directory = !LeadsUp(info);
      if (!entry.is_directory) entry.problem = "a symbolic link to a directory above it";
    }
    if (!entry.problem.empty() && !options_.unreadable) return std::nullopt;
  }
  if (entry.is_directory) entry.key += '/';
  return entry;
}

bool FileWalk::LeadsUp(const struct stat& info) const {
  return std::find(parents_.begin(), parents_.end(), std::pair(info.st_dev, info.st_ino)) !=
         parents_.end();
}

Result<bool> FileWalk::Show(const std::string& key, const Entry& found) {
  if (!filter_.Wants(key)) return true;
  const bool is_directory = found.is_directory;
  ObjectInfo entry;
  entry.key = key;
  entry.problem = found.problem;
  if (!entry.problem.empty()) return filter_.Offer(entry);
  struct stat info{};
  const std::string path = root_ + key;
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return true;  // gone meanwhile
    return ErrnoFail("stat {}", path);
  }
  if (S_ISDIR(info.st_mode) != is_directory || (!is_directory && !S_ISREG(info.st_mode)))
    return true;
  entry.mtime = ModifiedAt(info);
  entry.is_prefix = is_directory;
  entry.unfinished = !is_directory && IsTemporary(std::string_view(key).substr(key.rfind('/') + 1));
  entry.owner = OwnerOf(info);
  if (!is_directory) {
    entry.size = static_cast<std::uint64_t>(info.st_size);
    entry.etag = Etag(info);
  }
  return filter_.Offer(entry);
}

}  // namespace paddleop::volume::object
