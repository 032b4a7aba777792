#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "volume/data/internal/import_journal.h"
#include "volume/data/internal/import_state.h"
#include "volume/data/internal/import_transfer.h"

namespace paddleop::volume::data {

// Makes stored files visible, many in one call, on a thread of its own; then deletes them from the
// source if that is wanted.
//
// Thread-safe.
class Committer {
 public:
  // `journal` may be null; it and `state` outlive this object.
  Committer(ImportState& state, ImportJournal* journal);
  // Commits what was put, if the import was not aborted by a failed commit.
  ~Committer();

  // Waits while much is waiting already.
  void Put(StoredFiles stored) EXCLUDES(mutex_);
  // A file that needs no copy, for --delete-src. It is counted when its source is gone, or failed.
  struct SourceDeletion {
    ImportItem item;
    bool copied = false;  // by this import; otherwise it was in the volume already
  };
  void DeleteFromSource(SourceDeletion deletion) EXCLUDES(mutex_);
  // Ends the work: everything put so far is committed, or the import aborted, when it returns.
  void Finish() EXCLUDES(mutex_);

 private:
  void Run(const std::stop_token& stop);
  void Commit(std::vector<StoredFiles> batch);
  // The answer for each file, with lost answers found out and lost commits repeated.
  std::vector<Result<Ino>> CommitSurely(const Context& ctx, const std::vector<NewFile>& files);
  // Of files whose commit was not answered: which are there. An error if that cannot be known.
  Result<std::vector<std::optional<Ino>>> FindCommitted(const Context& ctx,
                                                        const std::vector<NewFile>& files);
  void Conclude(StoredFiles& stored, std::span<const Result<Ino>> answers);
  void Arrived(std::uint64_t size, bool copied);
  // As many at a time as fit well into one deadline.
  void FlushSourceDeletions(bool all) EXCLUDES(mutex_);
  void DeleteBatch(const std::vector<SourceDeletion>& deletions);
  // For each, whether the source still has what was copied; an error otherwise.
  std::vector<Result<void>> CheckUnchanged(const Context& ctx,
                                           const std::vector<SourceDeletion>& deletions);

  ImportState& state_;
  ImportJournal* const journal_;
  bool broken_ = false;  // a commit failed; only the committing thread looks

  Mutex mutex_;
  CondVar changed_;
  std::deque<StoredFiles> queue_ GUARDED_BY(mutex_);
  std::size_t queued_files_ GUARDED_BY(mutex_) = 0;
  bool finishing_ GUARDED_BY(mutex_) = false;
  std::vector<SourceDeletion> delete_from_source_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last
};

}  // namespace paddleop::volume::data
