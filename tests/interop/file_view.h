#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/status.h"
#include "volume/vfs/volume.h"

namespace paddleop::testing {

// What a test compares of a file tree.
struct FileFacts {
  char type = '?';  // f, d, l
  unsigned mode = 0;
  std::uint64_t size = 0;   // of files
  std::uint64_t links = 0;  // of files
  std::int64_t mtime = 0;   // seconds, of files
  std::string content;      // of files; the target of links
  std::map<std::string, std::string> xattrs;

  bool operator==(const FileFacts&) const = default;
};

std::string Describe(const FileFacts& facts);

// The same operations on a file tree, whoever provides it. Paths are relative to its root.
class FileView {
 public:
  virtual ~FileView() = default;
  virtual Result<void> Write(const std::string& path, std::uint64_t offset,
                             std::string_view data) = 0;
  virtual Result<void> Truncate(const std::string& path, std::uint64_t length) = 0;
  virtual Result<void> PunchHole(const std::string& path, std::uint64_t offset,
                                 std::uint64_t length) = 0;
  virtual Result<void> Mkdir(const std::string& path) = 0;
  virtual Result<void> Rmdir(const std::string& path) = 0;
  virtual Result<void> Unlink(const std::string& path) = 0;
  virtual Result<void> Rename(const std::string& from, const std::string& to) = 0;
  virtual Result<void> Link(const std::string& existing, const std::string& path) = 0;
  virtual Result<void> Symlink(const std::string& target, const std::string& path) = 0;
  virtual Result<void> Chmod(const std::string& path, unsigned mode) = 0;
  virtual Result<void> SetTime(const std::string& path, std::int64_t mtime) = 0;
  virtual Result<void> SetXattr(const std::string& path, const std::string& name,
                                const std::string& value) = 0;
  // Everything below the root.
  virtual Result<std::map<std::string, FileFacts>> Snapshot() = 0;
};

// A directory of this machine, or a mount.
std::unique_ptr<FileView> MakePosixView(std::string root);
// Our own client, through the library.
std::unique_ptr<FileView> MakeVolumeView(volume::Volume& volume);

}  // namespace paddleop::testing
