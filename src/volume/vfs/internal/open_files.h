#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "volume/vfs/internal/file_reader.h"
#include "volume/vfs/internal/file_writer.h"
#include "volume/vfs/internal/slice_views.h"
#include "volume/vfs/vfs.h"

namespace paddleop::volume {

// What the handles of one file share.
struct FileState {
  FileState(MetaStore& meta, BlockStore& blocks, const Logger& log, Ino number, const Attr& attr)
      : ino(number), writer(meta, blocks, log, number, attr.length), mtime(attr.mtime) {}

  const Ino ino;
  SliceViews views;
  FileWriter writer;

  Mutex mutex;
  Timestamp mtime GUARDED_BY(mutex);  // when the views were last known to be right
  std::chrono::steady_clock::time_point attr_read GUARDED_BY(mutex) =
      std::chrono::steady_clock::now();
};

struct OpenHandle {
  std::shared_ptr<FileState> file;
  OpenFlags flags;
  std::unique_ptr<FileReader> reader;
};

// The tables of open handles and files. Thread-safe.
class OpenFiles {
 public:
  // The state of the file, made by `make` for its first handle.
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
    return open;
  }

  // The counterpart of Retain, once the file is flushed.
  void Forget(Ino ino) {
    MutexLock lock(mutex_);
    const auto found = files_.find(ino);
    if (found != files_.end() && --found->second.handles == 0) files_.erase(found);
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
    std::size_t handles = 0;
  };

  mutable Mutex mutex_;
  std::uint64_t last_handle_ GUARDED_BY(mutex_) = 0;
  std::map<Handle, std::shared_ptr<OpenHandle>> handles_ GUARDED_BY(mutex_);
  std::map<Ino, Slot> files_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
