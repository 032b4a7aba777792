#include "volume/vfs/internal/file_writer.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/backoff.h"
#include "volume/format/chunk_view.h"

namespace paddleop::volume {
namespace {

// Whether a commit that failed like this may be tried again later. The metadata may refuse for as
// long as its disk is full or its primary is away, long before the caller's time is up.
bool MetadataMayPassLater(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadline ||
         status.code() == Code::kCancelled;
}

}  // namespace

using SteadyTime = std::chrono::steady_clock::time_point;

struct FileWriter::Pending {
  Pending(BlockStore& blocks, std::uint64_t id, std::uint32_t chunk, std::uint32_t at)
      : writer(blocks, id), index(chunk), pos(at), started(std::chrono::steady_clock::now()) {}

  SliceWriter writer;
  const std::uint32_t index;  // of the chunk
  const std::uint32_t pos;    // of the slice in the chunk
  const SteadyTime started;
  // The rest is guarded by FileWriter::mutex_.
  SteadyTime last_write = started;
  std::uint64_t end = 0;  // in the file, of what was written to it
  Timestamp mtime;        // of the last write
  bool busy = false;      // a thread is writing into it
  bool frozen = false;    // a flush has taken it
  // Of whoever flushes: the commit may or may not have happened.
  bool unclear = false;
};

FileWriter::FileWriter(MetaStore& meta, BlockStore& blocks, SliceViews& views, const Logger& log,
                       std::atomic<std::uint64_t>& all_losses, Ino ino, std::uint64_t length)
    : meta_(meta),
      blocks_(blocks),
      views_(views),
      log_(log),
      all_losses_(all_losses),
      ino_(ino),
      length_(length) {}

FileWriter::Question FileWriter::Ask() {
  MutexLock lock(mutex_);
  return {.version = version_, .cuts = cuts_, .number = ++questions_};
}

bool FileWriter::LearnLength(std::uint64_t length, const Question& question) {
  MutexLock lock(mutex_);
  if (question.number <= answered_) return true;
  if (question.cuts != cuts_) return false;
  answered_ = question.number;
  for (const auto& pending : pending_) length = std::max(length, pending->end);
  if (question.version == version_) {
    length_.store(length);
    return true;
  }
  // It may not know of what was committed meanwhile, and so not take anything back.
  ExtendTo(length);
  return false;
}

void FileWriter::ExtendTo(std::uint64_t end) {
  std::uint64_t now = length_.load();
  while (now < end && !length_.compare_exchange_weak(now, end)) {
  }
}

bool FileWriter::LearnFirstLength(std::uint64_t length) {
  MutexLock lock(mutex_);
  if (version_ > 0 || questions_ > 0 || !pending_.empty()) return false;
  answered_ = ++questions_;
  length_.store(length);
  return true;
}

bool FileWriter::SetLength(std::uint64_t length, const Question& question) {
  MutexLock lock(mutex_);
  ++version_;
  ++cuts_;
  if (question.number <= answered_) return false;
  answered_ = question.number;
  length_.store(length);
  return true;
}

bool FileWriter::Dirty() const {
  MutexLock lock(mutex_);
  return !pending_.empty();
}

std::optional<Timestamp> FileWriter::UncommittedTime() const {
  MutexLock lock(mutex_);
  Timestamp last;
  for (const auto& pending : pending_) last = std::max(last, pending->mtime);
  if (last == Timestamp{}) return std::nullopt;
  return std::max(last, committed_mtime_);  // as it will be committed
}

SteadyTime FileWriter::OldestWrite() const {
  MutexLock lock(mutex_);
  return pending_.empty() ? SteadyTime::max() : pending_.front()->started;
}

SteadyTime FileWriter::LastWrite() const {
  MutexLock lock(mutex_);
  SteadyTime last = SteadyTime::min();
  for (const auto& pending : pending_) last = std::max(last, pending->last_write);
  return last;
}

// The slice that takes these bytes: an open one of the chunk that they continue, or a new one. It
// comes back busy.
Result<std::shared_ptr<FileWriter::Pending>> FileWriter::PendingFor(const Context& ctx,
                                                                    std::uint32_t index,
                                                                    std::uint32_t pos,
                                                                    std::uint32_t size) {
  {
    MutexLock lock(mutex_);
    // Only as long as no later slice covers the bytes: it would hide them after the commit.
    for (const auto& pending : std::views::reverse(pending_)) {
      Pending& p = *pending;
      if (p.index != index) continue;
      const std::uint64_t end = std::uint64_t{p.pos} + p.writer.size();
      if (!p.frozen && pos >= p.pos && p.writer.CanWrite(pos - p.pos, size)) {
        p.busy = true;
        return pending;
      }
      if (pos < end && p.pos < std::uint64_t{pos} + size) break;
    }
  }
  ASSIGN_OR_RETURN(const std::uint64_t id, meta_.NewSliceId(ctx));
  auto fresh = std::make_shared<Pending>(blocks_, id, index, pos);
  fresh->busy = true;
  MutexLock lock(mutex_);
  pending_.push_back(fresh);
  return fresh;
}

Result<std::size_t> FileWriter::WriteSome(const Context& ctx, std::uint32_t index,
                                          std::uint32_t pos, std::span<const std::byte> data) {
  ASSIGN_OR_RETURN(auto pending,
                   PendingFor(ctx, index, pos, static_cast<std::uint32_t>(data.size())));
  auto written = pending->writer.Write(ctx, pos - pending->pos, data);
  if (written && *written < data.size()) {
    // Every buffer is a writer's that waits for more. What this one has leaves early.
    if (auto sealed = pending->writer.Seal(ctx); !sealed)
      written = std::unexpected(std::move(sealed).error());
  }
  MutexLock lock(mutex_);
  pending->busy = false;
  pending->last_write = std::chrono::steady_clock::now();
  pending->mtime = Timestamp::From(std::chrono::system_clock::now());
  pending->end = std::uint64_t{index} * kChunkSize + pending->pos + pending->writer.size();
  // A slice nobody got a byte into is not worth a commit.
  if (pending->writer.size() == 0) std::erase(pending_, pending);
  changed_.notify_all();
  return written;
}

Result<void> FileWriter::WritePiece(const Context& ctx, std::uint32_t index, std::uint32_t pos,
                                    std::span<const std::byte> data) {
  while (!data.empty()) {
    ASSIGN_OR_RETURN(const std::size_t written, WriteSome(ctx, index, pos, data));
    pos += static_cast<std::uint32_t>(written);
    data = data.subspan(written);
  }
  return {};
}

Result<void> FileWriter::Write(const Context& ctx, std::uint64_t offset,
                               std::span<const std::byte> data) {
  MutexLock writing(write_mutex_);
  // From here on everybody is told a length that knows of what is pending.
  RETURN_IF_ERROR(SettleLength(ctx));
  return WriteAt(ctx, offset, data);
}

Result<void> FileWriter::Append(const Context& ctx, std::span<const std::byte> data) {
  MutexLock writing(write_mutex_);
  RETURN_IF_ERROR(SettleLength(ctx));
  return WriteAt(ctx, length_.load(), data);
}

Result<void> FileWriter::WriteAt(const Context& ctx, std::uint64_t offset,
                                 std::span<const std::byte> data) {
  if (offset + data.size() > kMaxFileSize)
    return Fail(Code::kInvalid, "a file cannot be larger than 2^57 bytes");
  Result<void> result;
  ForEachChunk(offset, data.size(), [&](std::uint32_t index, std::uint32_t pos, std::uint32_t len) {
    if (!result) return;
    const std::uint64_t at = std::uint64_t{index} * kChunkSize + pos - offset;
    result = WritePiece(ctx, index, pos, data.subspan(at, len));
  });
  if (result) ExtendTo(offset + data.size());
  return result;
}

Result<bool> FileWriter::IsCommitted(const Context& ctx, Backoff& backoff, const Pending& pending) {
  for (;;) {
    auto stored = meta_.ReadSlices(ctx, ino_, pending.index);
    if (stored) {
      const std::uint64_t id = pending.writer.id();
      return std::ranges::any_of(*stored, [&](const Slice& slice) { return slice.id == id; });
    }
    if (stored.error().code() != Code::kUnavailable || !backoff.Sleep(ctx))
      return std::unexpected(std::move(stored).error());
  }
}

Result<void> FileWriter::Commit(const Context& ctx, Pending& pending, bool& keep) {
  const std::uint32_t size = pending.writer.size();
  const Slice slice{
      .pos = pending.pos, .id = pending.writer.id(), .size = size, .off = 0, .len = size};
  Backoff backoff({.initial = std::chrono::milliseconds(50), .maximum = std::chrono::seconds(2)});
  for (;;) {
    if (pending.unclear) {
      // Committing twice would be wrong, so look first.
      auto known = IsCommitted(ctx, backoff, pending);
      if (!known) {
        keep = MetadataMayPassLater(known.error());
        return std::unexpected(std::move(known).error());
      }
      if (*known) return {};
    }
    auto committed = meta_.WriteSlice(ctx, ino_, pending.index, slice, pending.mtime);
    if (committed) return {};
    pending.unclear = MetadataMayPassLater(committed.error());
    if (!pending.unclear) {
      // Nothing refers to these objects; with an unclear outcome they would be left for gc. From
      // here on the slice must never be committed, whatever becomes of the caller.
      auto deleted = blocks_.DeleteSlice(ctx, {slice.id, slice.size});
      if (!deleted) {
        log_.Warn(ctx, "objects of a lost write remain until gc",
                  {{"slice", slice.id}, {"error", deleted.error().message()}});
      }
      return std::unexpected(std::move(committed).error());
    }
    if (!backoff.Sleep(ctx)) {
      keep = true;
      return std::unexpected(std::move(committed).error());
    }
  }
}

FileWriter::Slices FileWriter::Freeze() {
  MutexLock lock(mutex_);
  for (const auto& pending : pending_) pending->frozen = true;
  return pending_;
}

template <class Ready>
Result<void> FileWriter::WaitUntil(const Context& ctx, MutexLock& lock, Ready ready) {
  const bool came = ctx.has_deadline()
                        ? changed_.wait_until(lock, ctx.stop(), ctx.deadline(), ready)
                        : changed_.wait(lock, ctx.stop(), ready);
  if (came) return {};
  RETURN_IF_ERROR(ctx.Check());
  return Fail(Code::kDeadline, "what is written to inode {} is not ready in time", ToInt(ino_));
}

Result<void> FileWriter::WaitForWriter(const Context& ctx, const Pending& pending) {
  MutexLock lock(mutex_);
  return WaitUntil(ctx, lock, [&] { return !pending.busy; });
}

// Its buffers come free, which the writer of another may be waiting for. Nobody begins to write to
// a frozen slice, so who is idle stays idle.
FileWriter::Slices FileWriter::SealIdle(const Context& ctx, const Slices& slices) {
  Slices in_turn;
  bool waits = false;
  for (const auto& pending : slices) {
    bool busy = false;
    {
      MutexLock lock(mutex_);
      busy = pending->busy;
    }
    waits = waits || busy;
    if (busy) continue;
    if (!waits) in_turn.push_back(pending);
    if (!pending->writer.Seal(ctx)) break;  // Store will say why
  }
  return in_turn;
}

Result<void> FileWriter::StoreOne(const Context& ctx, Pending& pending, Wait wait, bool& keep) {
  keep = false;
  if (pending.writer.size() == 0) return {};
  auto finished =
      wait == Wait::kYes ? pending.writer.Finish(ctx) : pending.writer.FinishUploaded(ctx);
  if (!finished) {
    keep = SliceWriter::MayPassLater(finished.error());
    return finished;
  }
  {
    MutexLock lock(mutex_);
    if (abandoned_) return Fail(Code::kCancelled, "inode {} was closed meanwhile", ToInt(ino_));
    // What was begun earlier may have been written to later, and is committed already.
    committed_mtime_ = pending.mtime = std::max(committed_mtime_, pending.mtime);
  }
  return Commit(ctx, pending, keep);
}

Result<void> FileWriter::Store(const Context& ctx, const Slices& todo, Wait wait) {
  Result<void> first;
  for (const auto& pending : todo) {
    RETURN_IF_ERROR(WaitForWriter(ctx, *pending));
    if (wait == Wait::kNo) {
      RETURN_IF_ERROR(pending->writer.Seal(ctx));
      if (pending->writer.Uploading()) return first;
    }
    bool keep = false;
    auto stored = StoreOne(ctx, *pending, wait, keep);
    // The next flush goes on from here: nothing that comes after it gets in before it.
    if (!stored && keep) {
      if (!first) return first;
      return ctx.Stopped() ? ctx.Check() : stored;
    }
    views_.Clear();
    MutexLock lock(mutex_);
    if (abandoned_) return stored;
    ++version_;
    std::erase(pending_, pending);
    if (stored) continue;
    ++losses_;
    ++all_losses_;
    last_loss_ = stored.error();
    if (first) first = std::move(stored);
  }
  return first;
}

void FileWriter::Abandon() {
  MutexLock lock(mutex_);
  abandoned_ = true;
  all_losses_ += pending_.size();
  pending_.clear();
}

Result<void> FileWriter::TakeTurn(const Context& ctx) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(WaitUntil(ctx, lock, [this]() REQUIRES(mutex_) { return !flushing_; }));
  flushing_ = true;
  return {};
}

