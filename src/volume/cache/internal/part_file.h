// Ranges of a block in a sparse file.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/posix.h"
#include "volume/cache/disk_cache.h"

namespace paddleop::volume::cache {

inline constexpr std::uint32_t kPageBytes = 4096;

// The file, with `length` the block's and everything after it in little-endian order:
//   [0, length)              the block's bytes where pages are present, holes elsewhere
//   E = length rounded up to 4 KiB
//   [E, E + 4096)            "SFSPART1", length (4 bytes), pages (4), zeros to 64, then a bitmap of
//                            the pages that are present, lowest bit first
//   [E + 4096, + 4 * pages)  CRC-32C of each page
// A page's bit is set after its bytes and checksum are written, and cleared before its bytes go.
// Writers of all processes take turns by flock; readers need no lock, since a page that is present
// never changes: one that fails its checksum is looked at again, for it may just have gone.
//
// Thread-safe.
class PartFile {
 public:
  enum class Outcome { kFound, kMissing, kCorrupt, kError };

  // Null with kMissing if there is no such file or it is being made; kCorrupt if it is none of
  // ours; kError with the errno. With `direct`, where the file system can, pages are read past the
  // page cache; the table of pages, which is small and read again and again, is not.
  struct Opened {
    std::shared_ptr<PartFile> file;
    Outcome outcome = Outcome::kMissing;
    int error = 0;
  };
  // For Trim and Write it takes kWrite, and the right to.
  enum class Access { kRead, kWrite };
  static Opened Open(const std::string& path, std::uint32_t length, bool direct,
                     Access access = Access::kRead);
  // Makes it if it is not there. Its folder must exist.
  static Result<std::shared_ptr<PartFile>> Create(const std::string& path, std::uint32_t length,
                                                  mode_t mode);

  bool Contains(std::uint32_t offset, std::uint32_t size);
  // How many bytes are present.
  std::uint64_t Present();
  // After kError, last_error() has the errno.
  Outcome Read(std::uint32_t offset, std::span<std::byte> out);
  // Keeps the whole pages of `data`.
  Result<void> Write(std::uint32_t offset, std::span<const std::byte> data);
  // Sends what was written of these bytes to the disk and out of the page cache.
  void LeaveMemory(std::uint32_t offset, std::size_t size);
  // True if pages are here, or take space, that do not touch `keep`.
  bool HasOutside(std::span<const BlockFile::Span> keep);
  // Gives those back to the disk.
  Result<void> Trim(std::span<const BlockFile::Span> keep);

  // True if the file has no name any more.
  bool Unlinked() const;

  int fd() const { return fd_.get(); }
  int last_error() const { return last_error_; }

 private:
  PartFile(UniqueFd fd, std::string path, std::uint32_t length);
  Outcome Load() REQUIRES(mutex_);
  // Whether all of these pages are here: kFound or why not.
  Outcome Look(std::uint32_t first, std::uint32_t last);
  void OpenDirect();
  bool ReadDirect(std::uint32_t first, std::span<std::byte> pages);
  bool Has(std::uint32_t first, std::uint32_t last) const REQUIRES(mutex_);
  Outcome Check(std::uint32_t first, std::span<const std::byte> pages);
  Outcome ReadPages(std::uint32_t first, std::span<std::byte> pages);
  // For each page whether it touches one of the spans.
  std::vector<bool> Touched(std::span<const BlockFile::Span> spans) const;
  std::uint32_t PageLength(std::uint32_t page) const;

  const UniqueFd fd_;
  UniqueFd direct_;  // for reading pages; set before anybody else has the object
  const std::string path_;
  const std::uint32_t length_;
  const std::uint32_t pages_;
  const std::uint64_t header_at_;
  std::atomic<int> last_error_ = 0;
  Mutex mutex_;
  std::vector<std::uint8_t> bitmap_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> checksums_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume::cache
