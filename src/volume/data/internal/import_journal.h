#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/posix.h"
#include "base/status.h"
#include "volume/format/types.h"

namespace paddleop::volume::data {

// Notes which slices an import has begun to upload and not yet committed, in a file of its own that
// stays if the process is killed. The next import finds such files (those that nobody holds locked)
// and deletes the objects that no file refers to.
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
  // The slice is committed, or its objects are deleted.
  Result<void> End(const SliceKey& slice);

  // What dead imports left open, and may have stored.
  const std::set<SliceKey>& abandoned() const { return abandoned_; }
  // They are dealt with: their journals go.
  void ForgetAbandoned();

 private:
  struct Held {
    std::string path;
    UniqueFd fd;
  };
  ImportJournal() = default;
  Result<void> Append(char sign, const SliceKey& slice) REQUIRES(mutex_);
  // Replaces the file by one that holds only what is open: it would grow for ever otherwise.
  Result<void> Rewrite() REQUIRES(mutex_);
  Result<void> Adopt(const std::string& directory, const std::string& name);

  std::string path_;
  std::vector<Held> dead_;
  std::set<SliceKey> abandoned_;
  Mutex mutex_;
  UniqueFd fd_ GUARDED_BY(mutex_);
  std::set<SliceKey> open_ GUARDED_BY(mutex_);
  std::size_t lines_ GUARDED_BY(mutex_) = 0;
};

// The slices that a journal's text leaves open. An incomplete last line is one that was never
// followed by an upload.
std::set<SliceKey> OpenSlices(std::string_view journal);

}  // namespace paddleop::volume::data