bool FileWriter::TryTakeTurn() {
  MutexLock lock(mutex_);
  return !std::exchange(flushing_, true);
}

void FileWriter::EndTurn() {
  MutexLock lock(mutex_);
  flushing_ = false;
  changed_.notify_all();
}

Result<void> FileWriter::Flush(const Context& ctx) {
  RETURN_IF_ERROR(TakeTurn(ctx));
  const Slices all = Freeze();
  SealIdle(ctx, all);  // all uploads start before the first is waited for
  auto stored = Store(ctx, all, Wait::kYes);
  EndTurn();
  return stored;
}

Result<void> FileWriter::FlushIdle(const Context& ctx) {
  if (!TryTakeTurn()) return {};  // it may wait for a writer
  auto stored = Store(ctx, SealIdle(ctx, Freeze()), Wait::kNo);
  EndTurn();
  return stored;
}

void FileWriter::StartUploads(const Context& ctx) {
  if (!TryTakeTurn()) return;
  SealIdle(ctx, Freeze());
  EndTurn();
}

Result<void> FileWriter::ChangeInVolume(const Context& ctx,
                                        const std::function<Result<std::uint64_t>()>& change) {
  // Twice: the first lets out a writer that waits for buffers of this file.
  RETURN_IF_ERROR(Flush(ctx));
  MutexLock writing(write_mutex_);
  RETURN_IF_ERROR(Flush(ctx));
  const Question question = Ask();
  auto length = change();
  // If it failed it may have happened all the same, with only the answer lost. Whoever has asked
  // before it knows nothing, and who asked meanwhile may know of it or not.
  length_in_doubt_ = !SetLength(length ? *length : length_.load(), question) || !length;
  views_.Clear();
  if (length_in_doubt_) {
    const auto otherwise = length ? std::optional(*length) : std::nullopt;
    if (auto asked = AskForLength(ctx, otherwise); !asked) {
      log_.Debug(ctx, "the length of a file is not known now",
                 {{"inode", ToInt(ino_)}, {"error", asked.error().message()}});
    }
  }
  if (length) return {};
  return std::unexpected(std::move(length).error());
}

Result<void> FileWriter::AskForLength(const Context& ctx, std::optional<std::uint64_t> otherwise) {
  const Question question = Ask();
  auto attr = meta_.GetAttr(ctx, ino_);
  if (!attr) {
    if (otherwise) SetLength(*otherwise, question);
    return std::unexpected(std::move(attr).error());
  }
  LearnLength(attr->length, question);
  length_in_doubt_ = false;
  return {};
}

Result<void> FileWriter::SettleLength(const Context& ctx) {
  if (!length_in_doubt_) return {};
  RETURN_IF_ERROR(Flush(ctx));
  return AskForLength(ctx);
}

std::uint64_t FileWriter::losses() const {
  MutexLock lock(mutex_);
  return losses_;
}

Result<void> FileWriter::LossSince(std::uint64_t seen) const {
  MutexLock lock(mutex_);
  if (seen >= losses_) return {};
  return std::unexpected(*last_loss_);
}

Result<void> FileWriter::TakeLossSince(std::atomic<std::uint64_t>& seen) const {
  MutexLock lock(mutex_);
  if (seen.exchange(losses_) >= losses_) return {};
  return std::unexpected(*last_loss_);
}

}  // namespace paddleop::volume
