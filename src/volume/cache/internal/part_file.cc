#include "volume/cache/internal/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "volume/cache/internal/block_file.h"
#include "volume/cache/internal/walk.h"

namespace paddleop::volume::cache {
namespace {

constexpr char kMagic[8] = {'S', 'F', 'S', 'P', 'A', 'R', 'T', '1'};
constexpr std::size_t kBitmapAt = 64;
constexpr std::size_t kKeptPages = 1U << 20;  // of memory that a thread keeps between reads

constexpr std::size_t WholePages(std::size_t size) {
  return (size + kPageBytes - 1) / kPageBytes * kPageBytes;
}
bool IsAligned(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kPageBytes == 0;
}

bool ReadExactly(int fd, void* out, std::size_t size, std::uint64_t offset) {
  auto* at = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t n = ::pread(fd, at, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENODATA;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
    offset += static_cast<std::uint64_t>(n);
  }
  return true;
}

bool WriteExactly(int fd, const void* in, std::size_t size, std::uint64_t offset) {
  const auto* at = static_cast<const char*>(in);
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, at, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
    offset += static_cast<std::uint64_t>(n);
  }
  return true;
}

// Other writers wait; the kernel gives the lock back if the process dies.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() { ::flock(fd_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int fd_;
};

}  // namespace

PartFile::PartFile(UniqueFd fd, std::string path, std::uint32_t length)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      length_(length),
      pages_((length + kPageBytes - 1) / kPageBytes),
      header_at_(std::uint64_t{pages_} * kPageBytes) {}

std::uint32_t PartFile::PageLength(std::uint32_t page) const {
  return std::min(kPageBytes, length_ - page * kPageBytes);
}

PartFile::Outcome PartFile::Load() {
  std::vector<std::byte> header(kPageBytes);
  if (!ReadExactly(fd_.get(), header.data(), header.size(), header_at_)) {
    struct stat info{};
    if (errno == ENODATA && ::fstat(fd_.get(), &info) == 0)
      return info.st_size == 0 ? Outcome::kMissing : Outcome::kCorrupt;
    last_error_ = errno;
    return Outcome::kError;
  }
  std::uint32_t length = 0, pages = 0;
  std::memcpy(&length, header.data() + 8, 4);
  std::memcpy(&pages, header.data() + 12, 4);
  static constexpr char kNothing[8] = {};
  if (std::memcmp(header.data(), kNothing, 8) == 0) return Outcome::kMissing;  // being made
  if (std::memcmp(header.data(), kMagic, 8) != 0 || length != length_ || pages != pages_)
    return Outcome::kCorrupt;
  std::vector<std::uint32_t> checksums(pages_);
  if (!ReadExactly(fd_.get(), checksums.data(), std::size_t{pages_} * 4, header_at_ + kPageBytes)) {
    last_error_ = errno;
    return errno == ENODATA ? Outcome::kCorrupt : Outcome::kError;
  }
  bitmap_.resize((pages_ + 7) / 8);
  std::memcpy(bitmap_.data(), header.data() + kBitmapAt, bitmap_.size());
  checksums_ = std::move(checksums);
  return Outcome::kFound;
}

// By name once more; should it be another file's by now, pages are read the usual way.
void PartFile::OpenDirect() {
  UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));  // tmpfs refuses
  struct stat ours{}, theirs{};
  if (!fd.valid() || ::fstat(fd_.get(), &ours) != 0 || ::fstat(fd.get(), &theirs) != 0 ||
      ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev) {
    return;
  }
  direct_ = std::move(fd);
  // What wrote the file, or another reader, may have left a second copy in memory.
  ::posix_fadvise(direct_.get(), 0, static_cast<off_t>(header_at_), POSIX_FADV_DONTNEED);
}

