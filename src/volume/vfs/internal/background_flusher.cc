#include "volume/vfs/internal/background_flusher.h"

#include <algorithm>

#include "base/thread_pool.h"

namespace paddleop::volume {

BackgroundFlusher::BackgroundFlusher(OpenFiles& files, const Logger& log, const VfsOptions& options)
    : files_(files), log_(log), options_(options), thread_([this](const std::stop_token& stop) {
        SetThreadName("vfs-flush");
        Run(stop);
      }) {}

BackgroundFlusher::~BackgroundFlusher() = default;

void BackgroundFlusher::Wake() {
  MutexLock lock(mutex_);
  if (dirty_) return;
  dirty_ = true;
  changed_.notify_all();
}

bool BackgroundFlusher::FlushOld(const Context& ctx) {
  const auto now = std::chrono::steady_clock::now();
  bool dirty = false;
  for (const auto& file : files_.Files()) {
    if (!file->writer.Dirty()) continue;
    const bool due = now - file->writer.OldestWrite() >= options_.flush_age ||
                     now - file->writer.LastWrite() >= options_.flush_idle;
    if (!due) {
      dirty = true;
      continue;
    }
    // A writer may wait for buffers that files after this one hold, and an upload may be stuck:
    // nobody waits for them here. What is on its way is committed by a later round.
    const std::uint64_t losses = file->writer.losses();
    auto flushed = file->writer.FlushIdle(ctx.WithTimeout(options_.io_timeout));
    dirty = dirty || file->writer.Dirty();
    if (flushed || ctx.Stopped()) continue;
    if (file->writer.losses() != losses) {
      log_.Error(ctx, "written data was lost",
                 {{"inode", ToInt(file->ino)}, {"error", flushed.error().message()}});
    } else {
      log_.Warn(ctx, "written data cannot be stored now",
                {{"inode", ToInt(file->ino)}, {"error", flushed.error().message()}});
    }
  }
  return dirty;
}

void BackgroundFlusher::Run(const std::stop_token& stop) {
  const Context ctx = Context::Background().WithStop(stop);
  const auto interval = std::max(std::chrono::milliseconds(10), options_.flush_idle / 4);
  while (!stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      if (!changed_.wait(lock, stop, [&]() REQUIRES(mutex_) { return dirty_; })) return;
    }
    if (!Clock::System().SleepFor(ctx, interval)) return;
    {
      MutexLock lock(mutex_);
      dirty_ = false;
    }
    if (FlushOld(ctx)) Wake();
  }
}

}  // namespace paddleop::volume
