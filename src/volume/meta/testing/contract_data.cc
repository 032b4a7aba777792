// Data of files, quotas, bulk operations.
#include <gmock/gmock.h>

#include <map>
#include <thread>

#include "volume/format/chunk_view.h"
#include "volume/meta/testing/meta_contract.h"

namespace paddleop::volume::testing {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace {

NewFile PackedFile(Ino parent, std::string name, std::uint64_t id, std::uint32_t size,
                   std::uint32_t off, std::uint32_t len) {
  NewFile file;
  file.parent = parent;
  file.name = std::move(name);
  file.length = len;
  file.mtime = {.seconds = 1600000000, .nanos = 7};
  file.chunks = {
      {.index = 0, .slices = {{.pos = 0, .id = id, .size = size, .off = off, .len = len}}}};
  return file;
}

}  // namespace

TEST_P(MetaStoreContract, SlicesAreKeptInWriteOrder) {
  const Ino file = MakeFile(kRootIno, "a");
  EXPECT_THAT(*store_->ReadSlices(ctx_, file, 0), IsEmpty());
  const auto one = store_->NewSliceId(ctx_);
  const auto two = store_->NewSliceId(ctx_);
  ASSERT_OK(one);
  ASSERT_OK(two);
  EXPECT_NE(*one, 0U);
  EXPECT_NE(*one, *two);
  const Timestamp mtime{.seconds = 4000000000, .nanos = 42};
  const auto written = store_->WriteSlice(ctx_, file, 0, Whole(*one, 5000), mtime);
  ASSERT_OK(written);
  EXPECT_EQ(written->length, 5000U);
  EXPECT_EQ(written->mtime, mtime);
  ASSERT_OK(store_->WriteSlice(ctx_, file, 0, Whole(*two, 10, 100), mtime));
  EXPECT_THAT(*store_->ReadSlices(ctx_, file, 0),
              ElementsAre(Whole(*one, 5000), Whole(*two, 10, 100)));
  EXPECT_EQ(store_->GetAttr(ctx_, file)->length, 5000U);
  EXPECT_CODE(store_->ReadSlices(ctx_, Ino{999}, 0), Code::kNotFound);
  EXPECT_CODE(store_->WriteSlice(ctx_, Ino{999}, 0, Whole(77, 5), mtime), Code::kNotFound);
  EXPECT_CODE(store_->WriteSlice(ctx_, kRootIno, 0, Whole(77, 5), mtime), Code::kIsDirectory);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, RecordsWithZeroBytesInThem) {
  const Ino file = MakeFile(kRootIno, "a");
  std::vector<Slice> expected;
  for (int i = 0; i < 20; ++i) {
    const auto id = store_->NewSliceId(ctx_);
    ASSERT_OK(id);
    expected.push_back(Whole(*id, 256, static_cast<std::uint32_t>(i) * 256));
    ASSERT_OK(store_->WriteSlice(ctx_, file, 3, expected.back(), {}));
  }
  EXPECT_EQ(*store_->ReadSlices(ctx_, file, 3), expected);
  EXPECT_EQ(store_->GetAttr(ctx_, file)->length, 3 * kChunkSize + 20 * 256);
}

TEST_P(MetaStoreContract, TruncateHidesOldData) {
  const Ino file = MakeFile(kRootIno, "a", 10000);
  const Slice data = store_->ReadSlices(ctx_, file, 0)->front();
  ASSERT_OK(store_->Truncate(ctx_, root_, file, 4000));
  ExpectConsistent();
  ASSERT_OK(store_->Truncate(ctx_, root_, file, 3 * kChunkSize + 5));
  ExpectConsistent();
  const auto slices = store_->ReadSlices(ctx_, file, 0);
  ASSERT_OK(slices);
  const auto view = BuildChunkView(*slices, static_cast<std::uint32_t>(kChunkSize));
  ASSERT_EQ(view.size(), 2U);
  EXPECT_EQ(view[0].id, data.id);
  EXPECT_EQ(view[0].len, 4000U);
  EXPECT_EQ(view[1].id, 0U);
  const auto attr = store_->SetAttr(ctx_, root_, file, {.length = 100});
  ASSERT_OK(attr);
  EXPECT_EQ(attr->length, 100U);
  const Timestamp past{.seconds = 1'600'000'000, .nanos = 7};
  ASSERT_OK(store_->SetAttr(ctx_, root_, file, {.mtime = past}));
  const auto same = store_->Truncate(ctx_, root_, file, 100);
  ASSERT_OK(same);
  EXPECT_NE(same->mtime, past) << "also to the length it has";
  EXPECT_EQ(store_->GetAttr(ctx_, file)->mtime, same->mtime);
  EXPECT_CODE(store_->Truncate(ctx_, root_, kRootIno, 0), Code::kIsDirectory);
  EXPECT_CODE(store_->Truncate(ctx_, root_, file, kMaxFileSize + 1), Code::kInvalid);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, Fallocate) {
  const Ino file = MakeFile(kRootIno, "a", 10000);
  auto length = [&] { return store_->GetAttr(ctx_, file)->length; };
  ASSERT_OK(store_->Fallocate(ctx_, root_, file, FallocateMode::kKeepSize, 0, 50000));
  EXPECT_EQ(length(), 10000U);
  ASSERT_OK(store_->Fallocate(ctx_, root_, file, FallocateMode::kExtend, 5000, 15000));
  EXPECT_EQ(length(), 20000U);
  ASSERT_OK(store_->Fallocate(ctx_, root_, file, FallocateMode::kPunchHole, 100, 200));
  ASSERT_OK(store_->Fallocate(ctx_, root_, file, FallocateMode::kPunchHole, 19000, 20000));
  EXPECT_EQ(length(), 20000U);
  ASSERT_OK(store_->Fallocate(ctx_, root_, file, FallocateMode::kZeroRange, 9000, 20000));
  EXPECT_EQ(length(), 29000U);
  const auto view = BuildChunkView(*store_->ReadSlices(ctx_, file, 0), 29000);
  ASSERT_EQ(view.size(), 4U);
  EXPECT_EQ(view[1].id, 0U);
  EXPECT_EQ(view[1].len, 200U);
  EXPECT_EQ(view[2].off, 300U);
  EXPECT_EQ(view[2].len, 8700U);
  EXPECT_CODE(store_->Fallocate(ctx_, root_, file, FallocateMode::kExtend, 0, 0), Code::kInvalid);
  ExpectConsistent();
}

// Chunks without a list read as zeros already.
TEST_P(MetaStoreContract, HolesCostNothingWhereNothingIs) {
  constexpr std::uint32_t kLast = 100;
  const Ino file = MakeFile(kRootIno, "a", 10000);
  const auto write = [&](std::uint32_t index) {
    const auto id = store_->NewSliceId(ctx_);
    ASSERT_OK(id);
    ASSERT_OK(store_->WriteSlice(ctx_, file, index, Whole(*id, 10000), {}));
  };
  write(7);
  write(kLast);
  const auto records = [&] {
    std::map<std::uint32_t, std::size_t> counts;
    EXPECT_OK(store_->ScanChunks(ctx_, [&](Ino, std::uint32_t index, std::vector<Slice> slices) {
      counts[index] = slices.size();
      return Result<void>();
    }));
    return counts;
  };
  const auto punch = [&](std::uint64_t offset, std::uint64_t end) {
    ASSERT_OK(
        store_->Fallocate(ctx_, root_, file, FallocateMode::kPunchHole, offset, end - offset));
  };
  using Counts = std::map<std::uint32_t, std::size_t>;
  punch(5000, kLast * kChunkSize + 100);
  ASSERT_EQ(records(), (Counts{{0, 2}, {7, 2}, {kLast, 2}}));
  punch(kChunkSize, kLast * kChunkSize);
  ASSERT_EQ(records(), (Counts{{0, 2}, {7, 3}, {kLast, 2}}));
  const auto head = BuildChunkView(*store_->ReadSlices(ctx_, file, 0), 10000);
  ASSERT_EQ(head.size(), 2U);
  EXPECT_EQ(head[0].len, 5000U);
  EXPECT_EQ(head[1].id, 0U);
  const auto middle = BuildChunkView(*store_->ReadSlices(ctx_, file, 7), kChunkSize);
  ASSERT_EQ(middle.size(), 1U);
  EXPECT_EQ(middle[0].id, 0U);
  const auto tail = BuildChunkView(*store_->ReadSlices(ctx_, file, kLast), 10000);
  ASSERT_EQ(tail.size(), 2U);
  EXPECT_EQ(tail[0].len, 100U);
  EXPECT_NE(tail[1].id, 0U);
  // As large as a file may be.
  ASSERT_OK(store_->Truncate(ctx_, root_, file, kMaxFileSize));
  ASSERT_OK(store_->Fallocate(ctx_, root_, file, FallocateMode::kPunchHole, 0, kMaxFileSize));
  EXPECT_LT(records().size(), 10U);
  ASSERT_OK(store_->Fallocate(ctx_, root_, file, FallocateMode::kZeroRange, 1, kMaxFileSize - 2));
  EXPECT_LT(records().size(), 10U);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, CopiesShareSlices) {
  DeletedSlices deleted;
  store_->SetSliceDeleter(deleted.Deleter());
  const Ino from = MakeFile(kRootIno, "a", 10000);
  const std::uint64_t id = store_->ReadSlices(ctx_, from, 0)->front().id;
  const Ino to = MakeFile(kRootIno, "b");
  EXPECT_EQ(*store_->CopyRange(ctx_, from, 1000, to, kChunkSize - 100, 5000), 5000U);
  EXPECT_EQ(*store_->CopyRange(ctx_, from, 9000, to, 0, 5000), 1000U);
  EXPECT_EQ(store_->GetAttr(ctx_, to)->length, kChunkSize + 4900);
  EXPECT_THAT(*store_->ReadSlices(ctx_, to, 1),
              ElementsAre(Slice{.pos = 0, .id = id, .size = 10000, .off = 1100, .len = 4900}));
  ExpectConsistent();
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted.ids(), IsEmpty());
  ExpectConsistent();
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "b"));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted.ids(), ElementsAre(id));
  ExpectConsistent();
}