PartFile::Opened PartFile::Open(const std::string& path, std::uint32_t length, bool direct,
                                Access access) {
  // Without waiting, should it be a pipe.
  const int mode = access == Access::kWrite ? O_RDWR : O_RDONLY;
  UniqueFd fd(::open(path.c_str(), mode | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    const int error = errno;
    if (error == ENOENT) return {};
    return {.file = nullptr, .outcome = Outcome::kError, .error = error};
  }
  if (!S_ISREG(info.st_mode)) return {.file = nullptr, .outcome = Outcome::kCorrupt};
  std::shared_ptr<PartFile> file(new PartFile(std::move(fd), path, length));
  MutexLock lock(file->mutex_);
  const Outcome outcome = file->Load();
  if (outcome != Outcome::kFound)
    return {.file = nullptr, .outcome = outcome, .error = file->last_error_};
  if (direct) file->OpenDirect();
  return {.file = file, .outcome = outcome};
}

Result<std::shared_ptr<PartFile>> PartFile::Create(const std::string& path, std::uint32_t length,
                                                   mode_t mode) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, mode));
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    const int error = errno;
    Status status = ErrnoStatus(error, "open " + path);
    if (IsNameError(error)) return Fail(Code::kCorrupt, "{}", status.message());
    return std::unexpected(std::move(status));
  }
  if (!S_ISREG(info.st_mode)) return Fail(Code::kCorrupt, "{} is no file", path);
  std::shared_ptr<PartFile> file(new PartFile(std::move(fd), path, length));
  MutexLock lock(file->mutex_);
  FileLock turn(file->fd());
  const Outcome outcome = file->Load();
  if (outcome == Outcome::kFound) return file;
  if (outcome == Outcome::kError) {
    Status status = ErrnoStatus(file->last_error_, "read " + path);
    // Never to be read again: as good as damaged.
    if (IsMediumError(file->last_error_)) return Fail(Code::kCorrupt, "{}", status.message());
    return std::unexpected(std::move(status));
  }
  if (outcome == Outcome::kCorrupt) return Fail(Code::kCorrupt, "{} is damaged", path);
  std::string head(kBitmapAt, '\0');
  std::memcpy(head.data(), kMagic, 8);
  std::memcpy(head.data() + 8, &file->length_, 4);
  std::memcpy(head.data() + 12, &file->pages_, 4);
  const std::uint64_t end = file->header_at_ + kPageBytes + std::uint64_t{file->pages_} * 4;
  if (::ftruncate(file->fd(), static_cast<off_t>(end)) != 0 ||
      !WriteExactly(file->fd(), head.data(), head.size(), file->header_at_)) {
    return ErrnoFail("write {}", path);
  }
  if (file->Load() != Outcome::kFound) return Fail(Code::kCorrupt, "{} is damaged", path);
  return file;
}

bool PartFile::Unlinked() const {
  struct stat info{};
  return ::fstat(fd_.get(), &info) != 0 || info.st_nlink == 0;
}

bool PartFile::Has(std::uint32_t first, std::uint32_t last) const {
  for (std::uint32_t page = first; page <= last; ++page) {
    if ((bitmap_[page / 8] >> (page % 8) & 1) == 0) return false;
  }
  return true;
}

std::uint64_t PartFile::Present() {
  MutexLock lock(mutex_);
  if (Load() != Outcome::kFound) return 0;
  std::uint64_t bytes = 0;
  for (std::uint32_t page = 0; page < pages_; ++page)
    bytes += Has(page, page) ? PageLength(page) : 0;
  return bytes;
}

PartFile::Outcome PartFile::Look(std::uint32_t first, std::uint32_t last) {
  MutexLock lock(mutex_);
  if (Has(first, last)) return Outcome::kFound;
  // Another process may have added pages since the bitmap was read.
  if (const Outcome outcome = Load(); outcome != Outcome::kFound) return outcome;
  return Has(first, last) ? Outcome::kFound : Outcome::kMissing;
}

