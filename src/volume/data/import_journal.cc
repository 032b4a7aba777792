#include "volume/data/internal/import_journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

#include "base/crypto.h"

namespace paddleop::volume::data {
namespace {

constexpr std::string_view kSuffix = ".journal";
constexpr std::size_t kMaxLines = 50'000;

// Signs of lines.
constexpr char kBegun = 'u';
constexpr char kBegunUnmarked = '+';  // of imports that did not note what they committed
constexpr char kCommits = 'c';
constexpr char kEnded = '-';

std::string Line(char sign, const SliceKey& slice) {
  return fmt::format("{} {} {}\n", sign, slice.id, slice.size);
}

Result<UniqueFd> LockDirectory(const std::string& directory) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(directory + "/lock", O_RDWR | O_CREAT, 0600));
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoFail("lock {}", directory);
  }
  return fd;
}

}  // namespace

OpenSliceMap OpenSlices(std::string_view journal) {
  OpenSliceMap open;
  for (std::size_t end = journal.find('\n'); end != std::string_view::npos;
       end = journal.find('\n')) {
    const std::string_view line = journal.substr(0, end);
    journal.remove_prefix(end + 1);
    const std::size_t space = line.find(' ', 2);
    if (line.size() < 5 || space == std::string_view::npos) continue;
    SliceKey slice;
    const std::string_view id = line.substr(2, space - 2), size = line.substr(space + 1);
    if (std::from_chars(id.data(), id.data() + id.size(), slice.id).ec != std::errc()) continue;
    if (std::from_chars(size.data(), size.data() + size.size(), slice.size).ec != std::errc())
      continue;
    if (line[0] == kBegun) open[slice] = SliceStage::kUploading;
    if (line[0] == kCommits || line[0] == kBegunUnmarked) open[slice] = SliceStage::kCommitting;
    if (line[0] == kEnded) open.erase(slice);
  }
  return open;
}

Result<std::unique_ptr<ImportJournal>> ImportJournal::Open(const std::string& directory) {
  RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  // Under this lock no journal is unlocked between its creation and its first use.
  ASSIGN_OR_RETURN(const UniqueFd lock, LockDirectory(directory));
  std::unique_ptr<ImportJournal> journal(new ImportJournal());
  DIR* listing = ::opendir(directory.c_str());
  if (listing == nullptr) return ErrnoFail("list {}", directory);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {
    if (std::string_view(entry->d_name).ends_with(kSuffix)) names.emplace_back(entry->d_name);
  }
  ::closedir(listing);
  for (const std::string& name : names) RETURN_IF_ERROR(journal->Adopt(directory, name));

  MutexLock held(journal->mutex_);
  journal->path_ = directory + "/" + HexEncode(RandomBytes(8)) + std::string(kSuffix);
  ASSIGN_OR_RETURN(journal->fd_,
                   OpenFile(journal->path_, O_RDWR | O_CREAT | O_EXCL | O_APPEND, 0600));
  if (::flock(journal->fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    return ErrnoFail("lock {}", journal->path_);
  }
  return journal;
}

Result<void> ImportJournal::Adopt(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  for (;;) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd.valid()) return errno == ENOENT ? Result<void>{} : ErrnoFail("open {}", path);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return {};  // its import is alive
    // A living import may have replaced the file, or removed it at its end, before we had the lock.
    struct stat ours{}, named{};
    if (::fstat(fd.get(), &ours) != 0) return ErrnoFail("stat {}", path);
    if (::stat(path.c_str(), &named) != 0) {
      return errno == ENOENT ? Result<void>{} : ErrnoFail("stat {}", path);
    }
    if (ours.st_ino != named.st_ino) continue;
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path, std::size_t{1} << 30));
    abandoned_.merge(OpenSlices(text));
    dead_.push_back({path, std::move(fd)});
    return {};
  }
}

ImportJournal::~ImportJournal() {
  MutexLock lock(mutex_);
  if (open_.empty() && fd_.valid()) ::unlink(path_.c_str());
}

void ImportJournal::ForgetAbandoned() {
  for (const Held& held : dead_) ::unlink(held.path.c_str());
  dead_.clear();
}

Result<void> ImportJournal::Append(std::string_view lines, std::size_t count) {
  auto written = WriteAll(fd_.get(), lines);
  if (!written) return std::unexpected(std::move(written).error().Wrap("write " + path_));
  lines_ += count;
  return lines_ < kMaxLines ? Result<void>{} : Rewrite();
}

Result<void> ImportJournal::Rewrite() {
  std::string text;
  for (const auto& [slice, stage] : open_)
    text += Line(stage == SliceStage::kCommitting ? kCommits : kBegun, slice);
  const std::string temporary = path_ + ".new";
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(temporary, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return ErrnoFail("lock {}", temporary);
  RETURN_IF_ERROR(WriteAll(fd.get(), text));
  if (::rename(temporary.c_str(), path_.c_str()) != 0) return ErrnoFail("rename {}", temporary);
  fd_ = std::move(fd);
  lines_ = open_.size();
  return {};
}

Result<void> ImportJournal::Begin(const SliceKey& slice) {
  MutexLock lock(mutex_);
  open_[slice] = SliceStage::kUploading;
  return Append(Line(kBegun, slice), 1);
}

Result<void> ImportJournal::Committing(std::span<const SliceKey> slices) {
  MutexLock lock(mutex_);
  std::string lines;
  for (const SliceKey& slice : slices) {
    open_[slice] = SliceStage::kCommitting;
    lines += Line(kCommits, slice);
  }
  RETURN_IF_ERROR(Append(lines, slices.size()));
  // The metadata may outlive this machine: a lost line would make a used slice look unused.
  if (::fdatasync(fd_.get()) != 0) return ErrnoFail("sync {}", path_);
  return {};
}

Result<void> ImportJournal::End(const SliceKey& slice) {
  MutexLock lock(mutex_);
  if (open_.erase(slice) == 0) return {};
  return Append(Line(kEnded, slice), 1);
}

}  // namespace paddleop::volume::data
