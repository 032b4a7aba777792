#include "volume/data/internal/import_commit.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/backoff.h"
#include "base/thread_pool.h"
#include "volume/data/internal/import_rules.h"

namespace paddleop::volume::data {
namespace {

constexpr std::size_t kMaxQueuedFiles = 8192;
constexpr std::size_t kFilesPerCall = 2000;
constexpr std::size_t kDeleteBatch = 1000;
constexpr std::size_t kCheckThreads = 8;
constexpr std::chrono::seconds kCommitTimeout(120);
// After the caller stopped, what is uploaded still gets its chance.
constexpr std::chrono::seconds kLastCommitTimeout(30);

bool AnswerLost(const Status& error) {
  return error.maybe_done() || error.code() == Code::kUnavailable;
}

// The volume is full, for this file and all that follow.
bool IsFull(const Status& error) {
  return error.code() == Code::kNoSpace || error.code() == Code::kQuota;
}

const Slice* FirstSlice(const NewFile& file) {
  if (file.chunks.empty() || file.chunks.front().slices.empty()) return nullptr;
  return &file.chunks.front().slices.front();
}

}  // namespace

Committer::Committer(ImportState& state, ImportJournal* journal)
    : state_(state), journal_(journal), thread_([this](const std::stop_token& stop) {
        SetThreadName("import-commit");
        Run(stop);
      }) {}

Committer::~Committer() { Finish(); }

void Committer::Put(StoredFiles stored) {
  MutexLock lock(mutex_);
  changed_.wait(lock, state_.ctx().stop(),
                [this]() REQUIRES(mutex_) { return queued_files_ < kMaxQueuedFiles; });
  queued_files_ += stored.files.size();
  queue_.push_back(std::move(stored));
  changed_.notify_all();
}

void Committer::DeleteFromSource(SourceDeletion deletion) {
  bool full = false;
  {
    MutexLock lock(mutex_);
    delete_from_source_.push_back(std::move(deletion));
    full = delete_from_source_.size() >= kDeleteBatch;
  }
  if (full) FlushSourceDeletions(false);
}

void Committer::Arrived(std::uint64_t size, bool copied) {
  ++(copied ? state_.copied_files : state_.skipped_files);
  (copied ? state_.copied_bytes : state_.skipped_bytes) += size;
}

void Committer::Finish() {
  {
    MutexLock lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Committer::Run(const std::stop_token&) {
  for (;;) {
    std::vector<StoredFiles> batch;
    {
      MutexLock lock(mutex_);
      changed_.wait(lock, [this]() REQUIRES(mutex_) { return finishing_ || !queue_.empty(); });
      if (queue_.empty()) break;
      for (std::size_t files = 0; !queue_.empty() && files < kFilesPerCall;) {
        files += queue_.front().files.size();
        queued_files_ -= queue_.front().files.size();
        batch.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      changed_.notify_all();
    }
    // What is not committed stays in the journal, and its objects for the next import to delete.
    if (!broken_) Commit(std::move(batch));
  }
  FlushSourceDeletions(true);
}

void Committer::Commit(std::vector<StoredFiles> batch) {
  const Context ctx = state_.aborted() ? Context::Background().WithTimeout(kLastCommitTimeout)
                                       : Context::Background().WithTimeout(kCommitTimeout);
  std::vector<NewFile> files;
  std::vector<SliceKey> slices;
  for (StoredFiles& stored : batch) {
    std::move(stored.files.begin(), stored.files.end(), std::back_inserter(files));
    slices.insert(slices.end(), stored.slices.begin(), stored.slices.end());
  }
  if (journal_ != nullptr) {
    if (auto noted = journal_->Committing(slices); !noted) {
      broken_ = true;
      return state_.Abort(std::move(noted).error().Wrap("keep the journal of uploads"));
    }
  }
  const std::vector<Result<Ino>> answers = CommitSurely(ctx, files);
  std::size_t at = 0;
  for (StoredFiles& stored : batch) {
    const std::size_t count = stored.items.size();
    Conclude(stored, std::span(answers).subspan(at, count));
    at += count;
  }
}

std::vector<Result<Ino>> Committer::CommitSurely(const Context& ctx,
                                                 const std::vector<NewFile>& files) {
  MetaStore& meta = state_.volume.meta();
  std::vector<Result<Ino>> answers = meta.CommitFiles(ctx, files, {.replace = true});
  Backoff backoff({.initial = std::chrono::milliseconds(200), .maximum = std::chrono::seconds(5)});
  for (;;) {
    const auto first = std::find_if(answers.begin(), answers.end(), [](const Result<Ino>& answer) {
      return !answer && AnswerLost(answer.error());
    });
    if (first == answers.end() || state_.aborted() || !backoff.Sleep(ctx)) return answers;
    // From the first lost answer on nothing is known. One commit may have happened there: that of
    // files which share slices is whole or not at all.
    const auto begin = static_cast<std::size_t>(first - answers.begin());
    const std::vector<NewFile> open(files.begin() + static_cast<std::ptrdiff_t>(begin),
                                    files.end());
    auto found = FindCommitted(ctx, open);
    if (!found) {
      if (!AnswerLost(found.error())) {
        std::fill(first, answers.end(), Result<Ino>(std::unexpected(found.error())));
        return answers;
      }
      continue;
    }
    std::set<std::uint64_t> committed;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if ((*found)[i] && FirstSlice(open[i])) committed.insert(FirstSlice(open[i])->id);
    }
    std::vector<NewFile> again;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const Slice* slice = FirstSlice(open[i]);
      if ((*found)[i]) {
        answers[begin + i] = *(*found)[i];
      } else if (slice != nullptr && committed.contains(slice->id)) {
        answers[begin + i] =
            Fail(Code::kConflict, "somebody else changed it at the same time; import it again");
      } else {
        again.push_back(open[i]);
        places.push_back(begin + i);
      }
    }
    auto repeated = meta.CommitFiles(ctx, again, {.replace = true});
    for (std::size_t i = 0; i < again.size(); ++i) answers[places[i]] = std::move(repeated[i]);
  }
}

Result<std::vector<std::optional<Ino>>> Committer::FindCommitted(
    const Context& ctx, const std::vector<NewFile>& files) {
  MetaStore& meta = state_.volume.meta();
  std::vector<ChildName> names;
  names.reserve(files.size());
  for (const NewFile& file : files) names.push_back({.parent = file.parent, .name = file.name});
  ASSIGN_OR_RETURN(const auto entries, meta.LookupMany(ctx, names));
  std::vector<std::optional<Ino>> found(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!entries[i] || entries[i]->attr.length != files[i].length) continue;
    const Slice* ours = FirstSlice(files[i]);
    if (ours == nullptr) {
      if (entries[i]->attr.mtime == files[i].mtime) found[i] = entries[i]->ino;
      continue;
    }
    ASSIGN_OR_RETURN(const auto slices, meta.ReadSlices(ctx, entries[i]->ino, 0));
    if (!slices.empty() && slices.front().id == ours->id) found[i] = entries[i]->ino;
  }
  return found;
}

void Committer::Conclude(StoredFiles& stored, std::span<const Result<Ino>> answers) {
  bool any = false, unknown = false;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const ImportItem& item = stored.items[i];
    if (answers[i]) {
      any = true;
      if (state_.options.delete_src) {
        MutexLock lock(mutex_);
        delete_from_source_.push_back({.item = item, .copied = true});
      } else {
        Arrived(item.size, true);
      }
      continue;
    }
    const Status& error = answers[i].error();
    const bool engine_failed = AnswerLost(error) || error.code() == Code::kDeadline ||
                               error.code() == Code::kCancelled || error.code() == Code::kCorrupt;
    unknown = unknown || engine_failed;
    if (engine_failed || IsFull(error)) {
      broken_ = broken_ || engine_failed;
      state_.Abort(error.Wrap("make files in the volume"));
    }
    state_.FileFailed(item, error);
  }
  if (state_.options.delete_src) FlushSourceDeletions(false);
  if (unknown) return;
  // Nothing refers to these slices, and nothing will.
  const Context ctx = Context::Background().WithTimeout(kLastCommitTimeout);
  for (const SliceKey& slice : stored.slices) {
    Result<void> done;
    if (!any) done = state_.volume.blocks().DeleteSlice(ctx, slice);
    if (done && journal_ != nullptr) done = journal_->End(slice);
    if (!done) {
      state_.log.Warn(ctx, "objects that no file refers to stay until the next import",
                      {{"slice", slice.id}, {"error", done.error().message()}});
    }
  }
}

