#include "volume/cache/internal/cache_dir.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/bytes.h"
#include "base/crypto.h"
#include "volume/cache/internal/walk.h"
#include "volume/cache/metrics.h"
#include "volume/format/cache_file.h"

namespace paddleop::volume::cache {
namespace {

constexpr std::string_view kCounters = "/.samplefs.counters";

// The folder that holds an absolute path.
std::string Parent(const std::string& path) {
  return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
}

// Moves without replacing: what is there already may be pinned. 1: something was there.
int RenameNew(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno == EINVAL || errno == ENOSYS) {  // a file system that cannot
    if (::link(from.c_str(), to.c_str()) == 0) {
      ::unlink(from.c_str());
      return 0;
    }
  }
  return errno == EEXIST ? 1 : -1;
}

// The id in the official client's file, which is made if it is missing.
Result<std::string> DirectoryId(const std::string& root) {
  const std::string path = root + "/.lock";
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto id = ReadFile(path, 4096);
    if (id && !id->empty()) return id;
    if (!id && !IsNotFound(id.error())) return id;
    // Complete or not there at all, also for others who do the same now.
    const std::string fresh = RandomUuid(), temporary = fmt::format("{}.{}", path, fresh);
    RETURN_IF_ERROR(WriteFileAtomic(temporary, fresh));
    // An empty one was left by a process that was killed before it could write.
    const bool made = (id ? ::rename(temporary.c_str(), path.c_str())
                          : ::link(temporary.c_str(), path.c_str())) == 0;
    const int error = errno;
    ::unlink(temporary.c_str());
    if (!made && error != EEXIST)
      return std::unexpected(ErrnoStatus(error, "make the cache directory's id " + path));
  }
  return ReadFile(path, 4096);
}

// Where the page cache is not to hold blocks, what is being kept should not fill it either: whole
// pages from aligned memory go to the disk at once. The rest, and everything on file systems that
// cannot do that, goes the usual way.
Result<void> WriteContent(int fd, std::span<const std::byte> plain, bool direct) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(plain.data()) % kPageBytes == 0;
  std::size_t done = 0;
  if (direct && aligned && ::fcntl(fd, F_SETFL, O_DIRECT) == 0) {
    const std::size_t whole = plain.size() / kPageBytes * kPageBytes;
    while (done < whole) {
      const ssize_t n = ::write(fd, plain.data() + done, whole - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;  // the usual way meets the same error, or works
      done += static_cast<std::size_t>(n);
      if (done % kPageBytes != 0) break;
    }
    if (::fcntl(fd, F_SETFL, 0) != 0) return ErrnoFail("leave direct writing");
  }
  return WriteAll(fd, AsText(plain.subspan(done)));
}

// The finer checksums of an open block's file; empty if it has none, or not as many as it should.
std::vector<std::uint32_t> LoadFine(int fd, std::uint32_t length) {
  if (length < kMinFineBlock || length > kMaxFineBlock) return {};
  std::array<char, 4 * kMaxFineBlock / kFineChecksumSpan> value;
  const ssize_t got = ::fgetxattr(fd, kFineChecksumXattr, value.data(), value.size());
  const std::size_t count = (length + kFineChecksumSpan - 1) / kFineChecksumSpan;
  if (got != static_cast<ssize_t>(4 * count)) return {};
  ByteReader reader(std::string_view(value.data(), 4 * count));
  std::vector<std::uint32_t> fine(count);
  for (std::uint32_t& checksum : fine) checksum = reader.U32();
  return fine;
}

// False for what a reader would take for damaged: it is cut, or something else than a file.
bool LooksWhole(const struct stat& info, const BlockId& block) {
  const auto stored = static_cast<std::uint64_t>(info.st_size);
  const std::uint64_t pieces = (block.length + kCacheChecksumSpan - 1) / kCacheChecksumSpan;
  return S_ISREG(info.st_mode) && (stored == block.length || stored >= block.length + 4 * pieces);
}

// Where the file system that has `path` begins: the highest of the folders above it that are on it.
Result<std::string> MountPoint(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return std::unexpected(ErrnoStatus(error.value(), "find " + path));
  std::string place = absolute.lexically_normal().string();
  struct stat here{}, above{};
  if (::stat(place.c_str(), &here) != 0) return ErrnoFail("stat {}", place);
  while (place != "/") {
    const std::string parent = Parent(place);
    if (::stat(parent.c_str(), &above) != 0) return ErrnoFail("stat {}", parent);
    if (above.st_dev != here.st_dev) break;
    place = parent;
  }
  return place;
}

