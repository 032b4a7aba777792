#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "volume/meta/internal/engine.h"
#include "volume/meta/tree.h"

namespace paddleop::volume {

// Collects the parts of a tree in any order and puts them in place.
class TreeBuilder final : public TreeSink {
 public:
  TreeBuilder(Ino root, bool with_slices);

  Result<void> Node(Ino ino, const Attr& attr) override;
  Result<void> Entry(Ino parent, std::string_view name, const Edge& edge) override;
  Result<void> Again(Ino directory, const Attr& attr) override;
  Result<void> Chunk(Ino ino, std::uint32_t index, std::span<const Slice> slices) override;
  Result<void> Link(Ino ino, std::string_view target) override;

  // The tree of all that hangs together with the root. kNotFound if the root is missing.
  Result<Tree> Build() &&;

 private:
  struct PendingEntry {
    Ino parent;
    Ino child;
    std::uint64_t offset : 40;
    std::uint64_t size : 8;
    std::uint64_t unused : 16;
  };
  struct PendingRecord {
    Ino ino;
    std::uint32_t index;
    Slice slice;
  };
  struct PendingLink {
    Ino ino;
    Tree::PathRef target;
  };

  struct Newer {
    Tree::Node node;
    std::uint64_t offset;  // of its first name
  };

  Tree::Node MakeNode(Ino ino, const Attr& attr);
  void SortNodes();
  void PlaceEntries();
  // Drops the names that nothing refers to any more.
  void CompactNames();
  // Drops what the root does not lead to.
  void DropUnreachable();
  void PlaceSlices();
  void PlaceLinks();

  Tree tree_;
  Tree::Array<PendingEntry> entries_;
  Tree::Array<PendingRecord> records_;
  std::vector<PendingLink> links_;
  std::unordered_map<Ino, Newer> again_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> owners_;
};

}  // namespace paddleop::volume