std::vector<Result<void>> Committer::CheckUnchanged(const Context& ctx,
                                                    const std::vector<SourceDeletion>& deletions) {
  const auto check = [&](const ImportItem& item) -> Result<void> {
    auto now = state_.source.store->Head(ctx, item.key);
    if (!now && IsNotFound(now.error())) return {};
    if (!now) return std::unexpected(std::move(now).error());
    const bool timed = now->mtime != std::chrono::system_clock::time_point{};
    const bool same = !item.etag.empty() && !now->etag.empty()
                          ? now->etag == item.etag
                          : !timed || SameTime(Timestamp::From(now->mtime), item.mtime);
    if (same && now->size == item.size) return {};
    return Fail(Code::kConflict, "it has changed since; import it again");
  };
  // What was not looked at stays, whatever the reason.
  std::vector<Result<void>> checked(deletions.size(),
                                    Fail(Code::kInternal, "it was not looked at again"));
  ThreadPool pool(
      {.name = "import-check", .threads = kCheckThreads, .queue_limit = checked.size()});
  for (std::size_t i = 0; i < checked.size(); ++i) {
    (void)pool.TrySubmit([&, i] { checked[i] = check(deletions[i].item); });
  }
  pool.Drain();
  return checked;
}

void Committer::FlushSourceDeletions(bool all) {
  for (;;) {
    std::vector<SourceDeletion> deletions;
    {
      MutexLock lock(mutex_);
      const std::size_t waiting = delete_from_source_.size();
      if (waiting < (all ? 1 : kDeleteBatch)) return;
      const auto end = delete_from_source_.begin() +
                       static_cast<std::ptrdiff_t>(std::min(waiting, kDeleteBatch));
      deletions.assign(std::make_move_iterator(delete_from_source_.begin()),
                       std::make_move_iterator(end));
      delete_from_source_.erase(delete_from_source_.begin(), end);
    }
    DeleteBatch(deletions);
  }
}

