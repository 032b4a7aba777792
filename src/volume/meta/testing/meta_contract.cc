#include "volume/meta/testing/meta_contract.h"

#include <algorithm>
#include <map>

namespace paddleop::volume::testing {

void MetaStoreContract::SetUp() { Reformat(TestSetting()); }

Setting MetaStoreContract::TestSetting() {
  Setting setting;
  setting.name = "contract";
  setting.uuid = "e267db92-051d-4214-b1aa-e97bf61bff1a";
  setting.bucket = "/nowhere/";
  setting.trash_days = 0;
  return setting;
}

void MetaStoreContract::Reformat(const Setting& setting) {
  store_.reset();
  database_.reset();
  auto database = GetParam().make();
  ASSERT_OK(database);
  database_ = *std::move(database);
  auto store = OpenMetaStore(ctx_, database_->url(), {});
  ASSERT_OK(store);
  store_ = *std::move(store);
  ASSERT_OK(store_->Format(ctx_, setting, /*force=*/false));
}

std::unique_ptr<MetaStore> MetaStoreContract::OpenAnother(MetaOptions options) {
  auto store = OpenMetaStore(ctx_, database_->url(), options);
  EXPECT_OK(store);
  EXPECT_OK((*store)->Load(ctx_));
  return *std::move(store);
}

Ino MetaStoreContract::MakeFile(Ino parent, const std::string& name, std::uint64_t length) {
  auto made = store_->Mknod(ctx_, root_, parent, name, FileType::kFile, 0644, 0);
  EXPECT_OK(made);
  if (!made) return kNoIno;
  if (length > 0) {
    const auto id = store_->NewSliceId(ctx_);
    EXPECT_OK(id);
    const auto size = static_cast<std::uint32_t>(length);
    EXPECT_OK(store_->WriteSlice(ctx_, made->ino, 0,
                                 {.pos = 0, .id = *id, .size = size, .off = 0, .len = size},
                                 {.seconds = 1700000000, .nanos = 5}));
  }
  return made->ino;
}

Ino MetaStoreContract::MakeDir(Ino parent, const std::string& name) {
  auto made = store_->Mkdir(ctx_, root_, parent, name, 0755);
  EXPECT_OK(made);
  return made ? made->ino : kNoIno;
}

std::vector<std::string> MetaStoreContract::List(Ino dir) {
  std::vector<std::string> names;
  std::string cursor;
  do {
    auto page = store_->ReadDir(ctx_, root_, dir, cursor, 3, /*with_attrs=*/true);
    EXPECT_OK(page);
    if (!page) break;
    for (const DirEntry& entry : page->entries) {
      EXPECT_TRUE(entry.attr.has_value()) << entry.name;
      names.push_back(entry.name);
    }
    cursor = page->next;
  } while (!cursor.empty());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void MetaStoreContract::ExpectConsistent() {
  const auto tree = store_->LoadTree(ctx_, kRootIno, /*with_slices=*/true);
  ASSERT_OK(tree);
  std::int64_t space = 0;
  std::map<SliceKey, std::int64_t> records;
  for (Tree::NodeIndex node = 0; node < tree->node_count(); ++node) {
    const Attr attr = tree->attr(node);
    if (tree->ino(node) != kRootIno) space += static_cast<std::int64_t>(ChargedSpace(attr));
    if (attr.type != FileType::kDirectory) continue;
    DirUsage usage;
    std::uint32_t subdirectories = 0;
    for (std::size_t i = 0; i < tree->child_count(node); ++i) {
      const Attr child = tree->attr(tree->child(node, i).node);
      usage += UsageOf(child);
      if (child.type == FileType::kDirectory) ++subdirectories;
      if (child.type == FileType::kDirectory || child.nlink == 1) {
        EXPECT_TRUE(child.parent == tree->ino(node) || child.parent == kNoIno)
            << tree->child(node, i).name;
      }
    }
    EXPECT_EQ(attr.nlink, 2 + subdirectories) << "inode " << ToInt(tree->ino(node));
    const auto stored = store_->GetDirUsage(ctx_, tree->ino(node));
    if (!stored && usage.IsZero()) continue;
    ASSERT_OK(stored);
    EXPECT_EQ(stored->length, usage.length) << "inode " << ToInt(tree->ino(node));
    EXPECT_EQ(stored->space, usage.space) << "inode " << ToInt(tree->ino(node));
    EXPECT_EQ(stored->inodes, usage.inodes) << "inode " << ToInt(tree->ino(node));
  }
  const auto stat = store_->GetStatFs(ctx_);
  ASSERT_OK(stat);
  EXPECT_EQ(static_cast<std::int64_t>(stat->used_space), space);
  EXPECT_EQ(stat->used_inodes, tree->node_count() - 1);

  ASSERT_OK(store_->ScanChunks(ctx_, [&](Ino, std::uint32_t, const std::vector<Slice>& slices) {
    for (const Slice& slice : slices) {
      if (slice.id != 0) ++records[{.id = slice.id, .size = slice.size}];
    }
    return Result<void>();
  }));
  ASSERT_OK(store_->ScanSliceRefs(ctx_, [&](SliceKey slice, std::int64_t references) {
    const auto found = records.find(slice);
    EXPECT_EQ(references, found == records.end() ? 0 : found->second) << "slice " << slice.id;
    if (found != records.end()) records.erase(found);
    return Result<void>();
  }));
  for (const auto& [slice, count] : records) EXPECT_EQ(count, 1) << "slice " << slice.id;
}

}  // namespace paddleop::volume::testing
