#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "volume/data/progress.h"
#include "volume/data/source.h"
#include "volume/meta/meta_types.h"
#include "volume/vfs/volume.h"

namespace paddleop::volume::data {

// A pattern of --include or --exclude, as rsync and `juicefs sync` read it.
struct FilterRule {
  bool include = false;
  std::string pattern;
};

struct FileFailure {
  std::string key;  // in the source, or the path in the volume for what --delete-dst left
  Status error;
};

struct ImportOptions {
  std::string to = "/";      // a directory of the volume; made if it is missing
  Caller caller = {};        // who owns what is made, unless `perms`
  std::size_t threads = 64;  // objects read at a time, 1 to 512

  // Without either a file is copied if it is missing, or differs in size or time.
  bool update = false;        // an existing file only if the source's is newer
  bool force_update = false;  // every file
  bool perms = false;         // keep mode and owner, from sources that have them
  bool dirs = false;          // make directories that hold no files, too
  bool dry = false;           // change nothing; count what would be done
  // Delete from the source what is in the volume now, unless it has changed meanwhile.
  bool delete_src = false;
  bool delete_dst = false;  // remove from `to` what the source does not have

  // Keys of the source from `start` to `end`, both inclusive; empty: all.
  std::string start = {};
  std::string end = {};
  // The first rule that matches decides; what none matches is copied.
  std::vector<FilterRule> rules = {};
  // This process copies part `part` (from 0) of `parts`. The parts need not know of each other.
  std::uint32_t part = 0;
  std::uint32_t parts = 1;

  std::uint64_t buffer_bytes = 40ULL << 20;  // of data on its way; at least three blocks are used
  // Where to note which slices were uploaded, so that the next import can delete what a killed one
  // left; in a directory of the volume's UUID. Empty: nothing is noted, and only gc finds it.
  std::string journal_dir = {};

  // A file that takes longer than this to store is looked at again before it appears: garbage
  // collectors take objects that nothing has referred to for an hour for leaked.
  std::chrono::seconds recheck_after{45 * 60};

  std::chrono::milliseconds progress_interval{1'000};
  // Called from the thread that called Import, and once more at the end.
  std::function<void(const ImportProgress&)> on_progress = {};
  // Every file that failed, as it fails; from any thread, one at a time.
  std::function<void(const FileFailure&)> on_failure = {};
  // Plain content of each block that was uploaded, before any file refers to it: a chance to keep
  // it in a cache. From several threads; the bytes are gone afterwards. The volume's own cache, if
  // it has one, has been offered the block already.
  std::function<void(const BlockId&, std::span<const std::byte>)> on_block = {};

  // No pattern and no bound leaves anything out.
  bool selects_all() const { return rules.empty() && start.empty() && end.empty(); }
  // kInvalid names the member.
  Result<void> Validate() const;
};

struct ImportReport {
  ImportProgress progress;
  std::vector<FileFailure> failures;  // the first few; all were given to on_failure
  // Set if the import did not come to its end: what is in the volume stays, a later run goes on.
  Result<void> result;

  bool complete() const { return result.has_value() && progress.failed_files == 0; }
};

// Copies files of `source` into `volume`: lists, compares, reads, packs small files into shared
// slices of one block, uploads, commits many files at a time. A file appears with all its data or
// not at all. Stopped at any moment, the next run goes on from what is in the volume.
//
// Memory: `buffer_bytes`, 16 KiB for each of `threads`, and records of at most 60,000 files on
// their way, whatever the number of files; with delete_dst 8 bytes for each entry of the directory
// at hand and those above it.
//
// A file that fails does not stop the others. The import ends early when the source cannot be
// listed or does not answer any more, when the volume cannot take data (kNoSpace, kQuota, ...), and
// when `ctx` is stopped.
ImportReport Import(const Context& ctx, Volume& volume, const Source& source,
                    const ImportOptions& options, const Logger& log);

}  // namespace paddleop::volume::data