void Committer::DeleteBatch(const std::vector<SourceDeletion>& deletions) {
  const Context ctx = Context::Background().WithTimeout(kCommitTimeout);
  const auto fail = [&](const ImportItem& item, const Status& error) {
    state_.FileFailed(item, error.Wrap("copied, but not deleted from the source"));
  };
  // What was written to the source after it was copied must stay there.
  const auto unchanged = CheckUnchanged(ctx, deletions);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < deletions.size(); ++i) {
    if (unchanged[i]) keys.push_back(deletions[i].item.key);
  }
  auto left = state_.source.store->DeleteMany(ctx, keys);
  std::map<std::string_view, const Status*> errors;
  if (left) {
    for (const object::KeyError& failed : *left) errors.emplace(failed.key, &failed.error);
  }
  for (std::size_t i = 0; i < deletions.size(); ++i) {
    const ImportItem& item = deletions[i].item;
    if (!unchanged[i]) {
      fail(item, unchanged[i].error());
      continue;
    }
    const auto failed = errors.find(item.key);
    if (left && failed == errors.end()) {
      ++state_.deleted_source_files;
      Arrived(item.size, deletions[i].copied);
      continue;
    }
    fail(item, left ? *failed->second : left.error());
  }
}

}  // namespace paddleop::volume::data
