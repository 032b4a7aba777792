#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "volume/data/internal/import_commit.h"
#include "volume/data/internal/import_directories.h"
#include "volume/data/internal/import_remove.h"
#include "volume/data/internal/import_rules.h"
#include "volume/data/internal/import_state.h"
#include "volume/data/internal/import_transfer.h"

namespace paddleop::volume::data {

// Lists the source on a thread of its own, ahead of who takes the entries by a bounded number.
class SourceListing {
 public:
  using Batch = std::vector<object::ObjectInfo>;

  explicit SourceListing(ImportState& state);
  ~SourceListing();

  // The next entries in key order; empty at the end. The error of the listing comes last.
  Result<Batch> Next();

 private:
  void Run(const std::stop_token& stop);
  Result<void> List(const Context& ctx);
  Result<bool> Push(const Context& ctx, Batch& batch) EXCLUDES(mutex_);

  ImportState& state_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Batch> batches_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  Result<void> result_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last
};

// Goes through the listing: filters, finds or makes directories, compares with what the volume has,
// and hands what is to be copied to the transfer. Used by one thread.
class ImportPlanner {
 public:
  ImportPlanner(ImportState& state, Transfer& transfer, Committer& committer);

  // To the end of the source, with everything transferred. Errors end the import.
  Result<void> Run();

 private:
  struct Candidate {
    ImportItem item;
    bool fresh = false;  // in a directory that is new: nothing to compare with
  };

  Result<void> TakeBatch(SourceListing::Batch batch);
  Result<void> TakeEntry(object::ObjectInfo& entry, std::vector<Candidate>& candidates);
  Result<void> TakeDirectory(const object::ObjectInfo& entry);
  Result<void> TakeFile(object::ObjectInfo& entry, std::vector<Candidate>& candidates);
  Result<void> Compare(std::vector<Candidate> candidates);
  Result<bool> NeedsCopy(const ImportItem& item, const Entry& existing);
  void Skip(const ImportItem& item, const Entry& existing);
  // Files that changed while they were read: looked at afresh and added again.
  Result<void> Retry(std::vector<ImportItem> changed);
  // An error of one file, unless the volume itself has failed.
  Result<void> FileError(const std::string& key, std::uint64_t size, Status error);

  ImportState& state_;
  Transfer& transfer_;
  Committer& committer_;
  const KeyFilter filter_;
  ImportDirectories directories_;
  PartOfKeys parts_;
  NameClash clashes_;
  std::optional<ExtraneousRemover> remover_;
  std::uint64_t seen_ = 0;
};

}  // namespace paddleop::volume::data
