// Values that go in and out of a MetaStore.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volume/format/types.h"

namespace paddleop::volume {

// On whose behalf an operation runs. User 0 may do everything.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary
  std::uint16_t umask = 0;
  // False where somebody else (the kernel, with default_permissions) has checked the permission
  // bits already. Sticky directories and immutable files are honoured all the same.
  bool check_permissions = true;

  bool InGroup(std::uint32_t group) const {
    return group == gid || std::find(groups.begin(), groups.end(), group) != groups.end();
  }
};

// Bits of an access mask, as in access(2).
inline constexpr unsigned kMayRead = 4;
inline constexpr unsigned kMayWrite = 2;
inline constexpr unsigned kMayExecute = 1;

// kPermission if the mode bits do not allow `caller` all of `mask`.
Result<void> CheckAccess(const Caller& caller, const Attr& attr, unsigned mask);

// When a file was last changed that says `stored` and was written to at `written`: a write that is
// known late takes nobody else's time back. A time that is still to come was set by somebody.
inline Timestamp MtimeAfterWrite(const Timestamp& stored, const Timestamp& written,
                                 const Timestamp& now) {
  return stored > now ? written : std::max(stored, written);
}

// An inode found or made.
struct Entry {
  Ino ino = kNoIno;
  Attr attr;
};

// A name in a directory, for LookupMany. The name must live as long as this.
struct ChildName {
  Ino parent = kNoIno;
  std::string_view name;
};

// An extended attribute of the root that changes whenever an import or a removal in bulk has
// changed the tree: what holds a view of the whole tree polls it.
inline constexpr std::string_view kTreeVersionXattr = "user.samplefs.tree-version";

struct DirEntry {
  std::string name;
  Ino ino = kNoIno;
  FileType type = FileType::kFile;
  // Absent if attributes were not asked for, or if the entry points nowhere (a damaged volume).
  std::optional<Attr> attr;
};

struct DirPage {
  std::vector<DirEntry> entries;
  std::string next;  // cursor of the next page; empty at the end
};

// What to change; absent members stay.
struct AttrChange {
  std::optional<std::uint16_t> mode;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::uint64_t> length;
  std::optional<std::uint8_t> flags;
  std::optional<Timestamp> atime;
  std::optional<Timestamp> mtime;
  // The caller asked for "now" rather than a time of its own, which needs fewer permissions.
  bool atime_now = false;
  bool mtime_now = false;
};

enum class RenameMode {
  kReplace,    // an existing target is replaced
  kNoReplace,  // kAlreadyExists if there is a target
  kExchange,   // both names must exist and swap what they stand for
};

enum class XattrMode { kAny, kCreate, kReplace };

enum class FallocateMode {
  kExtend,     // grow the file if the range lies beyond its end
  kKeepSize,   // reserve only: checks, changes nothing
  kPunchHole,  // zeros, never grows
  kZeroRange,  // zeros, grows
  kZeroRangeKeepSize,
};

struct StatFs {
  std::uint64_t total_space = 0;
  std::uint64_t available_space = 0;
  std::uint64_t used_space = 0;
  std::uint64_t used_inodes = 0;
  std::uint64_t available_inodes = 0;
};

// Usage of a directory: its direct children only, or its whole tree, as the method says.
struct DirUsage {
  std::int64_t length = 0;
  std::int64_t space = 0;
  std::int64_t inodes = 0;

  DirUsage& operator+=(const DirUsage& other) {
    length += other.length;
    space += other.space;
    inodes += other.inodes;
    return *this;
  }
  DirUsage operator-() const { return {-length, -space, -inodes}; }
  bool IsZero() const { return length == 0 && space == 0 && inodes == 0; }
  bool operator==(const DirUsage&) const = default;
};

// What a child contributes to its directory.
inline DirUsage UsageOf(const Attr& attr) {
  return {.length = attr.type == FileType::kFile ? static_cast<std::int64_t>(attr.length) : 0,
          .space = static_cast<std::int64_t>(ChargedSpace(attr)),
          .inodes = 1};
}

struct TreeSummary {
  std::uint64_t length = 0;
  std::uint64_t space = 0;
  std::uint64_t files = 0;
  std::uint64_t directories = 0;  // with the root of the tree
};

// Limits on a directory's whole tree; 0 is unlimited.
struct DirQuota {
  std::int64_t max_space = 0;
  std::int64_t max_inodes = 0;
  std::int64_t used_space = 0;
  std::int64_t used_inodes = 0;

  bool operator==(const DirQuota&) const = default;
};

struct SessionInfo {
  std::string version;  // a version number that official tools can read
  std::string host_name;
  std::string mount_point;  // or what this client is, if it mounts nothing
  std::uint64_t process_id = 0;
};

struct SessionRecord {
  std::uint64_t sid = 0;
  std::int64_t expires = 0;  // seconds since the epoch
  std::string info_json;
};

// The records of one chunk of a file.
struct ChunkSlices {
  std::uint32_t index = 0;
  std::vector<Slice> slices;
};

// A complete file (or symbolic link) for CommitFiles.
struct NewFile {
  Ino parent = kNoIno;
  std::string name;
  FileType type = FileType::kFile;
  std::uint16_t mode = 0644;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  Timestamp atime;
  Timestamp mtime;
  std::uint64_t length = 0;
  std::vector<ChunkSlices> chunks;
  std::string symlink_target;
};

struct CommitOptions {
  // An existing file of the same name is replaced, as rename would; otherwise that file fails with
  // kAlreadyExists.
  bool replace = false;
  // Slices that other files refer to already; all others are new with this call.
  std::vector<SliceKey> existing_slices;
};

struct RemoveTreeOptions {
  bool skip_trash = false;
};

struct RemoveTreeDone {
  std::uint64_t removed = 0;  // names removed, directories included
};

// A file whose last name is gone and whose data waits to be deleted.
struct DeletedFile {
  Ino ino = kNoIno;
  std::uint64_t length = 0;
  std::int64_t deleted = 0;  // seconds since the epoch
};

}  // namespace paddleop::volume
