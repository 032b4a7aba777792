#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "volume/format/types.h"

namespace paddleop::volume {

// What readers see of a file's chunks, by the records as last read, so that reading on costs no
// round trip and lays no records over one another again. Dropped when the file is known to have
// changed. Thread-safe.
class SliceViews {
 public:
  // The pieces of a whole chunk in order, without gaps (BuildChunkView).
  using View = std::shared_ptr<const std::vector<Slice>>;

  View Find(std::uint32_t index) const {
    MutexLock lock(mutex_);
    const auto found = chunks_.find(index);
    return found == chunks_.end() ? nullptr : found->second;
  }
  // `version` is what Version() said before the records were read: they are not kept if the file
  // has changed meanwhile.
  void Put(std::uint32_t index, View view, std::uint64_t version) {
    MutexLock lock(mutex_);
    if (version != version_) return;
    if (chunks_.size() >= kMaxChunks) chunks_.clear();
    chunks_[index] = std::move(view);
  }
  std::uint64_t Version() const {
    MutexLock lock(mutex_);
    return version_;
  }
  void Clear() {
    MutexLock lock(mutex_);
    chunks_.clear();
    ++version_;
  }

 private:
  static constexpr std::size_t kMaxChunks = 1024;  // 64 GiB of file

  mutable Mutex mutex_;
  std::map<std::uint32_t, View> chunks_ GUARDED_BY(mutex_);
  std::uint64_t version_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paddleop::volume
