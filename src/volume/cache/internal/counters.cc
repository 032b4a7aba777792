#include "volume/cache/internal/counters.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace paddleop::volume::cache {
namespace {

constexpr char kMagic[8] = {'S', 'F', 'S', 'C', 'N', 'T', '0', '1'};
constexpr std::size_t kPageSize = 4096;

std::string BootId() {
  auto id = ReadFile("/proc/sys/kernel/random/boot_id", 256);
  if (!id) return "unknown";
  return id->substr(0, 36);
}

template <std::size_t N>
void SetText(char (&field)[N], std::string_view text) {
  std::memset(field, 0, N);
  text.copy(field, N - 1);
}
template <std::size_t N>
std::string_view Text(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

}  // namespace

SharedCounters::~SharedCounters() {
  if (page_ != nullptr) ::munmap(page_, kPageSize);
}

bool SharedCounters::IsAt(const std::string& path) const {
  struct stat ours{}, named{};
  return fd_.valid() && ::fstat(fd_.get(), &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

Result<void> SharedCounters::Prepare(const std::string& path, std::string_view uuid,
                                     const std::function<Result<void>()>& when_alone) {
  const bool alone = ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0;
  if (!alone && ::flock(fd_.get(), LOCK_SH) != 0) return ErrnoFail("lock {}", path);
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) return ErrnoFail("stat {}", path);
  const bool fresh = info.st_size < static_cast<off_t>(kPageSize);
  if (fresh) {
    // Written, not just extended: a mapped page without space behind it would kill the process.
    const std::string zeros(kPageSize, '\0');
    if (::pwrite(fd_.get(), zeros.data(), zeros.size(), 0) != static_cast<ssize_t>(zeros.size()))
      return ErrnoFail("write {}", path);
  }
  void* mapped = ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (mapped == MAP_FAILED) return ErrnoFail("map {}", path);
  page_ = static_cast<CounterPage*>(mapped);
  if (std::memcmp(page_->magic, kMagic, sizeof(kMagic)) != 0) {
    std::memset(mapped, 0, kPageSize);
    SetText(page_->uuid, uuid);
    SetText(page_->boot, BootId());
    std::memcpy(page_->magic, kMagic, sizeof(kMagic));
  }
  if (Text(page_->uuid) != uuid) {
    return Fail(Code::kInvalid,
                "{} says that this is the cache of volume {}, not of {}; use another directory, or "
                "remove it if it was copied",
                path, Text(page_->uuid), uuid);
  }
  const std::string boot = BootId();
  if (alone && (page_->in_flight.load() != 0 || Text(page_->boot) != boot)) {
    page_->in_flight = 0;
    page_->counted = 0;
    SetText(page_->boot, boot);
  }
  if (!alone) return {};
  RETURN_IF_ERROR(when_alone());
  if (::flock(fd_.get(), LOCK_SH) != 0) return ErrnoFail("lock {}", path);
  return {};
}

Result<std::unique_ptr<SharedCounters>> SharedCounters::Open(
    const std::string& path, std::string_view uuid,
    const std::function<Result<void>()>& when_alone) {
  std::unique_ptr<SharedCounters> counters(new SharedCounters());
  auto opened = OpenFile(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  Result<void> prepared;
  if (opened) {
    counters->fd_ = *std::move(opened);
    prepared = counters->Prepare(path, uuid, when_alone);
    if (prepared) return counters;
  } else {
    prepared = std::unexpected(std::move(opened).error());
  }
  if (prepared.error().code() != Code::kNoSpace) return std::unexpected(prepared.error());
  if (counters->page_ != nullptr) return counters;  // mapped, and only cleaning up failed
  counters->fd_.Reset();
  void* own =
      ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED) return ErrnoFail("map memory for counters");
  counters->page_ = static_cast<CounterPage*>(own);
  return counters;
}

}  // namespace paddleop::volume::cache