// A cache directory of a volume given as if it could hold several: the user means its parent.
bool LooksLikeVolumeCache(const std::string& path) {
  struct stat info{};
  return ::stat((path + "/raw/chunks").c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Metrics::Metrics(MetricsRegistry& registry)
    : hits(registry.AddCounter(cache_metrics::kHits, cache_metrics::kHitsHelp, {{"tier", "disk"}})),
      hit_bytes(registry.AddCounter(cache_metrics::kHitBytes, cache_metrics::kHitBytesHelp,
                                    {{"tier", "disk"}})),
      misses(registry.AddCounter(cache_metrics::kMisses, cache_metrics::kMissesHelp)),
      miss_bytes(registry.AddCounter(cache_metrics::kMissBytes, cache_metrics::kMissBytesHelp)),
      stored(registry.AddCounter(cache_metrics::kStored, "bytes written to cache directories")),
      refused(registry.AddCounter(cache_metrics::kRefused, "blocks that found no room")),
      evicted(registry.AddCounter(cache_metrics::kEvicted, "blocks evicted")),
      corrupt(registry.AddCounter(cache_metrics::kCorrupt, "damaged cache files")),
      errors(registry.AddCounter(cache_metrics::kErrors, "failed operations on cache disks")),
      out(registry.AddGauge(cache_metrics::kOut, "cache directories that are out of use")) {}

CacheDir::CacheDir(CacheDirectory directory, const DirEnvironment& env)
    : directory_(std::move(directory)),
      env_(env),
      root_(directory_.path + "/" + env.options.uuid),
      token_(HexEncode(RandomBytes(8))) {
  env_.metrics.out.Add(1);
}

CacheDir::~CacheDir() {
  if (!usable()) env_.metrics.out.Add(-1);
}

std::string CacheDir::TemporaryPath(std::string_view kind) {
  return fmt::format("{}{}/{}-{}-{}", root_, kTemporary, kind, token_,
                     next_temporary_.fetch_add(1));
}

std::string CacheDir::WholePath(const BlockId& block) const {
  return root_ + "/" + CacheFilePath(BlockKey(env_.options.layout, block));
}
std::string CacheDir::PartPath(const BlockId& block) const {
  return root_ + "/part/" + BlockKey(env_.options.layout, block);
}

Result<void> CacheDir::Attach() {
  RETURN_IF_ERROR(CheckPlace());
  const mode_t mode = folder_mode();
  RETURN_IF_ERROR(MakeDirectories(root_ + "/raw", mode));
  RETURN_IF_ERROR(MakeDirectories(root_ + std::string(kTemporary), mode));
  ASSIGN_OR_RETURN(std::string id, DirectoryId(root_));
  ASSIGN_OR_RETURN(std::string mount_point, MountPoint(root_));
  ASSIGN_OR_RETURN(UniqueFd lock_file,
                   OpenFile(root_ + "/.samplefs.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::string counters_path = root_ + std::string(kCounters);
  std::unique_ptr<SharedCounters> counters;
  if (SharedCounters* known = this->counters(); known == nullptr || !known->IsAt(counters_path)) {
    ASSIGN_OR_RETURN(counters, SharedCounters::Open(counters_path, env_.options.uuid,
                                                    [this] { return RemoveBegun(); }));
    // Our own counters are as good as others of our own.
    if (known != nullptr && !counters->shared() && !known->shared()) counters.reset();
  }
  {
    MutexLock lock(lock_mutex_);
    lock_file_ = std::make_shared<const UniqueFd>(std::move(lock_file));
    locked_at_.reset();
  }
  {
    MutexLock lock(state_mutex_);
    if (counters) {
      counters_.store(counters.get(), std::memory_order_release);
      all_counters_.push_back(std::move(counters));
    }
    id_ = std::move(id);
    mount_point_ = std::move(mount_point);
    problem_.clear();
    io_errors_.clear();
    recount_at_ = env_.options.clock->Now() + env_.options.recount_interval;
  }
  ListPlans();
  if (!usable_.exchange(true)) env_.metrics.out.Add(-1);
  env_.attached();
  return {};
}

void CacheDir::NotAttached(const Context& ctx, const std::string& why) {
  env_.metrics.errors.Increment();
  SetProblem(why);
  env_.log.Warn(ctx, "cache directory cannot be used now",
                {{"path", directory_.path}, {"error", why}});
}

Result<void> CacheDir::CheckPlace() const {
  if (LooksLikeVolumeCache(directory_.path)) {
    return Fail(Code::kInvalid, "{} is itself the cache of a volume; give the directory above it",
                directory_.path);
  }
  std::string mount_point, id;
  {
    MutexLock lock(state_mutex_);
    mount_point = mount_point_;
    id = id_;
  }
  if (mount_point.empty() || mount_point == "/") return {};
  struct stat here{}, above{};
  const bool exists = ::stat(mount_point.c_str(), &here) == 0;
  if (!exists && errno != ENOENT) return ErrnoFail("stat {}", mount_point);
  // Perhaps another disk: a new one takes the place of one that is broken.
  if (exists && ::stat(Parent(mount_point).c_str(), &above) == 0 && here.st_dev != above.st_dev) {
    return {};
  }
  auto there = ReadFile(root_ + "/.lock", 4096);
  if (there && *there == id) return {};
  return Fail(Code::kUnavailable, "nothing is mounted at {} any more", mount_point);
}

std::string CacheDir::id() const {
  MutexLock lock(state_mutex_);
  return id_;
}

std::shared_ptr<OpenBlock> CacheDir::OpenWhole(const BlockId& block) {
  if (!usable()) return nullptr;
  const auto stamp = operations_.Begin("opening a file");
  const std::string path = WholePath(block);
  bool direct = env_.options.direct_reads;
  // Without waiting, should it be a pipe; it means nothing for a file.
  const auto open = [&] {
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (direct ? O_DIRECT : 0);
    // To note the time of each read, readers would wait for the disk's journal. Only for owners.
    const int found = ::open(path.c_str(), flags | O_NOATIME);
    return UniqueFd(found < 0 && errno == EPERM ? ::open(path.c_str(), flags) : found);
  };
  UniqueFd fd = open();
  if (!fd.valid() && errno == ENOENT) {
    if (!FindPinned(block)) return nullptr;
    fd = open();
  }
  if (!fd.valid() && direct && errno == EINVAL) {  // tmpfs has no page cache to bypass
    direct = false;
    fd = open();
  }
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    if (errno != ENOENT) Unreadable("open", block, false, errno);
    return nullptr;
  }
  // What wrote the file, or another reader, may have left a second copy in memory.
  if (direct) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  const auto stored = static_cast<std::uint64_t>(info.st_size);
  if (!LooksWhole(info, block)) {
    Damaged(block, false, fmt::format("{} bytes for a block of {}", stored, block.length));
    return nullptr;
  }
  const auto now = std::chrono::system_clock::to_time_t(env_.options.clock->WallNow());
  if (now - info.st_atim.tv_sec > 60) {
    // Told outright, since most disks are mounted so that reads do not.
    const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    ::futimens(fd.get(), times);
  }
  auto verified = env_.verified.Find(block, info.st_ino,
                                     info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec);
  std::vector<std::uint32_t> fine;
  if (env_.options.checksum == ChecksumLevel::kExtend && stored > block.length)
    fine = LoadFine(fd.get(), block.length);
  return std::make_shared<OpenBlock>(
      std::move(fd), direct, block, stored, std::move(fine), env_.options.checksum,
      std::move(verified),
      OpenBlock::Home{
          .usable = usable_,
          .answers = answers_,
          .operations = operations_,
          .on_corrupt = [this](const BlockId& damaged,
                               const std::string& why) { Damaged(damaged, false, why); },
          .on_error = [this, block](int error) { Unreadable("read", block, false, error); }});
}

std::shared_ptr<PartFile> CacheDir::OpenPart(const BlockId& block, PartFile::Access access) {
  if (!usable()) return nullptr;
  const auto stamp = operations_.Begin("opening a file");
  auto opened = PartFile::Open(PartPath(block), block.length, env_.options.direct_reads, access);
  if (opened.outcome == PartFile::Outcome::kCorrupt)
    Damaged(block, true, "it is no file of ranges");
  if (opened.outcome == PartFile::Outcome::kError) Unreadable("open", block, true, opened.error);
  return opened.file;
}

bool CacheDir::HasWhole(const BlockId& block) {
  if (!usable()) return false;
  const auto stamp = operations_.Begin("looking for a file");
  const std::string path = WholePath(block);
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 &&
      (errno != ENOENT || !FindPinned(block) || ::stat(path.c_str(), &info) != 0)) {
    return false;
  }
  return LooksWhole(info, block);
}

bool CacheDir::HasPart(const BlockId& block) const {
  return usable() && ::access(PartPath(block).c_str(), F_OK) == 0;
}

Result<std::string> CacheDir::WriteTemporary(const BlockId& block,
                                             std::span<const std::byte> plain) {
  const auto stamp = operations_.Begin("a write");
  std::string path = TemporaryPath("block");
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), flags, env_.options.file_mode));
  if (!fd.valid() && errno == ENOENT) {
    RETURN_IF_ERROR(MakeDirectories(Parent(path), folder_mode()));
    fd = UniqueFd(::open(path.c_str(), flags, env_.options.file_mode));
  }
  if (!fd.valid()) {
    const int error = errno;
    Failed("create", path, error);
    return std::unexpected(ErrnoStatus(error, "create " + path));
  }
  Result<void> written = WriteContent(fd.get(), plain, env_.options.direct_reads);
  if (written && env_.options.checksum != ChecksumLevel::kNone) {
    const std::string fine = FineChecksums(AsText(plain));
    written = WriteAll(fd.get(), CacheTrailer(AsText(plain), fine));
    // Not every file system keeps them: those in the file are all that is needed.
    if (written && !fine.empty())
      ::fsetxattr(fd.get(), kFineChecksumXattr, fine.data(), fine.size(), 0);
  }
  if (!written) {
    ::unlink(path.c_str());
    Failed("write", path, ToErrno(written.error().code()));
    return std::unexpected(
        std::move(written).error().Wrap("keep block " + BlockKey(env_.options.layout, block)));
  }
  return path;
}