bool PartFile::Contains(std::uint32_t offset, std::uint32_t size) {
  if (size == 0 || std::uint64_t{offset} + size > length_) return false;
  return Look(offset / kPageBytes, (offset + size - 1) / kPageBytes) == Outcome::kFound;
}

PartFile::Outcome PartFile::Check(std::uint32_t first, std::span<const std::byte> pages) {
  MutexLock lock(mutex_);
  for (std::uint32_t page = first; !pages.empty(); ++page) {
    const std::size_t size = std::min<std::size_t>(pages.size(), PageLength(page));
    if (Crc32c(AsText(pages.first(size))) != checksums_[page]) return Outcome::kCorrupt;
    pages = pages.subspan(size);
  }
  return Outcome::kFound;
}

// False if the usual way must be taken; it meets the same error, or works.
bool PartFile::ReadDirect(std::uint32_t first, std::span<std::byte> pages) {
  if (!direct_.valid() || !IsAligned(pages.data())) return false;
  // After the last page, which may be shorter, comes the table.
  const std::size_t size = WholePages(pages.size());
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::pread(direct_.get(), pages.data() + done, size - done,
                              static_cast<off_t>(std::uint64_t{first} * kPageBytes + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || n % kPageBytes != 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// Of `pages` the memory reaches to the end of the last one, if they are aligned.
PartFile::Outcome PartFile::ReadPages(std::uint32_t first, std::span<std::byte> pages) {
  if (!ReadDirect(first, pages) &&
      !ReadExactly(fd_.get(), pages.data(), pages.size(), std::uint64_t{first} * kPageBytes)) {
    last_error_ = errno;
    return errno == ENODATA ? Outcome::kCorrupt : Outcome::kError;
  }
  return Check(first, pages);
}

PartFile::Outcome PartFile::Read(std::uint32_t offset, std::span<std::byte> out) {
  const auto size = static_cast<std::uint32_t>(out.size());
  if (size == 0 || std::uint64_t{offset} + size > length_) return Outcome::kMissing;
  const std::uint32_t first = offset / kPageBytes, last = (offset + size - 1) / kPageBytes;
  if (const Outcome here = Look(first, last); here != Outcome::kFound) return here;
  const std::uint32_t begin = first * kPageBytes;
  const std::uint32_t end = last * kPageBytes + PageLength(last);
  const std::size_t rounded = WholePages(end - begin);
  bool in_place = begin == offset && end == offset + size;
  if (direct_.valid()) in_place = in_place && rounded == size && IsAligned(out.data());
  static thread_local AlignedBuffer kept;
  AlignedBuffer large;
  std::byte* memory = out.data();
  if (!in_place) memory = rounded <= kKeptPages ? kept.Get(kKeptPages) : large.Get(rounded);
  const std::span<std::byte> pages(memory, end - begin);
  Outcome outcome = ReadPages(first, pages);
  if (outcome == Outcome::kCorrupt) {
    {
      MutexLock lock(mutex_);
      if (Load() == Outcome::kFound && !Has(first, last)) return Outcome::kMissing;
    }
    outcome = ReadPages(first, pages);
  }
  if (outcome == Outcome::kFound && !in_place)
    std::memcpy(out.data(), memory + (offset - begin), out.size());
  return outcome;
}

void PartFile::LeaveMemory(std::uint32_t offset, std::size_t size) {
  ::sync_file_range(
      fd_.get(), offset, static_cast<off_t>(size),
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  ::posix_fadvise(fd_.get(), offset, static_cast<off_t>(size), POSIX_FADV_DONTNEED);
}

std::vector<bool> PartFile::Touched(std::span<const BlockFile::Span> spans) const {
  std::vector<bool> touched(pages_);
  for (const BlockFile::Span& span : spans) {
    const std::uint64_t end =
        std::min<std::uint64_t>(std::uint64_t{span.offset} + span.size, length_);
    for (std::uint64_t page = span.offset / kPageBytes; page * kPageBytes < end; ++page) {
      touched[page] = true;
    }
  }
  return touched;
}

bool PartFile::HasOutside(std::span<const BlockFile::Span> keep) {
  const std::vector<bool> touched = Touched(keep);
  struct stat info{};
  MutexLock lock(mutex_);
  if (Load() != Outcome::kFound || ::fstat(fd_.get(), &info) != 0) return false;
  std::uint64_t present = 0;
  for (std::uint32_t page = 0; page < pages_; ++page) {
    if (!Has(page, page)) continue;
    if (!touched[page]) return true;
    ++present;
  }
  // A trimmer was killed after it had cleared the bits.
  const std::uint64_t table = kPageBytes + (std::uint64_t{pages_} * 4 + kPageBytes - 1);
  return static_cast<std::uint64_t>(info.st_blocks) * 512 >
         present * kPageBytes + table + kPageBytes;
}

Result<void> PartFile::Trim(std::span<const BlockFile::Span> keep) {
  const std::vector<bool> touched = Touched(keep);
  MutexLock lock(mutex_);
  FileLock turn(fd_.get());
  if (const Outcome outcome = Load(); outcome != Outcome::kFound)
    return Fail(Code::kCorrupt, "{} is damaged", path_);
  for (std::uint32_t page = 0; page < pages_; ++page) {
    if (!touched[page]) bitmap_[page / 8] &= static_cast<std::uint8_t>(~(1U << (page % 8)));
  }
  if (!WriteExactly(fd_.get(), bitmap_.data(), bitmap_.size(), header_at_ + kBitmapAt))
    return ErrnoFail("write {}", path_);
  for (std::uint32_t page = 0; page < pages_;) {
    if (Has(page, page)) {
      ++page;
      continue;
    }
    const std::uint32_t first = page;
    while (page < pages_ && !Has(page, page)) ++page;
    if (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    off_t{first} * kPageBytes, off_t{page - first} * kPageBytes) != 0) {
      return ErrnoFail("free pages of {}", path_);
    }
  }
  return {};
}

Result<void> PartFile::Write(std::uint32_t offset, std::span<const std::byte> data) {
  const std::uint64_t end = std::uint64_t{offset} + data.size();
  if (end > length_) return Fail(Code::kInvalid, "range ends at {} of a block of {}", end, length_);
  const std::uint32_t first = (offset + kPageBytes - 1) / kPageBytes;
  const auto last = static_cast<std::uint32_t>(end == length_ ? pages_ : end / kPageBytes);
  if (first >= last) return {};
  MutexLock lock(mutex_);
  FileLock turn(fd_.get());
  if (const Outcome outcome = Load(); outcome != Outcome::kFound)
    return Fail(Code::kCorrupt, "{} is damaged", path_);
  for (std::uint32_t page = first; page < last; ++page) {
    if (Has(page, page)) continue;
    const std::uint32_t at = page * kPageBytes;
    checksums_[page] = Crc32c(AsText(data.subspan(at - offset, PageLength(page))));
  }
  const std::uint32_t begin = first * kPageBytes;
  const std::uint32_t finish = (last - 1) * kPageBytes + PageLength(last - 1);
  if (!WriteExactly(fd_.get(), data.data() + (begin - offset), finish - begin, begin) ||
      !WriteExactly(fd_.get(), checksums_.data() + first, std::size_t{last - first} * 4,
                    header_at_ + kPageBytes + std::uint64_t{first} * 4)) {
    return ErrnoFail("write {}", path_);
  }
  for (std::uint32_t page = first; page < last; ++page)
    bitmap_[page / 8] = static_cast<std::uint8_t>(bitmap_[page / 8] | 1U << (page % 8));
  if (!WriteExactly(fd_.get(), bitmap_.data(), bitmap_.size(), header_at_ + kBitmapAt))
    return ErrnoFail("write {}", path_);
  return {};
}

}  // namespace paddleop::volume::cache
