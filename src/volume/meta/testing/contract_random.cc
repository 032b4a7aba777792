// Random operations on a store and on a model of a tree: both must allow the same and show the
// same.
#include <random>

#include "volume/format/chunk_view.h"
#include "volume/meta/testing/meta_contract.h"
#include "volume/meta/testing/tree_model.h"

namespace paddleop::volume::testing {
namespace {

class RandomRun {
 public:
  RandomRun(MetaStore& store, std::uint32_t seed) : store_(store), random_(seed) {}

  void Step() {
    Pick(model_.root(), kRootIno, dir_, dir_ino_);
    Pick(model_.root(), kRootIno, other_, other_ino_);
    const std::string name = Name();
    const std::string other_name = Name();
    const auto child = dir_->children.find(name);
    const Ino ino = child == dir_->children.end() ? kNoIno : InoOf(dir_ino_, name);
    switch (random_() % 14) {
      case 0:
      case 1:
        return Same("mkdir " + name, model_.Make(dir_, name, FileType::kDirectory),
                    store_.Mkdir(ctx_, root_, dir_ino_, name, 0755));
      case 2:
      case 3:
        return Same("mknod " + name, model_.Make(dir_, name, FileType::kFile),
                    store_.Mknod(ctx_, root_, dir_ino_, name, FileType::kFile, 0644, 0));
      case 4:
        return Same("symlink " + name, model_.Make(dir_, name, FileType::kSymlink, other_name),
                    store_.Symlink(ctx_, root_, dir_ino_, name, other_name));
      case 5:
        return Same("unlink " + name, model_.Remove(dir_, name, false),
                    store_.Unlink(ctx_, root_, dir_ino_, name));
      case 6:
        return Same("rmdir " + name, model_.Remove(dir_, name, true),
                    store_.Rmdir(ctx_, root_, dir_ino_, name));
      case 7:
      case 8: {
        const auto mode = static_cast<RenameMode>(random_() % 3);
        return Same("rename " + name + " " + other_name,
                    model_.Rename(dir_, name, other_, other_name, mode),
                    store_.Rename(ctx_, root_, dir_ino_, name, other_ino_, other_name, mode));
      }
      case 9:
        if (ino == kNoIno) return;
        return Same("link " + name, model_.Link(child->second, other_, other_name),
                    store_.Link(ctx_, root_, ino, other_ino_, other_name));
      default:
        if (ino != kNoIno && child->second->type == FileType::kFile) Change(child->second, ino);
    }
  }

  void Compare(const TreeModel::NodePtr& node, const Tree& tree, Tree::NodeIndex at,
               const std::string& path) {
    ASSERT_NE(at, Tree::kNone) << path;
    ASSERT_EQ(tree.type(at), node->type) << path;
    if (node->type == FileType::kDirectory) {
      ASSERT_EQ(tree.child_count(at), node->children.size()) << path;
      for (const auto& [name, child] : node->children) {
        Compare(child, tree, tree.Lookup(at, name), path + "/" + name);
      }
      return;
    }
    EXPECT_EQ(tree.attr(at).nlink, static_cast<std::uint32_t>(node->links)) << path;
    if (node->type == FileType::kSymlink) {
      EXPECT_EQ(*store_.ReadLink(ctx_, tree.ino(at)), node->target) << path;
      return;
    }
    ASSERT_EQ(tree.length(at), node->bytes.size()) << path;
    std::size_t byte = 0;
    for (const Slice& piece :
         BuildChunkView(tree.Slices(at, 0), static_cast<std::uint32_t>(node->bytes.size()))) {
      for (std::uint32_t i = 0; i < piece.len; ++i, ++byte) {
        const TreeModel::Byte seen{.slice = piece.id, .offset = piece.id == 0 ? 0 : piece.off + i};
        ASSERT_EQ(seen, node->bytes[byte]) << path << " byte " << byte;
      }
    }
  }

  const TreeModel& model() const { return model_; }

 private:
  std::string Name() { return std::string(1, static_cast<char>('a' + random_() % 6)); }

  void Pick(const TreeModel::NodePtr& node, Ino ino, TreeModel::NodePtr& out, Ino& out_ino) {
    out = node;
    out_ino = ino;
    if (random_() % 3 == 0) return;
    for (const auto& [name, child] : node->children) {
      if (child->type == FileType::kDirectory && random_() % 2 == 0) {
        return Pick(child, InoOf(ino, name), out, out_ino);
      }
    }
  }

  Ino InoOf(Ino parent, const std::string& name) {
    const auto entry = store_.Lookup(ctx_, root_, parent, name);
    EXPECT_OK(entry);
    return entry ? entry->ino : kNoIno;
  }

  void Change(const TreeModel::NodePtr& node, Ino ino) {
    const std::size_t at = random_() % 200;
    const std::size_t size = 1 + random_() % 100;
    switch (random_() % 5) {
      case 0:
      case 1: {
        const auto id = store_.NewSliceId(ctx_);
        ASSERT_OK(id);
        TreeModel::Write(node, at, *id, size);
        EXPECT_OK(store_.WriteSlice(ctx_, ino, 0,
                                    {.pos = static_cast<std::uint32_t>(at),
                                     .id = *id,
                                     .size = static_cast<std::uint32_t>(size),
                                     .off = 0,
                                     .len = static_cast<std::uint32_t>(size)},
                                    {}));
        return;
      }
      case 2:
        TreeModel::Truncate(node, at);
        EXPECT_OK(store_.Truncate(ctx_, root_, ino, at));
        return;
      case 3:
        TreeModel::Zero(node, at, size);
        EXPECT_OK(store_.Fallocate(ctx_, root_, ino, FallocateMode::kPunchHole, at, size));
        return;
      default:
        for (const auto& [name, target] : other_->children) {
          if (target->type != FileType::kFile || target == node) continue;
          const std::size_t to = random_() % 200;
          TreeModel::Copy(node, at, target, to, size);
          EXPECT_OK(store_.CopyRange(ctx_, ino, at, InoOf(other_ino_, name), to, size));
          return;
        }
    }
  }

  template <class T>
  void Same(const std::string& what, bool allowed, const Result<T>& result) {
    if (allowed) {
      EXPECT_OK(result) << what;
    } else {
      EXPECT_FALSE(result.has_value()) << what;
    }
  }

  MetaStore& store_;
  std::minstd_rand random_;
  TreeModel model_;
  const Context ctx_ = Context::Background();
  const Caller root_;
  TreeModel::NodePtr dir_;
  TreeModel::NodePtr other_;
  Ino dir_ino_ = kNoIno;
  Ino other_ino_ = kNoIno;
};

}  // namespace

TEST_P(MetaStoreContract, RandomOperationsAgreeWithAModel) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  RecordProperty("seed", std::to_string(seed));
  RandomRun run(*store_, seed);
  for (int round = 0; round < 6 && !HasFailure(); ++round) {
    for (int i = 0; i < 150; ++i) run.Step();
    const auto tree = store_->LoadTree(ctx_, kRootIno, /*with_slices=*/true);
    ASSERT_OK(tree);
    run.Compare(run.model().root(), *tree, tree->Find(kRootIno), "");
    ExpectConsistent();
  }
}

}  // namespace paddleop::volume::testing
