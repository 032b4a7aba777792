#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {

// An open directory as programs list it: every entry once, however the directory changes meanwhile.
// An entry that is there all the time is listed; one that comes or goes may or may not be. Pages
// are read from the volume as the reader gets to them; what was listed is remembered (some 60 bytes
// and the name for each entry), so that a program may go back to an offset it was given.
//
// Thread-safe; readers of one stream take turns.
class DirStream {
 public:
  // How long attributes are given that somebody else may have changed: little beside the time for
  // which the kernel keeps them, and enough to ask for a whole page.
  static constexpr std::chrono::milliseconds kAttrsGood{100};

  // `changes` moves with every change that this process makes to the volume: attributes read before
  // one are not given after it. Both outlive this object.
  DirStream(MetaStore& meta, Caller caller, Ino ino, const std::atomic<std::uint64_t>& changes);

  // Takes the entry; `next` is the offset that follows it. False if there is no room for it: it is
  // given again next time.
  using EntryFn = std::function<bool(const DirEntry& entry, std::uint64_t next)>;

  // Gives entries from `offset` on until `fn` has no more room or the directory ends. Offset 0
  // begins afresh. "." and ".." are the first two, without attributes.
  Result<void> Read(const Context& ctx, std::uint64_t offset, bool with_attrs, const EntryFn& fn);

 private:
  struct Kept {
    std::string name;
    Ino ino;
    FileType type;
  };

  Result<void> NextPage(const Context& ctx, bool with_attrs) REQUIRES(mutex_);
  DirEntry EntryAt(std::size_t i) REQUIRES(mutex_);
  void DropOldAttrs() REQUIRES(mutex_);

  MetaStore& meta_;
  const Caller caller_;
  const Ino ino_;
  const std::atomic<std::uint64_t>& changes_;

  Mutex mutex_;
  std::deque<Kept> entries_ GUARDED_BY(mutex_);  // a deque: names_ refers into it
  std::unordered_set<std::string_view> names_ GUARDED_BY(mutex_);
  // Attributes of the last page, as long as they are good.
  std::size_t page_first_ GUARDED_BY(mutex_) = 0;
  std::vector<std::optional<Attr>> page_attrs_ GUARDED_BY(mutex_);
  std::uint64_t page_changes_ GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point page_read_ GUARDED_BY(mutex_);
  std::string cursor_ GUARDED_BY(mutex_);
  bool complete_ GUARDED_BY(mutex_) = false;
};

}  // namespace paddleop::volume
