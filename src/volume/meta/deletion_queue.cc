#include "volume/meta/internal/deletion_queue.h"

#include <algorithm>
#include <limits>

#include "base/thread_pool.h"

namespace paddleop::volume {
namespace {

constexpr std::size_t kMaxQueued = 100'000;
constexpr std::size_t kFilesPerTxn = 300;
constexpr std::size_t kFilesPerRound = 6000;
constexpr std::size_t kSlicesPerRound = 1000;
constexpr std::size_t kDeleteThreads = 10;
constexpr std::uint32_t kChunksPerTxn = 1000;
constexpr auto kRoundTimeout = std::chrono::minutes(10);

// Where it costs nothing to ask, all chunks: others may have cut the file and left some behind.
std::uint32_t LastChunk(const MetaEngine& engine, const DeletedFile& file) {
  if (engine.FindsChunks()) return std::numeric_limits<std::uint32_t>::max();
  return file.length == 0 ? 0 : static_cast<std::uint32_t>((file.length - 1) / kChunkSize);
}

}  // namespace

DeletionQueue::DeletionQueue(MetaEngine& engine, const Logger* log)
    : engine_(engine), log_(log), worker_([this](const std::stop_token& stop) {
        SetThreadName("meta-delete");
        Run(stop);
      }) {}

DeletionQueue::~DeletionQueue() = default;

void DeletionQueue::SetDeleter(MetaStore::SliceDeleter deleter) {
  if (deleter == nullptr) return SetDeleter(MetaStore::BulkSliceDeleter());
  SetDeleter(MetaStore::BulkSliceDeleter(
      [deleter = std::move(deleter)](const Context& ctx, std::span<const SliceKey> slices) {
        std::vector<Result<void>> results(slices.size());
        ThreadPool pool({.name = "meta-objects",
                         .threads = std::min(kDeleteThreads, slices.size()),
                         .queue_limit = slices.size()});
        for (std::size_t i = 0; i < slices.size(); ++i) {
          auto queued = pool.Submit(ctx, [&, i] { results[i] = deleter(ctx, slices[i]); });
          if (!queued) results[i] = std::move(queued);
        }
        pool.Stop();
        return results;
      }));
}

void DeletionQueue::SetDeleter(MetaStore::BulkSliceDeleter deleter) {
  MutexLock lock(mutex_);
  deleter_ = std::move(deleter);
}

bool DeletionQueue::HasDeleter() {
  MutexLock lock(mutex_);
  return deleter_ != nullptr;
}

void DeletionQueue::Add(std::span<const DeletedFile> files, std::span<const SliceKey> garbage) {
  if (files.empty() && garbage.empty()) return;
  {
    MutexLock lock(mutex_);
    if (deleter_ == nullptr) return;
    for (const DeletedFile& file : files) {
      if (files_.size() < kMaxQueued) files_.push_back(file);
    }
    for (const SliceKey& slice : garbage) {
      if (slices_.size() < kMaxQueued) slices_.push_back(slice);
    }
  }
  changed_.notify_all();
}

Result<void> DeletionQueue::WaitForRoom(const Context& ctx) {
  MutexLock lock(mutex_);
  const auto room = [this]() REQUIRES(mutex_) {
    return deleter_ == nullptr || files_.size() + slices_.size() < kMaxQueued / 2;
  };
  if (ctx.has_deadline()) {
    changed_.wait_until(lock, ctx.stop(), ctx.deadline(), room);
  } else {
    changed_.wait(lock, ctx.stop(), room);
  }
  return ctx.Check();
}

Result<void> DeletionQueue::Drain(const Context& ctx) {
  MutexLock lock(mutex_);
  const auto idle = [this]()
                        REQUIRES(mutex_) { return files_.empty() && slices_.empty() && !working_; };
  const auto latest = std::min(ctx.deadline(), Context::Clock::now() + std::chrono::hours(1));
  if (!changed_.wait_until(lock, ctx.stop(), latest, idle)) {
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "deletions did not finish in time");
  }
  return {};
}

