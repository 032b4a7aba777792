#include "volume/meta/tree.h"

#include <algorithm>

namespace paddleop::volume {
namespace {

Timestamp FromNanos(std::int64_t nanos) {
  std::int64_t seconds = nanos / 1'000'000'000;
  std::int64_t rest = nanos % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  return {.seconds = seconds, .nanos = static_cast<std::uint32_t>(rest)};
}

bool IsDevice(FileType type) {
  return type == FileType::kBlockDevice || type == FileType::kCharDevice;
}

}  // namespace

Tree::Tree() = default;
Tree::~Tree() = default;
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(Tree&&) noexcept = default;

Tree::NodeIndex Tree::Find(Ino ino) const {
  if (nodes_.empty() || ino < nodes_.front().ino || ino > nodes_.back().ino) return kNone;
  // Inodes are given out in order, so most trees have few gaps: the place is at most this far in,
  // and usually right there.
  const std::uint64_t most =
      std::min<std::uint64_t>(ToInt(ino) - ToInt(nodes_.front().ino), nodes_.size() - 1);
  if (nodes_[most].ino == ino) return static_cast<NodeIndex>(most);
  const auto end = nodes_.begin() + static_cast<std::ptrdiff_t>(most) + 1;
  const auto at = std::lower_bound(nodes_.begin(), end, ino,
                                   [](const Node& node, Ino key) { return node.ino < key; });
  if (at == end || at->ino != ino) return kNone;
  return static_cast<NodeIndex>(at - nodes_.begin());
}

Tree::NodeIndex Tree::Lookup(NodeIndex directory, std::string_view name) const {
  const Node& node = nodes_[directory];
  if (type(directory) != FileType::kDirectory || node.link == kNone) return kNone;
  const Directory& range = directories_[node.link];
  const auto begin = entries_.begin() + range.first;
  const auto end = begin + range.count;
  const auto at = std::lower_bound(
      begin, end, name,
      [this](const NameRef& ref, std::string_view key) { return NameOf(ref) < key; });
  if (at == end || NameOf(*at) != name) return kNone;
  return at->node;
}

Attr Tree::attr(NodeIndex index) const {
  const Node& node = nodes_[index];
  Attr attr;
  attr.type = static_cast<FileType>(node.type);
  attr.flags = node.flags;
  attr.mode = node.mode;
  attr.uid = owners_[node.owner].first;
  attr.gid = owners_[node.owner].second;
  attr.nlink = node.nlink;
  attr.atime = FromNanos(node.atime_ns);
  attr.mtime = FromNanos(node.mtime_ns);
  attr.ctime = FromNanos(node.ctime_ns);
  attr.parent = node.parent;
  if (IsDevice(attr.type)) {
    attr.rdev = static_cast<std::uint32_t>(node.length);
  } else {
    attr.length = node.length;
  }
  return attr;
}

std::size_t Tree::child_count(NodeIndex directory) const {
  const Node& node = nodes_[directory];
  if (type(directory) != FileType::kDirectory || node.link == kNone) return 0;
  return directories_[node.link].count;
}

Tree::Child Tree::child(NodeIndex directory, std::size_t i) const {
  const NameRef& ref = entries_[directories_[nodes_[directory].link].first + i];
  return {.name = NameOf(ref), .node = ref.node};
}

std::vector<Slice> Tree::Slices(NodeIndex file, std::uint32_t index) const {
  std::vector<Slice> slices;
  const Node& node = nodes_[file];
  if (type(file) != FileType::kFile || node.link == kNone) return slices;
  for (std::size_t i = node.link;; ++i) {
    const Record& record = slices_[i];
    if (record.index == index) {
      slices.push_back({.pos = record.pos,
                        .id = record.id,
                        .size = record.size,
                        .off = record.off,
                        .len = record.len});
    }
    if (record.last != 0) return slices;
  }
}

bool Tree::SameRecords(NodeIndex file, const Tree& other, NodeIndex other_file) const {
  const auto first = [](const Tree& tree, NodeIndex node) -> const Record* {
    const std::uint32_t link = tree.type(node) == FileType::kFile ? tree.nodes_[node].link : kNone;
    return link == kNone ? nullptr : &tree.slices_[link];
  };
  const Record* ours = first(*this, file);
  const Record* theirs = first(other, other_file);
  if (ours == nullptr || theirs == nullptr) return ours == theirs;
  for (;; ++ours, ++theirs) {
    if (!(*ours == *theirs)) return false;
    if (ours->last != 0) return true;
  }
}

std::optional<std::string_view> Tree::Target(NodeIndex link) const {
  const Node& node = nodes_[link];
  if (type(link) != FileType::kSymlink || node.link == kNone) return std::nullopt;
  const PathRef& path = targets_[node.link];
  return std::string_view(names_).substr(path.offset, path.size);
}

std::vector<SliceKey> Tree::SlicesAfter(NodeIndex file, std::size_t count) const {
  constexpr std::size_t kMostRecords = 100'000;
  std::vector<SliceKey> found;
  if (type(file) != FileType::kFile || nodes_[file].link == kNone) return found;
  const std::size_t first = nodes_[file].link;
  const std::size_t end = std::min(slices_.size(), first + kMostRecords);
  std::uint64_t last = slices_[first].id;
  for (std::size_t i = first; i < end && found.size() < count; ++i) {
    const Record& record = slices_[i];
    const std::uint64_t id = record.id;
    if (id == 0 || id == last) continue;
    last = id;
    found.push_back({.id = id, .size = record.size});
  }
  return found;
}

std::size_t Tree::MemoryBytes() const {
  return nodes_.capacity() * sizeof(Node) + entries_.capacity() * sizeof(NameRef) +
         directories_.capacity() * sizeof(Directory) + owners_.capacity() * sizeof(owners_[0]) +
         slices_.capacity() * sizeof(Record) + targets_.capacity() * sizeof(PathRef) +
         names_.capacity();
}

}  // namespace paddleop::volume
