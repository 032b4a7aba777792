#pragma once

#include <map>
#include <vector>

#include "volume/format/types.h"
#include "volume/meta/internal/engine.h"
#include "volume/meta/meta_types.h"

namespace paddleop::volume {

// What one run of a transaction's body adds up: written at the end of the transaction, announced
// after its commit.
struct Changes {
  Usage usage;                       // of the volume
  std::map<Ino, DirUsage> dirs;      // of single directories
  std::map<Ino, Usage> quotas;       // of directories with a quota
  std::vector<DeletedFile> deleted;  // files whose data may go now
  std::vector<Ino> sustained;        // files that lost their last name while open here
  std::vector<Ino> removing;         // files that did while not open here: nobody opens them now
};

}  // namespace paddleop::volume