void DeletionQueue::Run(const std::stop_token& stop) {
  for (;;) {
    std::vector<DeletedFile> files;
    std::vector<SliceKey> slices;
    {
      MutexLock lock(mutex_);
      working_ = false;
      changed_.notify_all();
      changed_.wait(lock, stop,
                    [this]() REQUIRES(mutex_) { return !files_.empty() || !slices_.empty(); });
      if (stop.stop_requested()) return;
      working_ = true;
      while (!files_.empty() && files.size() < kFilesPerRound) {
        files.push_back(files_.front());
        files_.pop_front();
      }
      while (!slices_.empty() && slices.size() < kSlicesPerRound) {
        slices.push_back(slices_.front());
        slices_.pop_front();
      }
    }
    const Context ctx = Context::Background().WithStop(stop).WithTimeout(kRoundTimeout);
    Result<void> done = DeleteFiles(ctx, files);
    if (auto deleted = DeleteSlices(ctx, slices); !deleted) done = std::move(deleted);
    if (!done && log_ != nullptr && !stop.stop_requested()) {
      log_->Warn(ctx, "data of deleted files stays for the next hourly job",
                 {{"error", done.error().message()}});
    }
  }
}

Result<std::vector<SliceKey>> DeletionQueue::ReleaseFiles(const Context& ctx,
                                                          std::span<const DeletedFile> files) {
  std::vector<std::vector<std::uint32_t>> indexes(files.size());
  ReadSet which;
  for (std::size_t i = 0; i < files.size(); ++i) {
    which.ChunkIndexes(files[i].ino, 0, LastChunk(engine_, files[i]), &indexes[i]);
  }
  RETURN_IF_ERROR(engine_.ReadOnce(ctx, which));

  std::vector<std::pair<Ino, std::uint32_t>> chunks;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const std::uint32_t index : indexes[i]) chunks.emplace_back(files[i].ino, index);
  }
  std::vector<SliceKey> garbage;
  std::size_t at = 0;
  do {
    const std::size_t end = std::min<std::size_t>(chunks.size(), at + kChunksPerTxn);
    ASSIGN_OR_RETURN(TxnOutcome outcome, engine_.WithTxn(ctx, [&](MetaTxn& txn) -> Result<void> {
      std::vector<std::optional<std::vector<Slice>>> records(end - at);
      ReadSet reads;
      for (std::size_t i = at; i < end; ++i) {
        reads.Chunk(chunks[i].first, chunks[i].second, &records[i - at]);
      }
      RETURN_IF_ERROR(txn.Read(reads));
      for (std::size_t i = at; i < end; ++i) {
        if (!records[i - at]) continue;  // another client was faster
        txn.DeleteChunk(chunks[i].first, chunks[i].second);
        for (const Slice& slice : *records[i - at]) {
          if (slice.id != 0) txn.ReleaseSlice({.id = slice.id, .size = slice.size});
        }
      }
      if (end == chunks.size()) {
        for (const DeletedFile& file : files) txn.ForgetDeletion(file.ino, file.length);
      }
      return {};
    }));
    garbage.insert(garbage.end(), outcome.garbage.begin(), outcome.garbage.end());
    at = end;
  } while (at < chunks.size());
  return garbage;
}

Result<void> DeletionQueue::ReleaseAll(const Context& ctx, std::span<const DeletedFile> files,
                                       std::vector<SliceKey>& garbage) {
  while (!files.empty()) {
    const auto batch = files.first(std::min(files.size(), kFilesPerTxn));
    files = files.subspan(batch.size());
    ASSIGN_OR_RETURN(const std::vector<SliceKey> released, ReleaseFiles(ctx, batch));
    garbage.insert(garbage.end(), released.begin(), released.end());
  }
  return {};
}

Result<void> DeletionQueue::DeleteFiles(const Context& ctx, std::span<const DeletedFile> files) {
  std::vector<SliceKey> garbage;
  // What was released is deleted, also if the rest could not be.
  auto released = ReleaseAll(ctx, files, garbage);
  for (std::span<const SliceKey> left = garbage; !left.empty();) {
    const auto batch = left.first(std::min(left.size(), kSlicesPerRound));
    left = left.subspan(batch.size());
    RETURN_IF_ERROR(DeleteSlices(ctx, batch));
  }
  return released;
}

Result<void> DeletionQueue::DeleteSlices(const Context& ctx, std::span<const SliceKey> slices) {
  if (slices.empty()) return {};
  MetaStore::BulkSliceDeleter deleter;
  {
    MutexLock lock(mutex_);
    deleter = deleter_;
  }
  if (deleter == nullptr) return {};
  std::vector<Result<void>> results = deleter(ctx, slices);
  std::vector<SliceKey> gone;
  Result<void> first_error;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (results[i]) {
      gone.push_back(slices[i]);
    } else if (first_error) {
      first_error = std::move(results[i]);
    }
  }
  RETURN_IF_ERROR(engine_.ForgetSlices(ctx, gone));
  return first_error;
}

}  // namespace paddleop::volume
