#include "volume/data/internal/import_transfer.h"

#include <algorithm>
#include <cstring>

namespace paddleop::volume::data {
namespace {

constexpr std::size_t kMinBuffers = 3;
constexpr std::size_t kMaxBuffers = 256;
constexpr int kMaxAttempts = 5;
// So many reads in a row without an answer, each tried several times: the source is gone.
constexpr int kSourceGone = 16;
// With a bandwidth limit requests wait for their turn, and must not wait past their deadlines.
constexpr std::uint64_t kSecondsUnderWay = 15;

std::size_t BufferCount(const ImportOptions& options, const BlockLayout& layout) {
  return std::clamp<std::size_t>(options.buffer_bytes / layout.block_size, kMinBuffers,
                                 kMaxBuffers);
}

std::uint64_t BytesUnderWay(const Source& source) {
  if (source.bwlimit_mbps <= 0) return UINT64_MAX;
  return static_cast<std::uint64_t>(source.bwlimit_mbps) * 1'000'000 / 8 * kSecondsUnderWay;
}

}  // namespace

Result<void> InFlight::Enter(const Context& ctx, std::uint64_t bytes) {
  MutexLock lock(mutex_);
  left_.wait(lock, ctx.stop(), [&]() REQUIRES(mutex_) {
    return requests_ < max_requests_ &&
           (bytes_ == 0 || (bytes <= max_bytes_ && bytes_ <= max_bytes_ - bytes));
  });
  RETURN_IF_ERROR(ctx.Check());
  ++requests_;
  bytes_ += bytes;
  return {};
}

void InFlight::Leave(std::uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    --requests_;
    bytes_ -= bytes;
  }
  left_.notify_one();
}

