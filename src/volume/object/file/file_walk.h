#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/context.h"
#include "volume/object/internal/list_filter.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

// One listing of a directory tree in key order. It reads each directory whole, once, and holds the
// names of those between the root and where it stands.
class FileWalk {
 public:
  FileWalk(const Context& ctx, std::string root, const ListOptions& options,
           const ListVisitor& visit);

  Result<void> Run();

  // Whether the key can be the path of a file below a root.
  static bool IsFileKey(std::string_view key);
  // The name a file has until its content is complete; such files are no objects.
  static std::string TemporaryName(std::string_view name);
  static bool IsTemporary(std::string_view name);
  // What GetOptions::if_match is compared with. The inode number tells a replaced file from an
  // edited one that kept its size and time.
  static std::string Etag(const struct stat& info);
  static std::chrono::system_clock::time_point ModifiedAt(const struct stat& info);
  static FileOwner OwnerOf(const struct stat& info);

 private:
  struct Entry {
    std::string key;  // the last part of it, with '/' for a directory
    bool is_directory = false;
    std::string problem = {};  // why it cannot be read
  };

  // `directory` is the key of the directory: empty or with a trailing '/'.
  Result<bool> Directory(const std::string& directory);
  Result<std::vector<Entry>> ReadEntries(const std::string& directory);
  // What a name of the directory stands for; nothing if it is to be passed over.
  std::optional<Entry> EntryOf(int directory, const struct dirent& found) const;
  Result<bool> Show(const std::string& key, const Entry& entry);
  // Whether a symbolic link to a directory may be followed.
  bool LeadsUp(const struct stat& info) const;

  const Context& ctx_;
  const std::string root_;
  const ListOptions& options_;
  internal::ListFilter filter_;
  std::vector<std::pair<dev_t, ino_t>> parents_;
};

}  // namespace paddleop::volume::object
