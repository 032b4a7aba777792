#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "volume/format/object_key.h"
#include "volume/meta/meta_store.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::data {

struct FsckProblem {
  enum class Kind {
    kMissingObject,      // data of a file is gone
    kTooFewReferences,   // the next deletion would destroy data that others still need
    kTooManyReferences,  // the data will never be deleted
    kWrongLinkCount,     // of a directory
    kWrongUsage,         // directory statistics
    kDanglingEntry,      // a name without an inode
  };
  Kind kind;
  std::string path;  // of the file or directory, or "inode N" where it has no name
  std::string detail;
};

struct FsckReport {
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t slices = 0;
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;  // stored
  std::uint64_t problem_count = 0;
  std::vector<FsckProblem> problems;  // the first `max_problems`

  bool clean() const { return problem_count == 0; }
};

struct FsckOptions {
  std::size_t max_problems = 1000;  // reported one by one; all are counted
};

// Checks that every block of every file is in the store, that every slice's reference count is what
// its records say, and that link counts and statistics of directories are right. Changes nothing.
// On a volume in use, what changes meanwhile can look like a problem: run it again.
Result<FsckReport> Fsck(const Context& ctx, MetaStore& meta, object::ObjectStore& objects,
                        const BlockLayout& layout, bool check_usage,
                        const FsckOptions& options = {});

std::string_view KindName(FsckProblem::Kind kind);

}  // namespace paddleop::volume::data
