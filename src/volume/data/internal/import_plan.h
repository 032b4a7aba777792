#pragma once

#include <optional>
#include <vector>

#include "volume/data/internal/import_commit.h"
#include "volume/data/internal/import_directories.h"
#include "volume/data/internal/import_remove.h"
#include "volume/data/internal/import_rules.h"
#include "volume/data/internal/import_state.h"
#include "volume/data/internal/import_transfer.h"
#include "volume/data/internal/source_listing.h"

namespace paddleop::volume::data {

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

  // kNotFound if there is nothing at the place that the source names.
  Result<void> CheckSourceExists();
  Result<void> TakeBatch(SourceListing::Batch batch);
  Result<void> TakeEntry(object::ObjectInfo& entry, std::vector<Candidate>& candidates);
  Result<void> TakeDirectory(const object::ObjectInfo& entry);
  Result<void> TakeFile(object::ObjectInfo& entry, std::vector<Candidate>& candidates);
  Result<void> Compare(std::vector<Candidate> candidates);
  // The volume's file is a copy of this one, as far as size and time can tell.
  static bool IsSame(const ImportItem& item, const Entry& existing);
  Result<bool> ReplaceDirectory(const ImportItem& item);
  Result<bool> NeedsCopy(const ImportItem& item, const Entry& existing);
  void Skip(const ImportItem& item, const Entry& existing);
  // Files that changed while they were read: looked at afresh and added again.
  Result<void> Retry(std::vector<ImportItem> changed);
  // Whether the key can be a path below the destination.
  Result<void> CheckPlace(std::string_view key) const;

  ImportState& state_;
  Transfer& transfer_;
  Committer& committer_;
  const KeyFilter filter_;
  ImportDirectories directories_;
  PartOfKeys parts_;
  NameClash clashes_;
  std::optional<ExtraneousRemover> remover_;
};

}  // namespace paddleop::volume::data