Result<BlockBuffers::Buffer> BlockBuffers::Take(const Context& ctx) {
  MutexLock lock(mutex_);
  returned_.wait(lock, ctx.stop(), [&]() REQUIRES(mutex_) { return !free_.empty() || left_ > 0; });
  RETURN_IF_ERROR(ctx.Check());
  if (free_.empty()) {
    --left_;
    return std::make_unique_for_overwrite<std::byte[]>(block_size_);
  }
  Buffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void BlockBuffers::GiveBack(Buffer buffer) {
  {
    MutexLock lock(mutex_);
    free_.push_back(std::move(buffer));
  }
  returned_.notify_one();
}

// A pack on its way. Reads write into disjoint parts of the buffer; each sets its own member's
// `read` before it counts down `waiting`, which also counts the planner while the pack is open.
struct Transfer::Pack {
  struct Member {
    ImportItem item;
    std::uint32_t offset = 0;
    Result<object::GetResult> read = object::GetResult{};
  };
  BlockBuffers::Buffer buffer;
  std::deque<Member> members;  // addresses stay while it grows
  std::atomic<std::size_t> waiting{1};
};

struct Transfer::BigFile {
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  ImportItem item;
  std::vector<SliceKey> slices;  // of its chunks
  std::atomic<std::size_t> waiting{1};
  std::atomic<bool> failed{false};
  Mutex mutex;
  std::optional<Status> error GUARDED_BY(mutex);

  void Fail(Status status) {
    MutexLock lock(mutex);
    if (!error) error = std::move(status);
    failed = true;
  }
};

Transfer::Transfer(ImportState& state, ImportJournal* journal, Stored stored)
    : state_(state),
      journal_(journal),
      stored_(std::move(stored)),
      layout_(state.volume.setting().layout()),
      packing_(layout_.block_size),
      reading_(state.options.threads, BytesUnderWay(state.source)),
      buffers_(
          std::make_shared<BlockBuffers>(layout_.block_size, BufferCount(state.options, layout_))),
      uploads_({.name = "import-put",
                .threads = std::min<std::size_t>(BufferCount(state.options, layout_), 10),
                .queue_limit = kMaxBuffers + 1}) {}

Transfer::~Transfer() {
  Flush();
  MutexLock lock(mutex_);
  idle_.wait(lock, [this]() REQUIRES(mutex_) { return busy_ == 0; });
}

void Transfer::Begun() {
  MutexLock lock(mutex_);
  ++busy_;
}

void Transfer::Ended() {
  MutexLock lock(mutex_);
  --busy_;
  idle_.notify_all();
}

Result<void> Transfer::WaitIdle() {
  MutexLock lock(mutex_);
  idle_.wait(lock, state_.ctx().stop(), [this]() REQUIRES(mutex_) { return busy_ == 0; });
  return state_.ctx().Check();
}

std::vector<ImportItem> Transfer::TakeRetries() {
  MutexLock lock(mutex_);
  return std::exchange(retries_, {});
}

Result<void> Transfer::Add(ImportItem item) {
  RETURN_IF_ERROR(state_.ctx().Check());
  return packing_.Fits(item.size) ? AddSmall(std::move(item)) : AddBig(std::move(item));
}

Result<void> Transfer::OpenPack() {
  auto pack = std::make_shared<Pack>();
  ASSIGN_OR_RETURN(pack->buffer, buffers_->Take(state_.ctx()));
  packing_.Clear();
  Begun();
  open_ = std::move(pack);
  return {};
}

void Transfer::Flush() {
  if (open_) PackRead(std::exchange(open_, nullptr));
}

Result<void> Transfer::AddSmall(ImportItem item) {
  if (!open_) RETURN_IF_ERROR(OpenPack());
  // A file without data needs no room, but is committed with its neighbours.
  std::uint32_t offset = 0;
  if (item.size > 0 || open_->members.size() >= PackLayout::kMaxFiles) {
    auto place = item.size > 0 ? packing_.Add(item.size) : std::nullopt;
    if (!place || open_->members.size() >= PackLayout::kMaxFiles) {
      Flush();
      RETURN_IF_ERROR(OpenPack());
      if (item.size > 0) place = packing_.Add(item.size);
    }
    offset = place.value_or(0);
  }
  const std::shared_ptr<Pack> pack = open_;
  Pack::Member& member = pack->members.emplace_back(std::move(item), offset);
  const std::uint64_t size = member.item.size;
  if (size == 0) return {};
  if (auto entered = reading_.Enter(state_.ctx(), size); !entered) {
    member.read = std::unexpected(entered.error());
    return entered;
  }
  ++pack->waiting;
  state_.source.store->StartGet(state_.ctx(), member.item.key, {.if_match = member.item.etag},
                                std::span(pack->buffer.get() + offset, size),
                                [this, pack, &member, size](Result<object::GetResult> read) {
                                  member.read = std::move(read);
                                  reading_.Leave(size);
                                  PackRead(pack);
                                });
  return {};
}

void Transfer::PackRead(const std::shared_ptr<Pack>& pack) {
  if (--pack->waiting > 0) return;
  // There is room for as many tasks as there are buffers.
  (void)uploads_.TrySubmit([this, pack] {
    StorePack(*pack);
    Ended();
  });
}

void Transfer::NoteSourceAnswer(bool answered) {
  if (answered) {
    unanswered_ = 0;
  } else if (++unanswered_ == kSourceGone) {
    state_.Abort(Status(Code::kUnavailable,
                        fmt::format("{} does not answer any more; run the import again, it goes on "
                                    "where it stopped",
                                    state_.source.uri)));
  }
}

void Transfer::NotRead(ImportItem item, Status error) {
  const Code code = error.code();
  NoteSourceAnswer(code != Code::kUnavailable && code != Code::kDeadline);
  // kInvalid: the object has become longer than the buffer made for it.
  const bool changed = code == Code::kConflict || code == Code::kInvalid || code == Code::kNotFound;
  if (changed && ++item.attempts < kMaxAttempts) {
    ++state_.retried_files;
    MutexLock lock(mutex_);
    retries_.push_back(std::move(item));
    return;
  }
  state_.FileFailed(item, std::move(error));
}

NewFile Transfer::MakeFile(const ImportItem& item) const {
  const ImportOptions& options = state_.options;
  NewFile file;
  file.parent = item.parent;
  file.name = item.name;
  file.mode = static_cast<std::uint16_t>(0666 & ~options.caller.umask);
  file.uid = options.caller.uid;
  file.gid = options.caller.gid;
  if (options.perms && item.owner) {
    file.mode = item.owner->mode;
    file.uid = item.owner->uid;
    file.gid = item.owner->gid;
  }
  file.mtime = file.atime = item.mtime;
  file.length = item.size;
  return file;
}

Result<void> Transfer::StoreObject(const BlockId& block, std::span<const std::byte> content) {
  RETURN_IF_ERROR(state_.volume.blocks().WriteBlock(state_.ctx(), block, content));
  ++state_.uploaded_objects;
  state_.uploaded_bytes += content.size();
  if (state_.options.on_block) state_.options.on_block(block, content);
  return {};
}

void Transfer::StorePack(Pack& pack) {
  StoredFiles stored;
  std::vector<std::uint32_t> offsets;
  std::uint32_t filled = 0;  // up to here the buffer holds files, or zeros between them
  for (Pack::Member& member : pack.members) {
    const std::uint64_t size = member.item.size;
    if (!member.read) {
      NotRead(std::move(member.item), std::move(member.read).error());
      continue;
    }
    if (size > 0 && (member.read->size != size || member.read->object_size != size)) {
      Status error(Code::kConflict,
                   fmt::format("{} bytes were listed, {} were read", size, member.read->size));
      NotRead(std::move(member.item), std::move(error));
      continue;
    }
    NoteSourceAnswer(true);
    state_.read_bytes += size;
    if (size > 0) {
      std::memset(pack.buffer.get() + filled, 0, member.offset - filled);
      filled = static_cast<std::uint32_t>(member.offset + size);
    }
    stored.files.push_back(MakeFile(member.item));
    stored.items.push_back(std::move(member.item));
    offsets.push_back(member.offset);
  }
  pack.members.clear();
  const auto store = [&]() -> Result<void> {
    if (filled == 0) return {};
    ASSIGN_OR_RETURN(const std::uint64_t id, state_.volume.meta().NewSliceId(state_.ctx()));
    const SliceKey slice{.id = id, .size = filled};
    stored.slices.push_back(slice);
    if (journal_ != nullptr) RETURN_IF_ERROR(journal_->Begin(slice));
    RETURN_IF_ERROR(
        StoreObject({.slice = id, .index = 0, .length = filled}, {pack.buffer.get(), filled}));
    for (std::size_t i = 0; i < stored.files.size(); ++i) {
      const auto length = static_cast<std::uint32_t>(stored.items[i].size);
      if (length == 0) continue;
      stored.files[i].chunks.push_back(
          {.index = 0,
           .slices = {{.pos = 0, .id = id, .size = filled, .off = offsets[i], .len = length}}});
    }
    return {};
  };
  auto done = store();
  buffers_->GiveBack(std::move(pack.buffer));
  if (!done) return state_.Abort(std::move(done).error().Wrap("store data in the volume"));
  if (!stored.files.empty()) stored_(std::move(stored));
}

Result<void> Transfer::AddBig(ImportItem item) {
  Flush();  // keeps the order of the source, and no buffer waits for the end of a big file
  if (item.size > kMaxFileSize) {
    state_.FileFailed(item, Status(Code::kInvalid, fmt::format("{} bytes: a file has at most {}",
                                                               item.size, kMaxFileSize)));
    return {};
  }
  auto file = std::make_shared<BigFile>();
  file->item = std::move(item);
  Begun();
  const auto start = [&]() -> Result<void> {
    for (std::uint64_t offset = 0; offset < file->item.size && !file->failed;) {
      const std::uint64_t in_chunk = offset % kChunkSize;
      const std::uint64_t chunk_size = std::min(kChunkSize, file->item.size - (offset - in_chunk));
      if (in_chunk == 0) {
        ASSIGN_OR_RETURN(const std::uint64_t id, state_.volume.meta().NewSliceId(state_.ctx()));
        file->slices.push_back({.id = id, .size = static_cast<std::uint32_t>(chunk_size)});
        if (journal_ != nullptr) RETURN_IF_ERROR(journal_->Begin(file->slices.back()));
      }
      const auto index = static_cast<std::uint32_t>(in_chunk / layout_.block_size);
      const SliceKey& slice = file->slices.back();
      const BlockId block{
          .slice = slice.id, .index = index, .length = BlockLength(layout_, slice.size, index)};
      RETURN_IF_ERROR(StartBlock(file, offset, block));
      offset += block.length;
    }
    return {};
  };
  auto started = start();
  if (!started) {
    file->Fail(started.error());
    if (!state_.aborted()) state_.Abort(started.error().Wrap("prepare to store data"));
  }
  if (--file->waiting == 0) FinishBig(*file);
  return started;
}

Result<void> Transfer::StartBlock(const std::shared_ptr<BigFile>& file, std::uint64_t offset,
                                  const BlockId& block) {
  ASSIGN_OR_RETURN(auto taken, buffers_->Take(state_.ctx()));
  std::shared_ptr<std::byte[]> buffer(taken.release(), [buffers = buffers_](std::byte* bytes) {
    buffers->GiveBack(BlockBuffers::Buffer(bytes));
  });
  RETURN_IF_ERROR(reading_.Enter(state_.ctx(), block.length));
  ++file->waiting;
  const std::span out(buffer.get(), block.length);
  state_.source.store->StartGet(
      state_.ctx(), file->item.key,
      {.range = {.offset = offset, .length = block.length}, .if_match = file->item.etag}, out,
      [this, file, block, buffer, out](Result<object::GetResult> read) {
        reading_.Leave(block.length);
        const bool whole = read && read->size == block.length &&
                           (read->object_size == 0 || read->object_size == file->item.size);
        if (!read) {
          file->Fail(std::move(read).error());
        } else if (!file->failed && !whole) {
          file->Fail(Status(Code::kConflict, fmt::format("{} bytes were listed, there are {}",
                                                         file->item.size, read->object_size)));
        }
        (void)uploads_.TrySubmit([this, file, block, buffer, out] {
          if (!file->failed) StoreBlock(*file, block, out);
          if (--file->waiting == 0) FinishBig(*file);
        });
      });
  return {};
}

void Transfer::StoreBlock(BigFile& file, const BlockId& block, std::span<const std::byte> content) {
  NoteSourceAnswer(true);
  state_.read_bytes += content.size();
  auto done = StoreObject(block, content);
  if (done) return;
  file.Fail(done.error());
  state_.Abort(std::move(done).error().Wrap("store data in the volume"));
}

// The blocks of a file that took long to store are still there.
Result<void> Transfer::Recheck(const BigFile& file) {
  if (std::chrono::steady_clock::now() - file.begun < state_.options.recheck_after) return {};
  for (const SliceKey& slice : file.slices) {
    for (std::uint32_t index = 0; index < BlockCount(layout_, slice.size); ++index) {
      const BlockId block = state_.volume.blocks().BlockOf(slice, index);
      auto found = state_.volume.objects().Head(state_.ctx(), BlockKey(layout_, block));
      if (found) continue;
      if (!IsNotFound(found.error())) return std::unexpected(std::move(found).error());
      return Fail(Code::kConflict,
                  "its data was deleted from the volume's store before it was complete (a garbage "
                  "collection at the same time?)");
    }
  }
  return {};
}

void Transfer::FinishBig(BigFile& file) {
  if (!file.failed) {
    if (auto there = Recheck(file); !there) file.Fail(std::move(there).error());
  }
  std::optional<Status> error;
  {
    MutexLock lock(file.mutex);
    error = file.error;
  }
  if (error) {
    if (!state_.aborted()) {
      for (const SliceKey& slice : file.slices) {
        auto gone = state_.volume.blocks().DeleteSlice(state_.ctx(), slice);
        if (gone && journal_ != nullptr) gone = journal_->End(slice);
        if (!gone) {
          state_.log.Warn(state_.ctx(), "objects of a file that changed stay until the next import",
                          {{"slice", slice.id}, {"error", gone.error().message()}});
        }
      }
    }
    NotRead(std::move(file.item), *std::move(error));
    return Ended();
  }
  StoredFiles stored;
  NewFile made = MakeFile(file.item);
  for (std::size_t i = 0; i < file.slices.size(); ++i) {
    const SliceKey& slice = file.slices[i];
    made.chunks.push_back(
        {.index = static_cast<std::uint32_t>(i),
         .slices = {{.pos = 0, .id = slice.id, .size = slice.size, .off = 0, .len = slice.size}}});
  }
  stored.slices = std::move(file.slices);
  stored.files.push_back(std::move(made));
  stored.items.push_back(std::move(file.item));
  stored_(std::move(stored));
  Ended();
}

}  // namespace paddleop::volume::data