TEST_P(MetaStoreContract, TheVolumeHasLimits) {
  Setting setting = TestSetting();
  setting.capacity = 40960;
  setting.inodes = 5;
  Reformat(setting);
  const Ino file = MakeFile(kRootIno, "a", 10000);
  EXPECT_CODE(store_->Truncate(ctx_, root_, file, 50000), Code::kNoSpace);
  for (int i = 0; i < 4; ++i) MakeFile(kRootIno, "f" + std::to_string(i));
  EXPECT_CODE(store_->Mkdir(ctx_, root_, kRootIno, "d", 0755), Code::kNoSpace);
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "f0"));
  EXPECT_OK(store_->Mkdir(ctx_, root_, kRootIno, "d", 0755));
  const auto stat = store_->GetStatFs(ctx_);
  ASSERT_OK(stat);
  EXPECT_EQ(stat->total_space, 40960U);
  EXPECT_EQ(stat->available_inodes, 0U);
}

TEST_P(MetaStoreContract, DirectoriesHaveQuotas) {
  const Ino dir = MakeDir(kRootIno, "d");
  const Ino sub = MakeDir(dir, "s");
  MakeFile(sub, "f", 5000);
  const auto quota = store_->SetDirQuota(ctx_, dir, 40960, 4);
  ASSERT_OK(quota);
  EXPECT_EQ(quota->used_space, 4096 + 8192);
  EXPECT_EQ(quota->used_inodes, 2);
  const Ino file = MakeFile(sub, "g");
  EXPECT_CODE(store_->Truncate(ctx_, root_, file, 100000), Code::kQuota);
  MakeFile(dir, "h");
  EXPECT_CODE(store_->Mkdir(ctx_, root_, sub, "i", 0755), Code::kQuota);
  EXPECT_EQ(store_->GetDirQuota(ctx_, dir)->used_inodes, 4);
  // A tree moves out with all it holds, and back in.
  ASSERT_OK(store_->Rename(ctx_, root_, dir, "s", kRootIno, "s", RenameMode::kReplace));
  EXPECT_EQ(store_->GetDirQuota(ctx_, dir)->used_inodes, 1);
  EXPECT_EQ(store_->GetDirQuota(ctx_, dir)->used_space, 4096);
  ASSERT_OK(store_->Rename(ctx_, root_, kRootIno, "s", dir, "s", RenameMode::kReplace));
  EXPECT_EQ(store_->GetDirQuota(ctx_, dir)->used_inodes, 4);
  ASSERT_OK(store_->RemoveTree(ctx_, root_, dir, "s", {}));
  EXPECT_EQ(store_->GetDirQuota(ctx_, dir)->used_inodes, 1);
  ASSERT_OK(store_->RemoveDirQuota(ctx_, dir));
  EXPECT_CODE(store_->GetDirQuota(ctx_, dir), Code::kNotFound);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, AFileWithoutNamesGrowsWhereverItsLastOneWas) {
  ASSERT_OK(store_->OpenSession(ctx_, {.host_name = "h", .mount_point = "m"}));
  ASSERT_OK(store_->SetDirQuota(ctx_, MakeDir(kRootIno, "other"), 1 << 20, 10));
  const Ino dir = MakeDir(kRootIno, "d");
  const Ino file = MakeFile(dir, "f");
  ASSERT_OK(store_->Open(ctx_, root_, file, kMayWrite));
  ASSERT_OK(store_->Unlink(ctx_, root_, dir, "f"));
  ASSERT_OK(store_->Rmdir(ctx_, root_, kRootIno, "d"));
  const auto id = store_->NewSliceId(ctx_);
  EXPECT_OK(store_->WriteSlice(ctx_, file, 0, Whole(*id, 9000), {}));
  EXPECT_OK(store_->Truncate(ctx_, root_, file, 100'000));
  EXPECT_OK(store_->CopyRange(ctx_, file, 0, file, 200'000, 9000));
  ASSERT_OK(store_->Close(ctx_, file));
  ExpectConsistent();
}

TEST_P(MetaStoreContract, HardLinksGrowUnderTheQuotasOfAllTheirDirectories) {
  const Ino tight = MakeDir(kRootIno, "tight");
  const Ino wide = MakeDir(kRootIno, "wide");
  const Ino file = MakeFile(wide, "f", 4096);
  ASSERT_OK(store_->Link(ctx_, root_, file, tight, "g"));
  ASSERT_OK(store_->SetDirQuota(ctx_, tight, 16384, 10));
  ASSERT_OK(store_->SetDirQuota(ctx_, wide, 1 << 20, 10));
  EXPECT_CODE(store_->Truncate(ctx_, root_, file, 20000), Code::kQuota);
  const auto id = store_->NewSliceId(ctx_);
  EXPECT_CODE(store_->WriteSlice(ctx_, file, 0, Whole(*id, 20000), {}), Code::kQuota);
  EXPECT_CODE(store_->CopyRange(ctx_, file, 0, file, 18000, 4096), Code::kQuota);
  EXPECT_OK(store_->Truncate(ctx_, root_, file, 16384));
  EXPECT_EQ(store_->GetDirQuota(ctx_, tight)->used_space, 16384);
  EXPECT_EQ(store_->GetDirQuota(ctx_, wide)->used_space, 16384);
  // Two names under one quota need room for both.
  ASSERT_OK(store_->Truncate(ctx_, root_, file, 4096));
  ASSERT_OK(store_->Link(ctx_, root_, file, tight, "h"));
  EXPECT_CODE(store_->Truncate(ctx_, root_, file, 12000), Code::kQuota);
  EXPECT_OK(store_->Truncate(ctx_, root_, file, 8192));
  ExpectConsistent();
}

TEST_P(MetaStoreContract, CommitsPackedFiles) {
  DeletedSlices deleted;
  store_->SetSliceDeleter(deleted.Deleter());
  const Ino dir = MakeDir(kRootIno, "d");
  const auto pack = store_->NewSliceId(ctx_);
  ASSERT_OK(pack);
  std::vector<NewFile> files = {PackedFile(dir, "a", *pack, 300, 0, 100),
                                PackedFile(dir, "b", *pack, 300, 100, 100),
                                PackedFile(dir, "c", *pack, 300, 200, 100)};
  NewFile link;
  link.parent = dir;
  link.name = "l";
  link.type = FileType::kSymlink;
  link.symlink_target = "a";
  files.push_back(link);
  const auto answers = store_->CommitFiles(ctx_, files, {});
  ASSERT_EQ(answers.size(), 4U);
  for (const auto& answer : answers) ASSERT_OK(answer);
  const auto found = store_->Lookup(ctx_, root_, dir, "b");
  ASSERT_OK(found);
  EXPECT_EQ(found->ino, *answers[1]);
  EXPECT_EQ(found->attr.length, 100U);
  EXPECT_EQ(found->attr.mtime, files[1].mtime);
  EXPECT_EQ(*store_->ReadSlices(ctx_, found->ino, 0), files[1].chunks[0].slices);
  EXPECT_EQ(*store_->ReadLink(ctx_, *answers[3]), "a");
  ExpectConsistent();

  // One by one they go; the pack goes with the last.
  for (const char* name : {"a", "b"}) ASSERT_OK(store_->Unlink(ctx_, root_, dir, name));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted.ids(), IsEmpty());
  ASSERT_OK(store_->Unlink(ctx_, root_, dir, "c"));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted.ids(), ElementsAre(*pack));
  ExpectConsistent();
}

TEST_P(MetaStoreContract, CommitAnswersForEachFile) {
  DeletedSlices deleted;
  store_->SetSliceDeleter(deleted.Deleter());
  const Ino old = MakeFile(kRootIno, "old", 10);
  const std::uint64_t old_slice = store_->ReadSlices(ctx_, old, 0)->front().id;
  const Ino dir = MakeDir(kRootIno, "dir");
  const auto pack = store_->NewSliceId(ctx_);
  ASSERT_OK(pack);
  const std::vector<NewFile> files = {PackedFile(kRootIno, "old", *pack, 300, 0, 100),
                                      PackedFile(kRootIno, "dir", *pack, 300, 0, 100),
                                      PackedFile(Ino{999}, "x", *pack, 300, 0, 100),
                                      PackedFile(old, "x", *pack, 300, 0, 100),
                                      PackedFile(dir, "new", *pack, 300, 100, 100),
                                      PackedFile(dir, "new", *pack, 300, 200, 100),
                                      PackedFile(dir, "bad", *pack, 300, 250, 100)};
  auto answers = store_->CommitFiles(ctx_, files, {});
  EXPECT_CODE(answers[0], Code::kAlreadyExists);
  EXPECT_CODE(answers[1], Code::kAlreadyExists);
  EXPECT_CODE(answers[2], Code::kNotFound);
  EXPECT_CODE(answers[3], Code::kNotDirectory);
  EXPECT_OK(answers[4]);
  EXPECT_CODE(answers[5], Code::kAlreadyExists);
  EXPECT_CODE(answers[6], Code::kInvalid);
  ExpectConsistent();

  // Again, now replacing: the pack has a reference already.
  CommitOptions options;
  options.replace = true;
  options.existing_slices = {{.id = *pack, .size = 300}};
  answers = store_->CommitFiles(ctx_, std::span(files).first(2), options);
  ASSERT_OK(answers[0]);
  EXPECT_NE(*answers[0], old);
  EXPECT_CODE(answers[1], Code::kIsDirectory);
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted.ids(), ElementsAre(old_slice));
  ExpectConsistent();
}

TEST_P(MetaStoreContract, CommitsMoreThanOneBatch) {
  const Ino dir = MakeDir(kRootIno, "d");
  std::vector<NewFile> files;
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t pack = 1'000'000 + static_cast<std::uint64_t>(i) / 100;
    files.push_back(PackedFile(dir, "f" + std::to_string(i), pack, 4096,
                               static_cast<std::uint32_t>(i % 100) * 40, 40));
  }
  for (const auto& answer : store_->CommitFiles(ctx_, files, {})) ASSERT_OK(answer);
  ExpectConsistent();
  const auto removed = store_->RemoveTree(ctx_, root_, kRootIno, "d", {.skip_trash = true});
  ASSERT_OK(removed);
  EXPECT_EQ(removed->removed, 5001U);
  EXPECT_THAT(List(kRootIno), IsEmpty());
}

