// Taking turns with other processes.
#include <sys/file.h>

#include <cerrno>

#include "volume/cache/internal/cache_dir.h"

namespace paddleop::volume::cache {
namespace {

using Steady = std::chrono::steady_clock;

// How long what was not to be had is not asked for again.
constexpr auto kLockedPause = std::chrono::seconds(5);

}  // namespace

bool CacheDir::LockedOut() const {
  MutexLock lock(lock_mutex_);
  return locked_at_ && env_.options.clock->Now() < *locked_at_ + kLockedPause;
}

CacheDir::Turn::Turn(CacheDir& dir) : dir_(dir) {
  // Never held across more than a batch of removals: whoever has it for longer is stopped or stuck.
  std::chrono::milliseconds patience = dir_.env_.options.lock_patience;
  const bool locked_out = dir_.LockedOut();
  {
    MutexLock lock(dir_.lock_mutex_);
    if (dir_.locked_at_) patience = locked_out ? std::chrono::milliseconds(0) : patience / 10;
  }
  const auto deadline = Steady::now() + patience;
  if (!Queue(deadline)) return;
  held_ = LockFile(deadline);
  MutexLock lock(dir_.lock_mutex_);
  if (held_) {
    dir_.locked_at_.reset();
  } else if (!locked_out) {
    dir_.locked_at_ = dir_.env_.options.clock->Now();
  }
}

// Waits for our own threads.
bool CacheDir::Turn::Queue(Steady::time_point deadline) {
  MutexLock lock(dir_.lock_mutex_);
  const auto known = dir_.locked_at_;
  // Whoever was first finds out for all who wait.
  dir_.turn_ended_.wait_until(lock, deadline, [&]() REQUIRES(dir_.lock_mutex_) {
    return !dir_.turn_taken_ || (dir_.locked_at_ && dir_.locked_at_ != known);
  });
  if (dir_.turn_taken_ || (dir_.locked_at_ && dir_.locked_at_ != known)) return false;
  taken_ = dir_.turn_taken_ = true;
  file_ = dir_.lock_file_;
  return true;
}

bool CacheDir::Turn::LockFile(Steady::time_point deadline) {
  while (file_) {
    if (::flock(file_->get(), LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (Steady::now() >= deadline) return false;
    Clock::System().SleepFor(Context::Background(), std::chrono::milliseconds(1));
  }
  return false;
}

CacheDir::Turn::~Turn() {
  if (held_) ::flock(file_->get(), LOCK_UN);
  if (!taken_) return;
  {
    MutexLock lock(dir_.lock_mutex_);
    dir_.turn_taken_ = false;
  }
  dir_.turn_ended_.notify_all();
}

}  // namespace paddleop::volume::cache
