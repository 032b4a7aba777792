#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "volume/data/internal/import_state.h"

namespace paddleop::volume::data {

// Finds and makes the directories that files go into. Paths come in the order of the listing, so
// that only those between the destination and the last one are remembered. Used by one thread.
class ImportDirectories {
 public:
  struct Place {
    Ino ino = kNoIno;    // kNoIno in a dry run: it would have to be made
    bool fresh = false;  // made by this import: nothing else is in it
  };

  explicit ImportDirectories(ImportState& state) : state_(state) {}

  // Finds or makes the destination itself. kNotDirectory if something else is there.
  Result<void> Open();
  // The directory `path` below the destination ("" is the destination), with those above it.
  Result<Place> Enter(std::string_view path);
  // The same, and gives it the mode and owner of the source's.
  Result<Place> Enter(std::string_view path, const object::FileOwner& owner);

  const Place& root() const { return root_; }

 private:
  struct Level {
    std::string name;
    Result<Place> place;
  };
  // `replace`: a file in the way is removed.
  Result<Place> FindOrMake(const Place& parent, std::string_view name, bool replace);

  ImportState& state_;
  Place root_;
  std::vector<Level> levels_;
};

// Gives a file or directory of the volume the mode and owner of the source's, where they differ.
Result<void> SetOwner(ImportState& state, const Entry& entry, const object::FileOwner& owner);

}  // namespace paddleop::volume::data
