// The seam between the rules of the file system and the engines that store it. The rules are
// written once over MetaTxn; an engine supplies the transaction and knows how each value is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "volume/format/types.h"
#include "volume/meta/meta_types.h"

namespace paddleop::volume {

// A directory that holds a name of a file, and how many names of the file it holds.
struct ParentCount {
  Ino parent = kNoIno;
  std::int64_t count = 0;
};

// What to fetch in one round trip. Each method names a thing and where its value goes; the targets
// must live until MetaTxn::Read returns, and so must the names.
class ReadSet {
 public:
  enum class Kind { kAttr, kEdge, kHasChildren, kChunk, kChunkIndexes, kXattr, kParents };
  struct Request {
    Kind kind;
    Ino ino;
    std::uint32_t first = 0;  // kChunk: the index; kChunkIndexes: the first index of interest
    std::uint32_t last = 0;   // kChunkIndexes: the last index of interest
    std::string_view name;    // kEdge, kXattr
    void* target = nullptr;
  };

  // Absent if there is no such inode.
  ReadSet& Attr(Ino ino, std::optional<volume::Attr>* out) {
    return Add({.kind = Kind::kAttr, .ino = ino, .name = {}, .target = out});
  }
  // The entry `name` of directory `parent`.
  ReadSet& Edge(Ino parent, std::string_view name, std::optional<volume::Edge>* out) {
    return Add({.kind = Kind::kEdge, .ino = parent, .name = name, .target = out});
  }
  // Whether directory `ino` has any entry.
  ReadSet& HasChildren(Ino ino, bool* out) {
    return Add({.kind = Kind::kHasChildren, .ino = ino, .name = {}, .target = out});
  }
  // Records of a chunk; absent if the chunk has no list.
  ReadSet& Chunk(Ino ino, std::uint32_t index, std::optional<std::vector<Slice>>* out) {
    return Add({.kind = Kind::kChunk, .ino = ino, .first = index, .name = {}, .target = out});
  }
  // Which chunks from `first` to `last` (inclusive) have a list, sorted.
  ReadSet& ChunkIndexes(Ino ino, std::uint32_t first, std::uint32_t last,
                        std::vector<std::uint32_t>* out) {
    return Add({.kind = Kind::kChunkIndexes,
                .ino = ino,
                .first = first,
                .last = last,
                .name = {},
                .target = out});
  }
  ReadSet& Xattr(Ino ino, std::string_view name, std::optional<std::string>* out) {
    return Add({.kind = Kind::kXattr, .ino = ino, .name = name, .target = out});
  }
  // Directories that hold names of a file whose attr.parent is kNoIno.
  ReadSet& Parents(Ino ino, std::vector<ParentCount>* out) {
    return Add({.kind = Kind::kParents, .ino = ino, .name = {}, .target = out});
  }

  std::span<const Request> requests() const { return requests_; }
  bool empty() const { return requests_.empty(); }

 private:
  ReadSet& Add(Request request) {
    requests_.push_back(request);
    return *this;
  }

  std::vector<Request> requests_;
};

// One transaction, used by one thread. Everything read is protected: if another client changes it
// before the commit, the engine runs the body again with fresh reads (or has locked it out). Writes
// take effect together at commit, in the order given; reads do not see the writes of their own
// transaction, so a body reads everything first. A write cannot fail by itself: what goes wrong
// with it fails the commit.
//
// A body may run several times: it must not change anything outside itself except results that
// every run sets anew.
class MetaTxn {
 public:
  virtual ~MetaTxn() = default;

  // Fetches all of it in one round trip. May be called again for what depends on the answers.
  virtual Result<void> Read(const ReadSet& reads) = 0;

  // -- Inodes and names --
  // A new inode. kCorrupt at commit if it exists (SQL).
  virtual void InsertNode(Ino ino, const Attr& attr) = 0;
  // An inode that Read returned, with its new attributes.
  virtual void UpdateNode(Ino ino, const Attr& attr) = 0;
  virtual void DeleteNode(Ino ino) = 0;
  // Adds the entry or replaces what it stands for.
  virtual void PutEdge(Ino parent, std::string_view name, const Edge& edge) = 0;
  virtual void DeleteEdge(Ino parent, std::string_view name) = 0;
  // Counts names of a file that has (had) several: Redis keeps them in a hash, SQL finds them by
  // the index over edges and does nothing here.
  virtual void AddParent(Ino ino, Ino parent, std::int64_t delta) = 0;
  virtual void DeleteParents(Ino ino) = 0;

  virtual void PutSymlink(Ino ino, std::string_view target) = 0;
  virtual void DeleteSymlink(Ino ino) = 0;
  virtual void PutXattr(Ino ino, std::string_view name, std::string_view value) = 0;
  virtual void DeleteXattr(Ino ino, std::string_view name) = 0;
  virtual void DeleteXattrs(Ino ino) = 0;

  // -- Slices --
  // Appends records to a chunk, making its list if there is none. References are separate.
  virtual void AppendSlices(Ino ino, std::uint32_t index, std::span<const Slice> slices) = 0;
  // Removes the chunk's list.
  virtual void DeleteChunk(Ino ino, std::uint32_t index) = 0;
  // A slice nobody referred to before, now with `references` (at least 1).
  virtual void NewSlice(const SliceKey& slice, std::int64_t references) = 0;
  // More references to a slice that has some.
  virtual void RetainSlice(const SliceKey& slice, std::int64_t references) = 0;
  // One reference less. Slices without any left are in TxnOutcome::garbage after commit.
  virtual void ReleaseSlice(const SliceKey& slice) = 0;

  // -- Accounts --
  // The volume's usedSpace and totalInodes.
  virtual void AddUsage(std::int64_t space, std::int64_t inodes) = 0;
  // Statistics of a new, empty directory.
  virtual void InitDirUsage(Ino ino) = 0;
  // Adds to the statistics of a directory. If it has none on record, they are counted afresh from
  // its entries, with the effects of this transaction. An empty delta only makes sure of a record.
  virtual void AddDirUsage(Ino ino, const DirUsage& delta) = 0;
  // Removes statistics and quota of a directory.
  virtual void DeleteDirUsage(Ino ino) = 0;
  // Usage of a directory that has a quota; nothing if the quota is gone meanwhile.
  virtual void AddQuotaUsage(Ino ino, std::int64_t space, std::int64_t inodes) = 0;

  // -- Deletion --
  // The file's data is to be deleted; `now` in seconds since the epoch.
  virtual void QueueDeletion(Ino ino, std::uint64_t length, std::int64_t now) = 0;
  // The data of a queued file is gone.
  virtual void ForgetDeletion(Ino ino, std::uint64_t length) = 0;
  // A file without names that is open in session `sid`.
  virtual void Sustain(std::uint64_t sid, Ino ino) = 0;
  virtual void Unsustain(std::uint64_t sid, Ino ino) = 0;
};

// What is known only once a transaction has committed.
struct TxnOutcome {
  std::vector<SliceKey> garbage;
};

}  // namespace paddleop::volume
