#pragma once

#include <chrono>
#include <thread>

#include "base/context.h"
#include "base/log.h"
#include "base/mutex.h"
#include "volume/vfs/internal/open_files.h"

namespace paddleop::volume {

// Commits what has waited long enough, so that buffers come free although a program keeps its files
// open. Sleeps while nothing is dirty.
class BackgroundFlusher {
 public:
  BackgroundFlusher(OpenFiles& files, const Logger& log, const VfsOptions& options);
  ~BackgroundFlusher();

  // Something was written.
  void Wake();

 private:
  void Run(const std::stop_token& stop);
  // True if something is still dirty.
  bool FlushOld(const Context& ctx);

  OpenFiles& files_;
  const Logger& log_;
  const VfsOptions options_;
  Mutex mutex_;
  CondVar changed_;
  bool dirty_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace paddleop::volume
