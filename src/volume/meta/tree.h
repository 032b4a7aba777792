// A whole tree of a volume in memory, small enough for millions of files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/page_allocator.h"
#include "volume/format/types.h"

namespace paddleop::volume {

class TreeBuilder;

// An immutable snapshot: entries of each directory sorted by name, attributes, and (if loaded)
// slices and where symbolic links lead. About 100 bytes and the name for each file with one slice.
// Movable, thread-safe to read.
class Tree {
 public:
  // Position of an inode's record; stable for the life of the tree.
  using NodeIndex = std::uint32_t;
  static constexpr NodeIndex kNone = UINT32_MAX;

  struct Child {
    std::string_view name;
    NodeIndex node = kNone;
  };

  Tree();
  ~Tree();
  Tree(Tree&&) noexcept;
  Tree& operator=(Tree&&) noexcept;

  Ino root() const { return root_; }
  // Inodes in the tree, the root included.
  std::size_t node_count() const { return nodes_.size(); }
  // Names in the tree.
  std::size_t entry_count() const { return entries_.size(); }
  bool has_slices() const { return has_slices_; }

  // Node of an inode, or kNone.
  NodeIndex Find(Ino ino) const;
  // Node of a name in a directory, or kNone.
  NodeIndex Lookup(NodeIndex directory, std::string_view name) const;
  Ino ino(NodeIndex node) const { return nodes_[node].ino; }
  FileType type(NodeIndex node) const { return static_cast<FileType>(nodes_[node].type); }
  std::uint64_t length(NodeIndex node) const { return nodes_[node].length; }
  // All but the ACL ids, tier and tail, which a snapshot does not keep.
  Attr attr(NodeIndex node) const;

  std::size_t child_count(NodeIndex directory) const;
  // The i-th child in name order.
  Child child(NodeIndex directory, std::size_t i) const;

  // Records of a chunk in write order.
  std::vector<Slice> Slices(NodeIndex file, std::uint32_t index) const;

  // True if a file of this tree and one of another have the same records in every chunk.
  bool SameRecords(NodeIndex file, const Tree& other, NodeIndex other_file) const;

  // Where a symbolic link leads; nothing if it is none or if that was not loaded.
  std::optional<std::string_view> Target(NodeIndex link) const;

  // Up to `count` slices, each once, that `file` and the files after it in order of inode lie in,
  // the first slice of `file` left out: what an import wrote next.
  std::vector<SliceKey> SlicesAfter(NodeIndex file, std::size_t count) const;

  // Resident size of the arrays.
  std::size_t MemoryBytes() const;

 private:
  friend class TreeBuilder;

  template <class T>
  using Array = std::vector<T, PageAllocator<T>>;

#pragma pack(push, 1)
  struct Node {
    Ino ino;
    std::int64_t atime_ns;
    std::int64_t mtime_ns;
    std::int64_t ctime_ns;
    std::uint64_t length;  // of a device: its rdev
    Ino parent;
    std::uint32_t nlink;
    // Of a directory: index in directories_; file: first record in slices_; symbolic link: index
    // in targets_; or kNone.
    std::uint32_t link;
    std::uint32_t owner;  // index in owners_
    std::uint16_t mode;
    std::uint8_t type;
    std::uint8_t flags;
  };
  struct NameRef {
    std::uint64_t offset : 40;
    std::uint64_t size : 8;
    std::uint64_t unused : 16;
    NodeIndex node;
  };
  // A record with its chunk index; the last record of a file is marked.
  struct Record {
    std::uint32_t pos;
    std::uint64_t id;
    std::uint32_t size;
    std::uint32_t off;
    std::uint32_t len;
    std::uint32_t index : 31;
    std::uint32_t last : 1;

    bool operator==(const Record&) const = default;
  };
#pragma pack(pop)
  struct PathRef {
    std::uint64_t offset = 0;  // in names_
    std::uint32_t size = 0;
  };
  struct Directory {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  std::string_view NameOf(const NameRef& ref) const {
    return std::string_view(names_).substr(ref.offset, ref.size);
  }

  Ino root_ = kRootIno;
  bool has_slices_ = false;
  Array<Node> nodes_;  // sorted by inode
  Array<NameRef> entries_;
  std::vector<Directory> directories_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> owners_;  // uid, gid
  Array<Record> slices_;
  std::vector<PathRef> targets_;
  std::basic_string<char, std::char_traits<char>, PageAllocator<char>> names_;
};

}  // namespace paddleop::volume
