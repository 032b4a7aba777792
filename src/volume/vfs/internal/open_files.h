#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "volume/vfs/internal/file_reader.h"
#include "volume/vfs/internal/file_writer.h"
#include "volume/vfs/internal/slice_views.h"
#include "volume/vfs/vfs.h"

namespace paddleop::volume {

// What the handles of one file share.
struct FileState {
  // Of a file that nobody has asked the volume about yet.
  FileState(MetaStore& meta, BlockStore& blocks, const Logger& log,
            std::atomic<std::uint64_t>& losses, Ino number)
      : ino(number), writer(meta, blocks, views, log, losses, number, 0) {}

  const Ino ino;
  SliceViews views;
  FileWriter writer;

  Mutex mutex;
  // When the views were last known to be right. Both, since programs may set the first one back.
  Timestamp mtime GUARDED_BY(mutex);
  Timestamp ctime GUARDED_BY(mutex);
  std::chrono::steady_clock::time_point attr_read GUARDED_BY(mutex) =
      std::chrono::steady_clock::now();
};

struct OpenHandle {
  // Who opens the file now is not told of what was lost before.
  OpenHandle(std::shared_ptr<FileState> state, OpenFlags how, std::unique_ptr<FileReader> reads)
      : file(std::move(state)),
        flags(how),
        reader(std::move(reads)),
        losses_seen(file->writer.losses()) {}

  const std::shared_ptr<FileState> file;
  const OpenFlags flags;
  const std::unique_ptr<FileReader> reader;
  std::atomic<std::uint64_t> losses_seen;  // of those that this handle has been told of
};

// The tables of open handles and files. Thread-safe.
class OpenFiles {
 public:
  // The state of the file, made by `make` for its first handle. Forget() is its counterpart.
  template <class Make>
  std::shared_ptr<FileState> Retain(Ino ino, Make make) {
    MutexLock lock(mutex_);
    auto& slot = files_[ino];
    if (slot.handles++ == 0) slot.file = make();
    return slot.file;
  }

  Handle Add(std::shared_ptr<OpenHandle> open) {
    MutexLock lock(mutex_);
    const Handle handle{++last_handle_};
    ++files_[open->file->ino].open;
    handles_.emplace(handle, std::move(open));
    return handle;
  }

  // Null if there is no such handle.
  std::shared_ptr<OpenHandle> Find(Handle handle) const {
    MutexLock lock(mutex_);
    const auto found = handles_.find(handle);
    return found == handles_.end() ? nullptr : found->second;
  }

  std::shared_ptr<FileState> FindFile(Ino ino) const {
    MutexLock lock(mutex_);
    const auto found = files_.find(ino);
    return found == files_.end() ? nullptr : found->second.file;
  }

  std::shared_ptr<OpenHandle> Remove(Handle handle) {
    MutexLock lock(mutex_);
    const auto found = handles_.find(handle);
    if (found == handles_.end()) return nullptr;
    auto open = std::move(found->second);
    handles_.erase(found);
    --files_[open->file->ino].open;
    return open;
  }

  // Whether somebody has a handle on the file, and is not only about to get one or to give it back.
  bool HasHandle(Ino ino) const {
    MutexLock lock(mutex_);
    const auto found = files_.find(ino);
    return found != files_.end() && found->second.open > 0;
  }

  // The end of a handle, once the file is flushed, or of an attempt to open one. True if it was the
  // file's last.
  bool Forget(Ino ino) {
    MutexLock lock(mutex_);
    const auto found = files_.find(ino);
    if (found == files_.end() || --found->second.handles > 0) return false;
    files_.erase(found);
    return true;
  }

  std::vector<std::shared_ptr<OpenHandle>> Handles() const {
    MutexLock lock(mutex_);
    std::vector<std::shared_ptr<OpenHandle>> all;
    all.reserve(handles_.size());
    for (const auto& [handle, open] : handles_) all.push_back(open);
    return all;
  }

  std::vector<std::shared_ptr<FileState>> Files() const {
    MutexLock lock(mutex_);
    std::vector<std::shared_ptr<FileState>> all;
    all.reserve(files_.size());
    for (const auto& [ino, slot] : files_) all.push_back(slot.file);
    return all;
  }

 private:
  struct Slot {
    std::shared_ptr<FileState> file;
    std::size_t handles = 0;  // to come and on their way out, too
    std::size_t open = 0;
  };

  mutable Mutex mutex_;
  std::uint64_t last_handle_ GUARDED_BY(mutex_) = 0;
  std::map<Handle, std::shared_ptr<OpenHandle>> handles_ GUARDED_BY(mutex_);
  std::map<Ino, Slot> files_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
