#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/posix.h"
#include "base/status.h"
#include "volume/format/types.h"

namespace paddleop::volume::data {

// How far a slice that is not done with has come. One that was never given to the metadata is
// certainly not referred to.
enum class SliceStage { kUploading, kCommitting };
using OpenSliceMap = std::map<SliceKey, SliceStage>;

// Notes which slices an import has begun to upload and not yet committed, in a file of its own that
// stays if the process is killed. The next import finds such files (those that nobody holds locked)
// and deletes the objects that no file refers to. Lines: 'u' a slice is being uploaded, 'c' it is
// being committed, '-' it is done with; then its id and size. '+' is the 'u' of earlier versions,
// which had no 'c': such a slice may be in use.
//
// Thread-safe.
class ImportJournal {
 public:
  // Makes a journal in `directory` (made if missing) and takes over those that dead imports left.
  static Result<std::unique_ptr<ImportJournal>> Open(const std::string& directory);
  // Removes the file unless slices are open.
  ~ImportJournal();

  // To be called before the first object of the slice is stored.
  Result<void> Begin(const SliceKey& slice);
  // To be called before the slices are given to the metadata.
  Result<void> Committing(std::span<const SliceKey> slices);
  // The slice is committed, or its objects are deleted.
  Result<void> End(const SliceKey& slice);

  // What dead imports left open, and may have stored.
  const OpenSliceMap& abandoned() const { return abandoned_; }
  // They are dealt with: their journals go.
  void ForgetAbandoned();

 private:
  struct Held {
    std::string path;
    UniqueFd fd;
  };
  ImportJournal() = default;
  Result<void> Append(std::string_view lines, std::size_t count) REQUIRES(mutex_);
  // Replaces the file by one that holds only what is open: it would grow for ever otherwise.
  Result<void> Rewrite() REQUIRES(mutex_);
  Result<void> Adopt(const std::string& directory, const std::string& name);

  std::string path_;
  std::vector<Held> dead_;
  OpenSliceMap abandoned_;
  Mutex mutex_;
  UniqueFd fd_ GUARDED_BY(mutex_);
  OpenSliceMap open_ GUARDED_BY(mutex_);
  std::size_t lines_ GUARDED_BY(mutex_) = 0;
};

// The slices that a journal's text leaves open. An incomplete last line is one that was never
// followed by an upload.
OpenSliceMap OpenSlices(std::string_view journal);

}  // namespace paddleop::volume::data
