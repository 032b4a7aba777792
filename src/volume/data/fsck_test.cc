#include "volume/data/fsck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/data/copy.h"
#include "volume/data/gc.h"
#include "volume/object/testing/mem_object.h"
#include "volume/vfs/vfs.h"

namespace paddleop::volume::data {
namespace {

const Context kCtx = Context::Background();

class VolumeCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    meta_ = *OpenMetaStore(kCtx, "sqlite3://" + dir_.File("volume.db"), {.log = &log_});
    setting_.name = "test";
    setting_.uuid = RandomUuid();
    setting_.bucket = dir_.path() + "/";
    setting_.trash_days = 0;
    ASSERT_OK(meta_->Format(kCtx, setting_, false));
    ASSERT_OK(meta_->Load(kCtx));
    blocks_ = std::make_unique<BlockStore>(BlockStoreOptions{.layout = setting_.layout()}, objects_,
                                           nullptr, log_);
    meta_->SetSliceDeleter(
        [this](const Context& ctx, SliceKey slice) { return blocks_->DeleteSlice(ctx, slice); });
    vfs_ = std::make_unique<Vfs>(*meta_, *blocks_, log_);
  }
  void TearDown() override {
    vfs_.reset();
    meta_.reset();
  }

  Ino Put(const std::string& name, std::string_view content) {
    auto opened = vfs_->Create(kCtx, {}, kRootIno, name, 0644, {.write = true}, false);
    EXPECT_OK(opened);
    EXPECT_OK(vfs_->Write(kCtx, opened->handle, 0, AsBytes(content)));
    EXPECT_OK(vfs_->Release(kCtx, opened->handle));
    return opened->entry.ino;
  }
  FsckReport Check() {
    auto report = Fsck(kCtx, *meta_, objects_, setting_.layout(), true);
    EXPECT_OK(report);
    return *std::move(report);
  }

  TempDir dir_ = *TempDir::Create();
  Logger log_{LogLevel::kOff};
  Setting setting_;
  object::testing::MemObjectStore objects_;
  std::unique_ptr<MetaStore> meta_;
  std::unique_ptr<BlockStore> blocks_;
  std::unique_ptr<Vfs> vfs_;
};

TEST_F(VolumeCheckTest, AnOrdinaryVolumeIsClean) {
  Put("a", "hello");
  Put("b", "");
  ASSERT_OK(meta_->Mkdir(kCtx, {}, kRootIno, "d", 0755));
  const FsckReport report = Check();
  EXPECT_TRUE(report.clean()) << (report.problems.empty() ? "" : report.problems[0].detail);
  EXPECT_EQ(report.files, 2u);
  EXPECT_EQ(report.directories, 2u);
  EXPECT_EQ(report.blocks, 1u);
}

TEST_F(VolumeCheckTest, AMissingObjectIsFoundAndItsFileNamed) {
  Put("victim", "hello");
  auto objects = object::ListEntries(objects_, kCtx, {.prefix = "chunks/"});
  ASSERT_EQ(objects->size(), 1u);
  ASSERT_OK(objects_.Delete(kCtx, (*objects)[0].key));
  const FsckReport report = Check();
  ASSERT_EQ(report.problem_count, 1u);
  EXPECT_EQ(report.problems[0].kind, FsckProblem::Kind::kMissingObject);
  EXPECT_EQ(report.problems[0].path, "/victim");
}

TEST_F(VolumeCheckTest, LeakedObjectsAreFoundAndOnlyTheyAreDeleted) {
  Put("keep", "hello");
  ASSERT_OK(object::PutString(objects_, kCtx, "chunks/0/0/999_0_3", "abc"));
  const auto later = std::chrono::system_clock::now() + std::chrono::hours(2);
  auto young = CollectGarbage(kCtx, *meta_, objects_, setting_.layout(), {});
  ASSERT_OK(young);
  EXPECT_EQ(young->leaked_objects, 0u);
  EXPECT_EQ(young->skipped_objects, 1u);
  auto deleted = CollectGarbage(kCtx, *meta_, objects_, setting_.layout(),
                                {.delete_leaked = true, .now = later});
  ASSERT_OK(deleted);
  EXPECT_EQ(deleted->leaked_objects, 1u);
  EXPECT_EQ(deleted->deleted_objects, 1u);
  EXPECT_TRUE(Check().clean());
}

TEST_F(VolumeCheckTest, RemovingAFileRemovesItsData) {
  Put("a", "hello");
  ASSERT_OK(meta_->Unlink(kCtx, {}, kRootIno, "a"));
  ASSERT_OK(meta_->DrainDeletions(kCtx));
  auto objects = object::ListEntries(objects_, kCtx, {.prefix = "chunks/"});
  EXPECT_TRUE(objects->empty());
  EXPECT_TRUE(Check().clean());
}

TEST_F(VolumeCheckTest, ACopySharesItsDataAndBothCountAsReferences) {
  Put("a", "hello");
  auto entry = meta_->Resolve(kCtx, {}, kRootIno, "a");
  ASSERT_OK(entry);
  Copier copier(*vfs_, {}, true);
  copier.Within(kCtx, *entry, kRootIno, "b", "a");
  EXPECT_TRUE(copier.report().failures.empty());
  EXPECT_EQ(object::ListEntries(objects_, kCtx, {.prefix = "chunks/"})->size(), 1u);
  EXPECT_TRUE(Check().clean());
  ASSERT_OK(meta_->Unlink(kCtx, {}, kRootIno, "a"));
  ASSERT_OK(meta_->DrainDeletions(kCtx));
  const FsckReport report = Check();
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(report.blocks, 1u) << "the copy still needs it";
}

TEST_F(VolumeCheckTest, FilesGoInAndOutUnchanged) {
  const std::string source = dir_.File("in");
  ASSERT_OK(MakeDirectories(source + "/sub"));
  const std::string content = RandomBytes(5 << 20);
  ASSERT_OK(WriteFileAtomic(source + "/sub/data", content, 0640));
  Copier copier(*vfs_, {}, true);
  copier.In(kCtx, source, kRootIno, "set");
  ASSERT_TRUE(copier.report().failures.empty());
  auto entry = meta_->Resolve(kCtx, {}, kRootIno, "set");
  ASSERT_OK(entry);
  copier.Out(kCtx, *entry, dir_.File("out"));
  ASSERT_TRUE(copier.report().failures.empty());
  EXPECT_EQ(*ReadFile(dir_.File("out/sub/data")), content);
  copier.In(kCtx, dir_.File("absent"), kRootIno, "x");
  EXPECT_EQ(copier.report().failures.size(), 1u);
}

}  // namespace
}  // namespace paddleop::volume::data
