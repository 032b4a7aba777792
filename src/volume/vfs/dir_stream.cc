#include "volume/vfs/dir_stream.h"

#include <utility>

namespace paddleop::volume {
namespace {

constexpr std::size_t kPage = 1000;
constexpr std::uint64_t kDots = 2;  // "." and ".." come first

}  // namespace

DirStream::DirStream(MetaStore& meta, Caller caller, Ino ino,
                     const std::atomic<std::uint64_t>& changes)
    : meta_(meta), caller_(std::move(caller)), ino_(ino), changes_(changes) {}

Result<void> DirStream::NextPage(const Context& ctx, bool with_attrs) {
  const bool first = entries_.empty() && cursor_.empty();
  page_changes_ = changes_.load();
  page_read_ = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(DirPage page, meta_.ReadDir(ctx, caller_, ino_, cursor_, kPage, with_attrs));
  cursor_ = std::move(page.next);
  complete_ = cursor_.empty();
  page_first_ = entries_.size();
  page_attrs_.clear();
  for (DirEntry& entry : page.entries) {
    // Engines that scan may give an entry on two pages. A directory of one page needs no check.
    if (!(first && complete_) && names_.contains(entry.name)) continue;
    entries_.push_back({std::move(entry.name), entry.ino, entry.type});
    if (!(first && complete_)) names_.insert(entries_.back().name);
    page_attrs_.push_back(std::move(entry.attr));
  }
  return {};
}

// The kernel believes a listing as it believes an answer about each file: a name that was removed
// after the page was read would come back, and a file that has grown would shrink.
void DirStream::DropOldAttrs() {
  const bool good = page_changes_ == changes_.load() &&
                    std::chrono::steady_clock::now() - page_read_ < kAttrsGood;
  if (!good) page_attrs_.clear();
}

DirEntry DirStream::EntryAt(std::size_t i) {
  const Kept& kept = entries_[i];
  DirEntry entry{.name = kept.name, .ino = kept.ino, .type = kept.type};
  if (i >= page_first_ && i - page_first_ < page_attrs_.size())
    entry.attr = page_attrs_[i - page_first_];
  return entry;
}

Result<void> DirStream::Read(const Context& ctx, std::uint64_t offset, bool with_attrs,
                             const EntryFn& fn) {
  MutexLock lock(mutex_);
  DropOldAttrs();
  if (offset == 0) {
    names_.clear();
    entries_.clear();
    page_attrs_.clear();
    page_first_ = 0;
    cursor_.clear();
    complete_ = false;
  }
  for (; offset < kDots; ++offset) {
    Ino ino = ino_;
    if (offset == 1 && ino_ != kRootIno) {
      ASSIGN_OR_RETURN(const Attr attr, meta_.GetAttr(ctx, ino_));
      ino = attr.parent;
    }
    const DirEntry dot{
        .name = offset == 0 ? "." : "..", .ino = ino, .type = FileType::kDirectory, .attr = {}};
    if (!fn(dot, offset + 1)) return {};
  }
  for (std::size_t i = offset - kDots;; ++i) {
    while (i >= entries_.size() && !complete_) RETURN_IF_ERROR(NextPage(ctx, with_attrs));
    if (i >= entries_.size()) return {};
    if (!fn(EntryAt(i), i + kDots + 1)) return {};
  }
}

}  // namespace paddleop::volume
