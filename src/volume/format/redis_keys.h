// Names of the Redis keys of a volume. `prefix` is empty except on a cluster, where a hash tag
// keeps the volume in one slot.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "volume/format/types.h"

namespace paddleop::volume {

class RedisKeys {
 public:
  explicit RedisKeys(std::string prefix = "") : prefix_(std::move(prefix)) {}

  const std::string& prefix() const { return prefix_; }

  std::string Setting() const { return prefix_ + "setting"; }
  std::string Attr(Ino ino) const { return Numbered("i", ToInt(ino)); }
  std::string Dir(Ino ino) const { return Numbered("d", ToInt(ino)); }
  std::string Parents(Ino ino) const { return Numbered("p", ToInt(ino)); }
  std::string Chunk(Ino ino, std::uint32_t index) const;
  std::string Symlink(Ino ino) const { return Numbered("s", ToInt(ino)); }
  std::string Xattr(Ino ino) const { return Numbered("x", ToInt(ino)); }
  std::string FlockOf(Ino ino) const { return Numbered("lockf", ToInt(ino)); }
  std::string PlockOf(Ino ino) const { return Numbered("lockp", ToInt(ino)); }
  std::string LockedBy(std::uint64_t sid) const { return Numbered("locked", sid); }
  std::string Sustained(std::uint64_t sid) const { return Numbered("session", sid); }

  std::string AllSessions() const { return prefix_ + "allSessions"; }
  std::string SessionInfos() const { return prefix_ + "sessionInfos"; }
  std::string DelFiles() const { return prefix_ + "delfiles"; }
  std::string DetachedNodes() const { return prefix_ + "detachedNodes"; }
  std::string DelSlices() const { return prefix_ + "delSlices"; }
  std::string SliceRef() const { return prefix_ + "sliceRef"; }
  std::string DirDataLength() const { return prefix_ + "dirDataLength"; }
  std::string DirUsedSpace() const { return prefix_ + "dirUsedSpace"; }
  std::string DirUsedInodes() const { return prefix_ + "dirUsedInodes"; }
  std::string DirQuota() const { return prefix_ + "dirQuota"; }
  std::string DirQuotaUsedSpace() const { return prefix_ + "dirQuotaUsedSpace"; }
  std::string DirQuotaUsedInodes() const { return prefix_ + "dirQuotaUsedInodes"; }
  // A counter by its Redis spelling: nextinode, nextchunk, nextsession, nextTrash, usedSpace,
  // totalInodes, lastCleanupSessions, lastCleanupFiles, lastCleanupTrash, nextCleanupSlices.
  std::string Counter(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  std::string Numbered(std::string_view kind, std::uint64_t number) const;

  std::string prefix_;
};

// Field of the hash sliceRef: "k<id>_<size>".
std::string SliceRefField(const SliceKey& slice);
Result<SliceKey> ParseSliceRefField(std::string_view field);

// Member of the sorted set delfiles: "<ino>:<length>".
std::string DelFileMember(Ino ino, std::uint64_t length);
Result<std::pair<Ino, std::uint64_t>> ParseDelFileMember(std::string_view member);

// Inode and index of a chunk key (without its prefix): "c<ino>_<index>".
Result<std::pair<Ino, std::uint32_t>> ParseChunkKey(std::string_view key);

}  // namespace paddleop::volume
