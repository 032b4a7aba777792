#include "volume/meta/internal/tree_builder.h"

#include <algorithm>

namespace paddleop::volume {
namespace {

std::int64_t ToNanos(const Timestamp& time) {
  constexpr std::int64_t kMost = INT64_MAX / 1'000'000'000 - 1;
  const std::int64_t seconds = std::clamp(time.seconds, -kMost, kMost);
  return seconds * 1'000'000'000 + time.nanos;
}

}  // namespace

TreeBuilder::TreeBuilder(Ino root, bool with_slices) {
  tree_.root_ = root;
  tree_.has_slices_ = with_slices;
}

Result<void> TreeBuilder::Node(Ino ino, const Attr& attr) {
  if (tree_.nodes_.size() >= Tree::kNone) {
    return Fail(Code::kNotSupported, "a tree in memory holds at most {} inodes", Tree::kNone);
  }
  tree_.nodes_.push_back(MakeNode(ino, attr));
  return {};
}

Tree::Node TreeBuilder::MakeNode(Ino ino, const Attr& attr) {
  const auto owner = owners_.try_emplace({attr.uid, attr.gid}, owners_.size()).first->second;
  Tree::Node node{};
  node.ino = ino;
  node.atime_ns = ToNanos(attr.atime);
  node.mtime_ns = ToNanos(attr.mtime);
  node.ctime_ns = ToNanos(attr.ctime);
  const bool device = attr.type == FileType::kBlockDevice || attr.type == FileType::kCharDevice;
  node.length = device ? attr.rdev : attr.length;
  node.parent = attr.parent;
  node.nlink = attr.nlink;
  node.link = Tree::kNone;
  node.owner = owner;
  node.mode = attr.mode;
  node.type = static_cast<std::uint8_t>(attr.type);
  node.flags = attr.flags;
  return node;
}

Result<void> TreeBuilder::Again(Ino directory, const Attr& attr) {
  again_.insert_or_assign(directory,
                          Newer{.node = MakeNode(directory, attr), .offset = tree_.names_.size()});
  return {};
}

Result<void> TreeBuilder::Entry(Ino parent, std::string_view name, const Edge& edge) {
  if (IsTrash(parent)) return {};
  if (name.size() > kMaxName) {
    return Fail(Code::kCorrupt, "directory {} has a name of {} bytes", ToInt(parent), name.size());
  }
  PendingEntry entry{};
  entry.parent = parent;
  entry.child = edge.ino;
  entry.offset = tree_.names_.size() & ((1ULL << 40) - 1);
  entry.size = name.size() & 0xFF;
  tree_.names_.append(name);
  entries_.push_back(entry);
  return {};
}

Result<void> TreeBuilder::Chunk(Ino ino, std::uint32_t index, std::span<const Slice> slices) {
  for (const Slice& slice : slices) {
    records_.push_back({.ino = ino, .index = index, .slice = slice});
  }
  return {};
}

Result<void> TreeBuilder::Link(Ino ino, std::string_view target) {
  links_.push_back({.ino = ino,
                    .target = {.offset = tree_.names_.size(),
                               .size = static_cast<std::uint32_t>(target.size())}});
  tree_.names_.append(target);
  return {};
}

void TreeBuilder::SortNodes() {
  auto& nodes = tree_.nodes_;
  const auto before = [](const Tree::Node& a, const Tree::Node& b) { return a.ino < b.ino; };
  if (!std::is_sorted(nodes.begin(), nodes.end(), before)) {
    std::sort(nodes.begin(), nodes.end(), before);
  }
  // A file with several names may have been given several times.
  nodes.erase(std::unique(nodes.begin(), nodes.end(),
                          [](const Tree::Node& a, const Tree::Node& b) { return a.ino == b.ino; }),
              nodes.end());
  for (const auto& [ino, newer] : again_) {
    if (const auto node = tree_.Find(ino); node != Tree::kNone) nodes[node] = newer.node;
  }
}

void TreeBuilder::PlaceEntries() {
  const std::string_view names = tree_.names_;
  std::sort(entries_.begin(), entries_.end(), [&](const PendingEntry& a, const PendingEntry& b) {
    if (a.parent != b.parent) return a.parent < b.parent;
    const int order = names.substr(a.offset, a.size).compare(names.substr(b.offset, b.size));
    return order != 0 ? order < 0 : a.offset > b.offset;  // the newest first
  });
  Ino current = kNoIno;
  Tree::NodeIndex directory = Tree::kNone;
  std::uint64_t oldest = 0;
  tree_.entries_.reserve(entries_.size());
  const PendingEntry* last = nullptr;
  for (const PendingEntry& entry : entries_) {
    if (entry.parent != current) {
      current = entry.parent;
      directory = tree_.Find(current);
      const auto newer = again_.find(current);
      oldest = newer == again_.end() ? 0 : newer->second.offset;
      last = nullptr;
    }
    if (entry.offset < oldest) continue;
    if (directory == Tree::kNone || tree_.type(directory) != FileType::kDirectory) continue;
    const Tree::NodeIndex child = tree_.Find(entry.child);
    if (child == Tree::kNone) continue;  // points nowhere
    const bool repeated = last != nullptr && names.substr(last->offset, last->size) ==
                                                 names.substr(entry.offset, entry.size);
    last = &entry;
    if (repeated) continue;  // an engine that scans may give an entry twice
    Tree::Node& node = tree_.nodes_[directory];
    if (node.link == Tree::kNone) {
      node.link = static_cast<std::uint32_t>(tree_.directories_.size());
      tree_.directories_.push_back(
          {.first = static_cast<std::uint32_t>(tree_.entries_.size()), .count = 0});
    }
    Tree::NameRef ref{};
    ref.offset = entry.offset;
    ref.size = entry.size;
    ref.node = child;
    tree_.entries_.push_back(ref);
    ++tree_.directories_[node.link].count;
  }
  entries_ = {};
}

void TreeBuilder::CompactNames() {
  if (again_.empty()) return;
  decltype(tree_.names_) names;
  for (Tree::NameRef& ref : tree_.entries_) {
    const std::string_view name = tree_.NameOf(ref);
    ref.offset = names.size() & ((1ULL << 40) - 1);
    names.append(name);
  }
  for (PendingLink& link : links_) {
    const auto target = std::string_view(tree_.names_).substr(link.target.offset, link.target.size);
    link.target.offset = names.size();
    names.append(target);
  }
  tree_.names_ = std::move(names);
}

void TreeBuilder::DropUnreachable() {
  auto& nodes = tree_.nodes_;
  std::vector<bool> reached(nodes.size());
  std::vector<Tree::NodeIndex> queue = {tree_.Find(tree_.root_)};
  reached[queue.front()] = true;
  std::size_t count = 1;
  while (!queue.empty()) {
    const Tree::NodeIndex directory = queue.back();
    queue.pop_back();
    for (std::size_t i = 0; i < tree_.child_count(directory); ++i) {
      const Tree::NodeIndex child = tree_.child(directory, i).node;
      if (reached[child]) continue;
      reached[child] = true;
      ++count;
      if (tree_.type(child) == FileType::kDirectory) queue.push_back(child);
    }
  }
  if (count == nodes.size()) return;
  std::vector<Tree::NodeIndex> moved(nodes.size(), Tree::kNone);
  Tree::NodeIndex next = 0;
  Tree::Array<Tree::NameRef> entries;
  std::vector<Tree::Directory> directories;
  for (Tree::NodeIndex i = 0; i < nodes.size(); ++i) {
    if (reached[i]) moved[i] = next++;
  }
  for (Tree::NodeIndex i = 0; i < nodes.size(); ++i) {
    if (!reached[i]) continue;
    Tree::Node node = nodes[i];
    if (tree_.type(i) == FileType::kDirectory && node.link != Tree::kNone) {
      const Tree::Directory range = tree_.directories_[node.link];
      node.link = static_cast<std::uint32_t>(directories.size());
      directories.push_back(
          {.first = static_cast<std::uint32_t>(entries.size()), .count = range.count});
      for (std::uint32_t k = 0; k < range.count; ++k) {
        Tree::NameRef ref = tree_.entries_[range.first + k];
        const Tree::NodeIndex target = ref.node;
        ref.node = moved[target];
        entries.push_back(ref);
      }
    }
    nodes[moved[i]] = node;
  }
  nodes.resize(next);
  tree_.entries_ = std::move(entries);
  tree_.directories_ = std::move(directories);
}

void TreeBuilder::PlaceSlices() {
  const auto before = [](const PendingRecord& a, const PendingRecord& b) {
    return a.ino != b.ino ? a.ino < b.ino : a.index < b.index;
  };
  if (!std::is_sorted(records_.begin(), records_.end(), before)) {
    std::stable_sort(records_.begin(), records_.end(), before);
  }
  tree_.slices_.reserve(records_.size());
  Ino current = kNoIno;
  Tree::NodeIndex file = Tree::kNone;
  for (const PendingRecord& record : records_) {
    if (record.ino != current) {
      current = record.ino;
      file = tree_.Find(current);
      if (file != Tree::kNone && tree_.type(file) == FileType::kFile) {
        tree_.nodes_[file].link = static_cast<std::uint32_t>(tree_.slices_.size());
      }
    } else if (file != Tree::kNone) {
      tree_.slices_.back().last = 0;
    }
    if (file == Tree::kNone || tree_.type(file) != FileType::kFile) {
      file = Tree::kNone;
      continue;
    }
    Tree::Record placed{};
    placed.pos = record.slice.pos;
    placed.id = record.slice.id;
    placed.size = record.slice.size;
    placed.off = record.slice.off;
    placed.len = record.slice.len;
    placed.index = record.index & 0x7FFFFFFFU;
    placed.last = 1;
    tree_.slices_.push_back(placed);
  }
  records_ = {};
}

void TreeBuilder::PlaceLinks() {
  tree_.targets_.reserve(links_.size());
  for (const PendingLink& link : links_) {
    const Tree::NodeIndex node = tree_.Find(link.ino);
    if (node == Tree::kNone || tree_.type(node) != FileType::kSymlink) continue;
    tree_.nodes_[node].link = static_cast<std::uint32_t>(tree_.targets_.size());
    tree_.targets_.push_back(link.target);
  }
  links_ = {};
}

Result<Tree> TreeBuilder::Build() && {
  SortNodes();
  if (tree_.Find(tree_.root_) == Tree::kNone) {
    return Fail(Code::kNotFound, "there is no inode {}", ToInt(tree_.root_));
  }
  PlaceEntries();
  DropUnreachable();
  CompactNames();
  PlaceSlices();
  PlaceLinks();
  tree_.owners_.resize(owners_.size());
  for (const auto& [owner, index] : owners_) tree_.owners_[index] = owner;
  tree_.nodes_.shrink_to_fit();
  tree_.entries_.shrink_to_fit();
  tree_.directories_.shrink_to_fit();
  tree_.slices_.shrink_to_fit();
  tree_.names_.shrink_to_fit();
  return std::move(tree_);
}

}  // namespace paddleop::volume
