#include "volume/cache/internal/counters.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

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

// The mapped pages, for the handler of SIGBUS: the kernel sends it to who touches a page that
// cannot be read, or, once it was written back, not be made writable again.
std::array<std::atomic<char*>, 1024> guarded_pages;
struct sigaction handler_before;

void OnBusError(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const auto* touched = static_cast<const char*>(info->si_addr);
  for (const auto& guarded : guarded_pages) {
    char* page = guarded.load();
    if (info->si_code <= 0 || page == nullptr || touched < page || touched >= page + kPageSize)
      continue;
    if (::mmap(page, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) == MAP_FAILED) {
      break;
    }
    errno = error;
    return;
  }
  // Not ours: whoever was in charge before is told.
  ::sigaction(SIGBUS, &handler_before, nullptr);
  if (info->si_code <= 0) ::raise(signal);  // a fault comes again by itself
}

bool Guard(void* page) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigaction(SIGBUS, &action, &handler_before);
  });
  for (auto& guarded : guarded_pages) {
    char* free = nullptr;
    if (guarded.compare_exchange_strong(free, static_cast<char*>(page))) return true;
  }
  return false;
}

void Unguard(void* page) {
  for (auto& guarded : guarded_pages) {
    auto* ours = static_cast<char*>(page);
    if (guarded.compare_exchange_strong(ours, nullptr)) return;
  }
}

}  // namespace

SharedCounters::~SharedCounters() {
  if (page_ == nullptr) return;
  if (guarded_) Unguard(page_);
  ::munmap(page_, kPageSize);
}

bool SharedCounters::IsAt(const std::string& path) const {
  struct stat ours{}, named{};
  const bool lost = std::memcmp(page_->magic, kMagic, sizeof(kMagic)) != 0;
  return fd_.valid() && !lost && ::fstat(fd_.get(), &ours) == 0 &&
         ::stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
         ours.st_dev == named.st_dev;
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
  // Whether it can be read at all is better asked than tried.
  char content[kPageSize];
  const ssize_t got = ::pread(fd_.get(), content, sizeof content, 0);
  if (got < 0) return ErrnoFail("read {}", path);
  if (got != static_cast<ssize_t>(sizeof content))
    return Fail(Code::kUnavailable, "{} has only {} bytes", path, got);
  guarded_ = Guard(page_);
  if (!guarded_) return Fail(Code::kNoSpace, "too many cache directories are open");
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
  auto done = when_alone();
  // Others are let in, whatever came of it.
  if (::flock(fd_.get(), LOCK_SH) != 0) return ErrnoFail("lock {}", path);
  return done;
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
  if (counters->guarded_) return counters;  // mapped, and only cleaning up failed
  if (counters->page_ != nullptr) ::munmap(counters->page_, kPageSize);
  counters->fd_.Reset();
  void* own =
      ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED) return ErrnoFail("map memory for counters");
  counters->page_ = static_cast<CounterPage*>(own);
  return counters;
}

}  // namespace paddleop::volume::cache