TEST_P(MetaStoreContract, EmptyFilesInAPackDoNotPartIt) {
  const Ino dir = MakeDir(kRootIno, "d");
  const auto pack = store_->NewSliceId(ctx_);
  ASSERT_OK(pack);
  std::vector<NewFile> files;
  for (int i = 0; i < 1200; ++i) {
    const std::string name = "f" + std::to_string(i);
    if (i % 10 == 0) {
      files.push_back({.parent = dir, .name = name});
    } else {
      files.push_back(
          PackedFile(dir, name, *pack, 120'000, static_cast<std::uint32_t>(i) * 100, 100));
    }
  }
  for (const auto& answer : store_->CommitFiles(ctx_, files, {})) ASSERT_OK(answer);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, LoadsTrees) {
  const Ino dir = MakeDir(kRootIno, "d");
  const Ino file = MakeFile(dir, "f", 5000);
  MakeFile(kRootIno, "other");
  ASSERT_OK(store_->Link(ctx_, root_, file, dir, "g"));
  const std::string path(kMaxSymlink, 'x');
  const auto link = store_->Symlink(ctx_, root_, dir, "l", path);
  ASSERT_OK(link);
  for (const Ino root : {kRootIno, dir}) {
    const auto tree = store_->LoadTree(ctx_, root, /*with_slices=*/true);
    ASSERT_OK(tree);
    EXPECT_EQ(tree->node_count(), root == kRootIno ? 5U : 3U);
    EXPECT_EQ(tree->Target(tree->Find(link->ino)), path);
    EXPECT_EQ(tree->Target(tree->Find(file)), std::nullopt);
    const auto node = tree->Lookup(tree->Find(dir), "f");
    ASSERT_NE(node, Tree::kNone);
    EXPECT_EQ(node, tree->Lookup(tree->Find(dir), "g"));
    EXPECT_EQ(tree->Lookup(tree->Find(dir), "x"), Tree::kNone);
    EXPECT_EQ(tree->ino(node), file);
    EXPECT_EQ(tree->attr(node), *store_->GetAttr(ctx_, file));
    EXPECT_EQ(tree->Slices(node, 0), *store_->ReadSlices(ctx_, file, 0));
    EXPECT_THAT(tree->Slices(node, 1), IsEmpty());
    EXPECT_EQ(tree->child(tree->Find(dir), 0).name, "f");
  }
  const auto alone = store_->LoadTree(ctx_, link->ino, /*with_slices=*/true);
  ASSERT_OK(alone);
  EXPECT_EQ(alone->Target(alone->Find(link->ino)), path);
  const auto bare = store_->LoadTree(ctx_, kRootIno, /*with_slices=*/false);
  ASSERT_OK(bare);
  EXPECT_EQ(bare->Target(bare->Find(link->ino)), std::nullopt);
  EXPECT_CODE(store_->LoadTree(ctx_, Ino{999}, false), Code::kNotFound);
}

TEST_P(MetaStoreContract, RemovesTrees) {
  const Ino dir = MakeDir(kRootIno, "d");
  Ino deep = dir;
  for (int i = 0; i < 50; ++i) {
    deep = MakeDir(deep, "sub");
    const Ino file = MakeFile(deep, "a", 10);
    ASSERT_OK(store_->Link(ctx_, root_, file, deep, "b"));
  }
  const auto removed = store_->RemoveTree(ctx_, root_, kRootIno, "d", {});
  ASSERT_OK(removed);
  EXPECT_EQ(removed->removed, 151U);
  EXPECT_THAT(List(kRootIno), IsEmpty());
  EXPECT_CODE(store_->RemoveTree(ctx_, root_, kRootIno, "d", {}), Code::kNotFound);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, ManyThreadsAndClientsInOneDirectory) {
  constexpr int kThreads = 6;
  constexpr int kFiles = 40;
  auto other = OpenAnother();
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      MetaStore& store = t % 2 == 0 ? *store_ : *other;
      for (int i = 0; i < kFiles; ++i) {
        const std::string name = std::to_string(t) + "-" + std::to_string(i);
        ASSERT_OK(store.Mknod(ctx_, root_, kRootIno, name, FileType::kFile, 0644, 0));
        // All race for the same name; one wins.
        (void)store.Mkdir(ctx_, root_, kRootIno, "race" + std::to_string(i), 0755);
        if (i % 2 == 0) {
          ASSERT_OK(store.Unlink(ctx_, root_, kRootIno, name));
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(List(kRootIno).size(), static_cast<std::size_t>(kThreads * kFiles / 2 + kFiles));
  ExpectConsistent();
}

}  // namespace paddleop::volume::testing