// True if the file is the one that now stands for the block.
Result<bool> CacheDir::Publish(const std::string& temporary, const BlockId& block,
                               std::uint64_t bytes) {
  const std::string path = WholePath(block);
  Turn turn(*this);
  if (!turn.held()) {
    ::unlink(temporary.c_str());
    return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  }
  const auto stamp = operations_.Begin("naming a file");
  const auto counters = this->counters();
  Change change(*counters);
  int moved = RenameNew(temporary, path);
  if (moved < 0 && errno == ENOENT) {
    RETURN_IF_ERROR(MakeDirectories(Parent(path), folder_mode()));
    moved = RenameNew(temporary, path);
  }
  struct stat there{};
  if (moved > 0 && (::stat(path.c_str(), &there) != 0 || !LooksWhole(there, block))) {
    TellDamaged(block, false,
                fmt::format("{} bytes for a block of {}", there.st_size, block.length));
    RemoveFile(path, block, false, Plans());
    moved = RenameNew(temporary, path);
    if (moved > 0 && ::stat(path.c_str(), &there) == 0 && !LooksWhole(there, block)) {
      ::unlink(temporary.c_str());
      return Fail(Code::kAlreadyExists, "{} is in the way", path);
    }
  }
  if (moved != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    if (moved > 0) return false;
    Failed("rename", path, error);
    return std::unexpected(ErrnoStatus(error, "rename to " + path));
  }
  (*counters)->blocks += 1;
  (*counters)->bytes += static_cast<std::int64_t>(bytes);
  return true;
}

