#include "volume/meta/tree.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/testing/matchers.h"
#include "volume/meta/internal/tree_builder.h"

namespace paddleop::volume {
namespace {

Attr Directory() {
  Attr attr;
  attr.type = FileType::kDirectory;
  attr.length = 4096;
  return attr;
}

TEST(Tree, KeepsMillionsSmall) {
  constexpr std::uint64_t kFiles = 100'000;
  TreeBuilder builder(kRootIno, /*with_slices=*/true);
  ASSERT_OK(builder.Node(kRootIno, Directory()));
  // Backwards: the order in which the parts come does not matter.
  for (std::uint64_t i = kFiles; i > 0; --i) {
    Attr attr;
    attr.length = i;
    attr.uid = static_cast<std::uint32_t>(i % 3);
    attr.mtime = {.seconds = static_cast<std::int64_t>(i), .nanos = 7};
    const Ino ino{i + 1};
    ASSERT_OK(builder.Entry(kRootIno, fmt::format("image_{:08}.jpeg", i),
                            {.ino = ino, .type = FileType::kFile}));
    const Slice slice{.pos = 0, .id = i, .size = static_cast<std::uint32_t>(i), .off = 0, .len = 1};
    ASSERT_OK(builder.Chunk(ino, 0, std::span(&slice, 1)));
    ASSERT_OK(builder.Node(ino, attr));
  }
  const auto tree = std::move(builder).Build();
  ASSERT_OK(tree);
  EXPECT_EQ(tree->node_count(), kFiles + 1);
  EXPECT_LE(tree->MemoryBytes() / kFiles, 150U);
  const auto root = tree->Find(kRootIno);
  EXPECT_EQ(tree->child_count(root), kFiles);
  EXPECT_EQ(tree->child(root, 0).name, "image_00000001.jpeg");
  const auto node = tree->Lookup(root, "image_00054321.jpeg");
  ASSERT_NE(node, Tree::kNone);
  EXPECT_EQ(tree->length(node), 54321U);
  EXPECT_EQ(tree->attr(node).uid, 54321U % 3);
  EXPECT_EQ(tree->attr(node).mtime, (Timestamp{54321, 7}));
  ASSERT_EQ(tree->Slices(node, 0).size(), 1U);
  EXPECT_EQ(tree->Slices(node, 0).front().id, 54321U);
}

TEST(Tree, LeavesOutWhatTheRootDoesNotLeadTo) {
  TreeBuilder builder(kRootIno, /*with_slices=*/true);
  const Slice slice{.pos = 0, .id = 1, .size = 1, .off = 0, .len = 1};
  // A removed directory in the trash with a file in it, a damaged entry, an entry given twice.
  ASSERT_OK(builder.Node(Ino{5}, Attr{}));
  ASSERT_OK(builder.Node(Ino{4}, Directory()));
  ASSERT_OK(builder.Entry(Ino{4}, "file", {.ino = Ino{5}, .type = FileType::kFile}));
  ASSERT_OK(builder.Entry(kTrashIno, "1-4-x", {.ino = Ino{4}, .type = FileType::kDirectory}));
  ASSERT_OK(builder.Entry(kRootIno, "nowhere", {.ino = Ino{99}, .type = FileType::kFile}));
  ASSERT_OK(builder.Entry(kRootIno, "a", {.ino = Ino{6}, .type = FileType::kFile}));
  ASSERT_OK(builder.Entry(kRootIno, "a", {.ino = Ino{6}, .type = FileType::kFile}));
  ASSERT_OK(builder.Node(Ino{6}, Attr{}));
  ASSERT_OK(builder.Node(Ino{6}, Attr{}));
  ASSERT_OK(builder.Chunk(Ino{5}, 0, std::span(&slice, 1)));
  ASSERT_OK(builder.Chunk(Ino{6}, 0, std::span(&slice, 1)));
  ASSERT_OK(builder.Chunk(Ino{6}, 1, std::span(&slice, 1)));
  ASSERT_OK(builder.Node(kRootIno, Directory()));
  const auto tree = std::move(builder).Build();
  ASSERT_OK(tree);
  EXPECT_EQ(tree->node_count(), 2U);
  EXPECT_EQ(tree->entry_count(), 1U);
  const auto node = tree->Lookup(tree->Find(kRootIno), "a");
  ASSERT_NE(node, Tree::kNone);
  EXPECT_EQ(tree->Slices(node, 0).size(), 1U);
  EXPECT_EQ(tree->Slices(node, 1).size(), 1U);
}

TEST(Tree, ADirectoryGivenAgainHasItsNewNamesOnly) {
  TreeBuilder builder(kRootIno, /*with_slices=*/true);
  const auto entry = [&](Ino parent, std::string_view name, std::uint64_t ino, FileType type) {
    ASSERT_OK(builder.Entry(parent, name, {.ino = Ino{ino}, .type = type}));
  };
  ASSERT_OK(builder.Node(kRootIno, Directory()));
  ASSERT_OK(builder.Node(Ino{2}, Directory()));
  for (const std::uint64_t file : {3, 4, 5}) ASSERT_OK(builder.Node(Ino{file}, Attr{}));
  Attr link;
  link.type = FileType::kSymlink;
  ASSERT_OK(builder.Node(Ino{6}, link));
  ASSERT_OK(builder.Link(Ino{6}, "where/it/leads"));
  entry(kRootIno, "sub", 2, FileType::kDirectory);
  entry(kRootIno, "link", 6, FileType::kSymlink);
  entry(Ino{2}, "gone", 3, FileType::kFile);
  entry(Ino{2}, "replaced", 4, FileType::kFile);
  Attr newer = Directory();
  newer.mtime = {.seconds = 9, .nanos = 1};
  ASSERT_OK(builder.Again(Ino{2}, newer));
  entry(Ino{2}, "replaced", 4, FileType::kFile);  // and once more in the same listing
  entry(Ino{2}, "replaced", 5, FileType::kFile);
  entry(kRootIno, "moved", 3, FileType::kFile);
  const auto tree = std::move(builder).Build();
  ASSERT_OK(tree);
  EXPECT_EQ(tree->entry_count(), 4U);
  EXPECT_EQ(tree->node_count(), 5U);
  const auto root = tree->Find(kRootIno), sub = tree->Lookup(root, "sub");
  EXPECT_EQ(tree->attr(sub).mtime, newer.mtime);
  ASSERT_EQ(tree->child_count(sub), 1U);
  EXPECT_EQ(tree->child(sub, 0).name, "replaced");
  EXPECT_EQ(tree->ino(tree->child(sub, 0).node), Ino{5});
  EXPECT_EQ(tree->ino(tree->Lookup(root, "moved")), Ino{3});
  EXPECT_EQ(tree->Target(tree->Lookup(root, "link")), "where/it/leads");
}

TEST(Tree, ComparesTheRecordsOfFiles) {
  const Slice one{.pos = 0, .id = 1, .size = 9, .off = 0, .len = 9};
  const Slice two{.pos = 0, .id = 2, .size = 9, .off = 0, .len = 9};
  using Chunks = std::vector<std::pair<std::uint32_t, std::vector<Slice>>>;
  // A tree with this file and one behind it.
  const auto tree_of = [&](const Chunks& chunks) {
    TreeBuilder builder(kRootIno, /*with_slices=*/true);
    EXPECT_OK(builder.Node(kRootIno, Directory()));
    for (const std::uint64_t ino : {2, 3}) {
      EXPECT_OK(builder.Node(Ino{ino}, Attr{}));
      EXPECT_OK(
          builder.Entry(kRootIno, std::to_string(ino), {.ino = Ino{ino}, .type = FileType::kFile}));
    }
    for (const auto& [index, slices] : chunks) EXPECT_OK(builder.Chunk(Ino{2}, index, slices));
    EXPECT_OK(builder.Chunk(Ino{3}, 0, std::span(&two, 1)));
    return *std::move(builder).Build();
  };
  const std::vector<Chunks> all = {{},
                                   {{0, {one}}},
                                   {{0, {two}}},
                                   {{1, {one}}},
                                   {{0, {one, two}}},
                                   {{0, {two, one}}},
                                   {{0, {one}}, {1, {two}}},
                                   {{0, {one}}, {(1U << 31) - 1, {two}}}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      const Tree a = tree_of(all[i]), b = tree_of(all[k]);
      EXPECT_EQ(a.SameRecords(a.Find(Ino{2}), b, b.Find(Ino{2})), i == k) << i << " and " << k;
    }
  }
}

TEST(Tree, NeedsItsRoot) {
  TreeBuilder builder(Ino{7}, /*with_slices=*/false);
  EXPECT_CODE(std::move(builder).Build(), Code::kNotFound);
}

}  // namespace
}  // namespace paddleop::volume
