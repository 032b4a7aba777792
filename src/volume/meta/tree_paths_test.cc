#include "volume/meta/tree_paths.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "volume/meta/internal/tree_builder.h"

namespace paddleop::volume {
namespace {

class TreePathsTest : public ::testing::Test {
 protected:
  void Add(std::uint64_t parent, std::string_view name, std::uint64_t ino, FileType type) {
    Attr attr;
    attr.type = type;
    attr.parent = Ino{parent};
    ASSERT_OK(builder_.Node(Ino{ino}, attr));
    ASSERT_OK(builder_.Entry(Ino{parent}, name, {.ino = Ino{ino}, .type = type}));
  }

  TreeBuilder builder_{kRootIno, /*with_slices=*/false};
};

TEST_F(TreePathsTest, AreThoseOfTheNames) {
  Attr root;
  root.type = FileType::kDirectory;
  ASSERT_OK(builder_.Node(kRootIno, root));
  Add(1, "train", 2, FileType::kDirectory);
  Add(2, "n01", 3, FileType::kDirectory);
  Add(2, "n02", 4, FileType::kDirectory);
  Add(4, "b.jpeg", 5, FileType::kFile);
  Add(4, "a.jpeg", 6, FileType::kFile);
  // Two names: which of them it is known by is not in its attributes.
  Attr linked;
  linked.nlink = 2;
  ASSERT_OK(builder_.Node(Ino{7}, linked));
  ASSERT_OK(builder_.Entry(Ino{3}, "x", {.ino = Ino{7}, .type = FileType::kFile}));
  ASSERT_OK(builder_.Entry(Ino{4}, "y", {.ino = Ino{7}, .type = FileType::kFile}));
  const auto tree = std::move(builder_).Build();
  ASSERT_OK(tree);
  const TreePaths paths(*tree);
  const auto path = [&](std::uint64_t ino) { return paths.Of(*tree, tree->Find(Ino{ino})); };
  EXPECT_EQ(path(1), ".");
  EXPECT_EQ(path(2), "train");
  EXPECT_EQ(path(3), "train/n01");
  EXPECT_EQ(path(5), "train/n02/b.jpeg");
  EXPECT_EQ(path(6), "train/n02/a.jpeg");
  EXPECT_EQ(path(7), "");
}

}  // namespace
}  // namespace paddleop::volume