Result<void> CacheDir::PutWhole(const BlockId& block, std::span<const std::byte> plain) {
  if (!usable())
    return Fail(Code::kUnavailable, "cache directory {} is out of use", directory_.path);
  if (plain.size() != block.length) return Fail(Code::kInternal, "block of {} bytes", plain.size());
  if (HasWhole(block)) return {};
  if (LockedOut()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  const std::uint64_t bytes = ChargeOf(block.length, env_.options.checksum != ChecksumLevel::kNone);
  if (auto admits = Admits(bytes); !admits)
    return std::unexpected(admits.error().Wrap(directory_.path));
  ASSIGN_OR_RETURN(const std::string temporary, WriteTemporary(block, plain));
  ASSIGN_OR_RETURN(const bool ours, Publish(temporary, block, bytes));
  if (ours) env_.metrics.stored.Increment(static_cast<double>(plain.size()));
  if (HasPart(block)) return ReplacePart(block);
  return {};
}

Result<void> CacheDir::PutRange(const BlockId& block, std::uint32_t offset,
                                std::span<const std::byte> data) {
  if (!usable())
    return Fail(Code::kUnavailable, "cache directory {} is out of use", directory_.path);
  if (auto admits = Admits(data.size() + 2 * std::uint64_t{kPageBytes}); !admits)
    return std::unexpected(admits.error().Wrap(directory_.path));
  std::shared_ptr<PartFile> file;
  auto written = WriteRange(block, offset, data, file);
  if (written) {
    // Without the lock, since this waits for the disk.
    const auto stamp = operations_.Begin("a write");
    if (env_.options.direct_reads) file->LeaveMemory(offset, data.size());
    env_.metrics.stored.Increment(static_cast<double>(data.size()));
  } else if (written.error().code() == Code::kCorrupt) {
    Damaged(block, true, written.error().message());
  } else if (written.error().code() == Code::kPermission && HasPart(block)) {
    // What others wrote and we may not change: ours takes its place, if we may do that.
    Failed("write", PartPath(block), EACCES, Blame::kRights);
    std::ignore = Clear(block);
    if (HasPart(block)) return Fail(Code::kAlreadyExists, "{} is in the way", PartPath(block));
  } else if (written.error().code() != Code::kUnavailable) {
    Failed("write", PartPath(block), ToErrno(written.error().code()));
  }
  return written;
}

// What the file grows by is counted under the lock it grows under.
Result<void> CacheDir::WriteRange(const BlockId& block, std::uint32_t offset,
                                  std::span<const std::byte> data,
                                  std::shared_ptr<PartFile>& file) {
  const std::string path = PartPath(block);
  Turn turn(*this);
  if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  const auto stamp = operations_.Begin("a write");
  const auto counters = this->counters();
  auto& page = *counters;
  Change change(*counters);
  const bool is_new = !HasPart(block);
  auto created = PartFile::Create(path, block.length, env_.options.file_mode);
  if (!created && IsNotFound(created.error())) {
    RETURN_IF_ERROR(MakeDirectories(Parent(path), folder_mode()));
    created = PartFile::Create(path, block.length, env_.options.file_mode);
  }
  if (!created) return std::unexpected(std::move(created).error());
  file = *std::move(created);
  struct stat before{}, after{};
  if (::fstat(file->fd(), &before) != 0) return ErrnoFail("stat {}", path);
  auto written = file->Write(offset, data);
  if (::fstat(file->fd(), &after) != 0) return ErrnoFail("stat {}", path);
  const auto was = is_new ? 0 : static_cast<std::int64_t>(ChargedBytes(before, true));
  const auto grown = static_cast<std::int64_t>(ChargedBytes(after, true)) - was;
  if (is_new) page->part_blocks += 1;
  page->part_bytes += grown;
  page->bytes += grown;
  if (after.st_nlink > 1) page->pinned_bytes += grown;
  return written;
}

void CacheDir::TellDamaged(const BlockId& block, bool part, const std::string& why) {
  env_.metrics.corrupt.Increment();
  const auto counters = this->counters();
  if (counters) ++(*counters)->corrupt;
  env_.log.Warn(Context::Background(), "cache file is damaged, it is removed",
                {{"path", part ? PartPath(block) : WholePath(block)}, {"why", why}});
  env_.verified.Forget(block);
  env_.forget(block);
}

void CacheDir::Damaged(const BlockId& block, bool part, const std::string& why) {
  TellDamaged(block, part, why);
  if (auto removed = Clear(block); !removed) {
    env_.log.Warn(Context::Background(), "damaged cache file could not be removed",
                  {{"path", part ? PartPath(block) : WholePath(block)},
                   {"error", removed.error().message()}});
  }
}

void CacheDir::Unreadable(std::string_view what, const BlockId& block, bool part, int error) {
  const std::string path = part ? PartPath(block) : WholePath(block);
  // It may be there for others: wrong rights say nothing of the disk, nor that it is damaged.
  if (error == EACCES || error == EPERM) return Failed(what, path, error, Blame::kRights);
  if (IsNameError(error))
    return Damaged(block, part, ErrnoStatus(error, std::string(what)).message());
  if (!IsMediumError(error)) return Failed(what, path, error);
  Failed(what, path, error, Blame::kFile);
  // On a disk that still works, another file in its place will be elsewhere on it.
  if (usable()) Damaged(block, part, ErrnoStatus(error, "it cannot be read").message());
}

}  // namespace paddleop::volume::cache
