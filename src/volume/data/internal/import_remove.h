#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "volume/data/internal/import_rules.h"
#include "volume/data/internal/import_state.h"

namespace paddleop::volume::data {

// Removes from the destination what the source does not have (--delete-dst). It is shown all keys
// of the source in order; when the listing has left a directory, that directory of the volume is
// read and what was not shown goes. What the filters leave out stays. Used by one thread.
class ExtraneousRemover {
 public:
  ExtraneousRemover(ImportState& state, const KeyFilter& filter, Ino root)
      : state_(state), filter_(filter), root_(root) {
    levels_.push_back({.path = "", .seen = {}});
  }

  // A key of the source, valid as a path; directories end with '/'.
  Result<void> Saw(std::string_view key);
  // The listing has ended.
  Result<void> Finish();

 private:
  struct Level {
    std::string path;  // without slashes at its ends
    std::vector<std::uint64_t> seen;
  };

  Result<void> Leave();
  // Removes what is in directory `path` and not in `seen` (sorted). True if nothing stays.
  Result<bool> Sweep(const std::string& path, const std::vector<std::uint64_t>& seen);
  // Names in directory `path`. True if none stays; why one does is noted as its failure.
  Result<bool> RemoveFiles(Ino directory, const std::string& path,
                           std::span<const std::string> names);
  // A directory with all that is in it. True if it goes.
  Result<bool> RemoveTree(Ino parent, const std::string& path, const std::string& name);
  // A directory that the source does not have. True if it goes.
  Result<bool> RemoveDirectory(Ino parent, const std::string& path, const std::string& name);
  bool Selects(std::string_view path) const;

  ImportState& state_;
  const KeyFilter& filter_;
  const Ino root_;
  std::vector<Level> levels_;
};

}  // namespace paddleop::volume::data
