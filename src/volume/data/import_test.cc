#include "volume/data/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/posix.h"
#include "volume/data/remove.h"
#include "volume/data/testing/import_fixture.h"
#include "volume/object/forwarding_store.h"
#include "volume/object/prefix_store.h"

namespace paddleop::volume::data {
namespace {

using object::testing::FaultyObjectStore;
using object::testing::MemObjectStore;
using object::testing::Op;
using ::testing::HasSubstr;

TEST_F(ImportTest, FilesOfAllSizesArriveAsTheyAre) {
  PutMany(200);
  Put("empty", "");
  Put("page", Content(4096, 1));
  Put("block", Content(64 << 10, 2));
  Put("more", Content((64 << 10) + 1, 3));
  Put("big", Content((5 << 20) + 123, 4));
  Put("a file with spaces", "x");
  Put("\xe5\x9b\xbe\xe7\x89\x87/\xff\xfe", "odd bytes");
  const ImportReport report = RunWell();
  EXPECT_EQ(report.progress.copied_files, source_files_.size());
  EXPECT_FALSE(report.progress.listing);
  ExpectSame();
  // 200 small files share a few packs.
  EXPECT_LT(objects_, 120u);
}

TEST_F(ImportTest, FilesOfAPageAndMoreBeginAtAPage) {
  for (std::size_t i = 0; i < 20; ++i) {
    Put(fmt::format("{:02}", i), Content(1000 + 900 * i, 5));
  }
  RunWell();
  auto tree = volume_->meta().LoadTree(kCtx, kRootIno, true);
  ASSERT_OK(tree);
  for (const auto& [key, content] : source_files_) {
    const auto node = tree->Lookup(tree->Find(kRootIno), key);
    const auto slices = tree->Slices(node, 0);
    ASSERT_EQ(slices.size(), 1u);
    EXPECT_LE(slices[0].size, 64u << 10);
    if (content.size() >= 4096) {
      EXPECT_EQ(slices[0].off % 4096, 0u) << key;
    }
  }
}

TEST_F(ImportTest, ASecondRunReadsNothing) {
  PutMany(100);
  RunWell();
  const int before = faulty_->calls(Op::kGet);
  const ImportReport again = RunWell();
  EXPECT_EQ(again.progress.copied_files, 0u);
  EXPECT_EQ(again.progress.skipped_files, 100u);
  EXPECT_EQ(faulty_->calls(Op::kGet), before);
  EXPECT_EQ(faulty_->calls(Op::kHead), 0);
  options_.force_update = true;
  EXPECT_EQ(RunWell().progress.copied_files, 100u);
  ExpectSame();
}

TEST_F(ImportTest, FollowsWhatChangedInTheSource) {
  PutMany(60);
  RunWell();
  Put("train/000/00000.jpg", "changed");
  Put("new/file", "new");
  ASSERT_OK(memory_->Delete(kCtx, "train/001/00001.jpg"));
  ASSERT_OK(memory_->Delete(kCtx, "train/002/00002.jpg"));
  for (int i = 3; i < 60; i += 7) {  // a whole directory
    const std::string key = fmt::format("train/003/{:05}.jpg", i);
    ASSERT_OK(memory_->Delete(kCtx, key));
    source_files_.erase(key);
  }
  ImportReport report = RunWell();
  EXPECT_EQ(report.progress.copied_files, 2u);
  EXPECT_EQ(VolumeFiles().size(), 61u);
  source_files_.erase("train/001/00001.jpg");
  source_files_.erase("train/002/00002.jpg");
  options_.delete_dst = true;
  report = RunWell();
  EXPECT_EQ(report.progress.deleted_files, 2u + 9u + 1u);
  ExpectSame();
}

TEST_F(ImportTest, DeletingLeavesAloneWhatFiltersLeaveOut) {
  PutMany(20);
  RunWell();
  for (const char* path : {"keep.log", "drop.jpg"}) {
    ASSERT_OK(volume_->meta().Mknod(kCtx, {}, kRootIno, path, FileType::kFile, 0644, 0));
  }
  auto other = volume_->meta().Mkdir(kCtx, {}, kRootIno, "other", 0755);
  ASSERT_OK(other);
  for (const char* path : {"x.log", "y.jpg"}) {
    ASSERT_OK(volume_->meta().Mknod(kCtx, {}, other->ino, path, FileType::kFile, 0644, 0));
  }
  options_.delete_dst = true;
  options_.rules = {{false, "*.log"}};
  options_.dry = true;
  EXPECT_EQ(RunWell().progress.deleted_files, 2u);
  EXPECT_EQ(VolumeFiles().size(), 24u);
  options_.dry = false;
  RunWell();
  const Files there = VolumeFiles();
  EXPECT_EQ(there.size(), 22u);
  EXPECT_TRUE(there.contains("keep.log"));
  EXPECT_TRUE(there.contains("other/x.log"));
}

TEST_F(ImportTest, UpdateCopiesOnlyWhatIsNewer) {
  Put("a", "one");
  RunWell();
  auto entry = volume_->meta().Lookup(kCtx, {}, kRootIno, "a");
  ASSERT_OK(entry);
  const Timestamp future{.seconds = entry->attr.mtime.seconds + 1000, .nanos = 1};
  ASSERT_OK(volume_->meta().SetAttr(kCtx, {}, entry->ino, {.mtime = future}));
  options_.update = true;
  EXPECT_EQ(RunWell().progress.copied_files, 0u);
  options_.update = false;  // any difference
  EXPECT_EQ(RunWell().progress.copied_files, 1u);
}

TEST_F(ImportTest, KeysThatCannotBeFilesFailAloneAndSayWhy) {
  Put("good", "x");
  Put("also/good", "y");
  const Files good = source_files_;
  Put("a/../b", "x");
  Put("a//b", "x");
  Put("/c", "x");
  Put(std::string(300, 'n'), "x");
  Put("dir-object/", "");
  Put("dir-with-bytes/", "zz");
  Put("clash", "file");
  Put("clash/inside", "x");
  Put("clash.txt", "fine");
  std::map<std::string, std::string> reasons;
  options_.on_failure = [&](const FileFailure& failure) {
    reasons[failure.key] = failure.error.message();
  };
  const ImportReport report = Run();
  EXPECT_OK(report.result);
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.progress.failed_files, 6u);
  EXPECT_THAT(reasons["a/../b"], HasSubstr("\"..\""));
  EXPECT_THAT(reasons["a//b"], HasSubstr("empty part"));
  EXPECT_THAT(reasons[std::string(300, 'n')], HasSubstr("255"));
  EXPECT_THAT(reasons["dir-with-bytes/"], HasSubstr("2 bytes"));
  EXPECT_THAT(reasons["clash/inside"], HasSubstr("\"clash\""));
  EXPECT_THAT(reasons["clash/inside"], HasSubstr("\"clash/inside\""));
  source_files_ = good;
  source_files_["clash"] = "file";
  source_files_["clash.txt"] = "fine";
  ExpectSame();
  EXPECT_CODE(volume_->meta().Lookup(kCtx, {}, kRootIno, "dir-object"), Code::kNotFound);
  options_.dirs = true;
  (void)Run();
  EXPECT_OK(volume_->meta().Lookup(kCtx, {}, kRootIno, "dir-object"));
}

TEST_F(ImportTest, ADirectoryInTheWayIsNamed) {
  ASSERT_OK(volume_->meta().Mkdir(kCtx, {}, kRootIno, "a", 0755));
  ASSERT_OK(volume_->meta().Mknod(kCtx, {}, kRootIno, "f", FileType::kFile, 0644, 0));
  Put("a", "x");
  Put("f/b", "x");
  const ImportReport report = Run();
  ASSERT_EQ(report.failures.size(), 2u);
  EXPECT_THAT(report.failures[0].error.message(), HasSubstr("\"f\" is a file"));
  EXPECT_THAT(report.failures[1].error.message(), HasSubstr("directory \"a\" in the volume"));
}

// Changes an object after its first read.
class ChangingStore final : public object::ForwardingStore {
 public:
  ChangingStore(std::unique_ptr<ObjectStore> inner, std::string key, std::vector<std::string> later)
      : ForwardingStore(std::move(inner)), key_(std::move(key)), later_(std::move(later)) {}
  void StartGet(const Context& ctx, std::string_view key, const object::GetOptions& options,
                std::span<std::byte> out, GetDone done) override {
    if (key == key_ && !later_.empty()) {
      EXPECT_OK(object::PutString(*inner_, ctx, key, later_.front()));
      later_.erase(later_.begin());
    }
    ForwardingStore::StartGet(ctx, key, options, out, std::move(done));
  }

 private:
  const std::string key_;
  std::vector<std::string> later_;
};

TEST_F(ImportTest, AFileThatChangesWhileItIsReadIsReadAgain) {
  PutMany(10);
  Put("changing", Content(3000, 1));
  Put("growing", Content(300 << 10, 2));
  source_files_["changing"] = Content(5000, 3);
  source_files_["growing"] = Content(400 << 10, 4);
  source_.store = std::make_unique<ChangingStore>(
      std::move(source_.store), "changing",
      std::vector<std::string>{Content(100, 9), source_files_["changing"]});
  source_.store = std::make_unique<ChangingStore>(
      std::move(source_.store), "growing", std::vector<std::string>{source_files_["growing"]});
  const ImportReport report = RunWell();
  EXPECT_GE(report.progress.retried_files, 2u);
  ExpectSame();
}

// Says of an object that it has another size than it has.
class LyingStore final : public object::ForwardingStore {
 public:
  explicit LyingStore(std::unique_ptr<ObjectStore> inner) : ForwardingStore(std::move(inner)) {}
  Result<void> List(const Context& ctx, const object::ListOptions& options,
                    const object::ListVisitor& visit) override {
    return ForwardingStore::List(ctx, options, [&](object::ObjectInfo& entry) {
      Lie(entry);
      return visit(entry);
    });
  }
  Result<object::ObjectInfo> Head(const Context& ctx, std::string_view key) override {
    auto info = ForwardingStore::Head(ctx, key);
    if (info) Lie(*info);
    return info;
  }

 private:
  static void Lie(object::ObjectInfo& entry) {
    if (entry.key == "longer") entry.size += 10;
    if (entry.key == "shorter") entry.size -= 10;
    if (entry.key == "big-liar") entry.size += 10;
  }
};

TEST_F(ImportTest, ASourceThatLiesAboutSizesIsNotBelieved) {
  Put("honest", Content(500, 1));
  const Files honest = source_files_;
  Put("longer", Content(500, 2));
  Put("shorter", Content(500, 3));
  Put("big-liar", Content(200 << 10, 4));
  source_.store = std::make_unique<LyingStore>(std::move(source_.store));
  const ImportReport report = Run();
  EXPECT_OK(report.result);
  EXPECT_EQ(report.progress.failed_files, 3u);
  source_files_ = honest;
  ExpectSame();
}

TEST_F(ImportTest, SeveralProcessesShareAnImport) {
  PutMany(3000);
  std::uint64_t copied = 0;
  options_.parts = 3;
  for (options_.part = 0; options_.part < 3; ++options_.part) {
    const ImportReport report = RunWell();
    EXPECT_LT(report.progress.copied_files, 3000u);
    EXPECT_EQ(report.progress.copied_files + report.progress.excluded_files, 3000u);
    copied += report.progress.copied_files;
  }
  EXPECT_EQ(copied, 3000u);
  ExpectSame();
}

TEST_F(ImportTest, StartEndAndRulesChoose) {
  for (const char* key : {"a.txt", "b.jpg", "b.txt", "c.txt", "d.txt"}) Put(key, key);
  options_.start = "b.jpg";
  options_.end = "c.txt";
  options_.rules = {{false, "*.jpg"}};
  options_.to = "/some/where";
  RunWell();
  Files expected = {{"some/where/b.txt", "b.txt"}, {"some/where/c.txt", "c.txt"}};
  EXPECT_EQ(VolumeFiles(), expected);
}

// Listed in parts at the same time, the keys arrive as in one listing: all of them, in order.
TEST_F(ImportTest, LargeDirectoriesOfABucketAreListedTogether) {
  ASSERT_GT(memory_->traits().min_part_size, 0u) << "no bucket service";
  for (int i = 0; i < 2400; ++i)
    Put(fmt::format("{}/n{:02}/{:05}.jpg", i % 4 == 0 ? "eval" : "train", i % 12, i), "x");
  for (const char* key : {"aaa", "eval-list.txt", "train.txt", "train/n05-notes", "zzz"})
    Put(key, key);
  // Objects that are directories make nothing, but must not hide or repeat others.
  for (const char* key : {"train/", "train/n03/"})
    ASSERT_OK(object::PutString(*memory_, kCtx, key, ""));
  const int before = faulty_->calls(Op::kList);
  const ImportReport report = RunWell();
  EXPECT_GE(faulty_->calls(Op::kList) - before, 10);
  EXPECT_EQ(report.progress.listed_files, source_files_.size());
  ExpectSame();

  options_.to = "/some";
  options_.start = "eval/n04/00300.jpg";
  options_.end = "train/n05/01000.jpg";
  const ImportReport some = RunWell();
  EXPECT_EQ(some.progress.copied_files,
            static_cast<std::uint64_t>(std::distance(source_files_.lower_bound(options_.start),
                                                     source_files_.upper_bound(options_.end))));
}

// More directories than are listed one by one, and some of them in the first page of the listing.
TEST_F(ImportTest, NoDirectoryOfABucketIsOneTooMany) {
  for (int i = 0; i < 1200; ++i)
    ASSERT_OK(object::PutString(*memory_, kCtx, fmt::format("n{:05}/{:05}.jpg", i % 6, i), "x"));
  for (int i = 6; i < 10'050; ++i)
    ASSERT_OK(object::PutString(*memory_, kCtx, fmt::format("n{:05}/a.jpg", i), "x"));
  options_.dry = true;
  EXPECT_EQ(RunWell().progress.listed_files, 1200u + 10'044u);
}

TEST_F(ImportTest, TheObjectOfTheSourcesOwnFolderIsNoFile) {
  ASSERT_OK(object::PutString(*memory_, kCtx, "set/", ""));
  ASSERT_OK(object::PutString(*memory_, kCtx, "set/a", "x"));
  source_.store = object::WithPrefix(std::move(source_.store), "set/");
  for (const bool dirs : {false, true}) {
    options_.dirs = dirs;
    EXPECT_EQ(RunWell().progress.listed_files, 1u);
  }
  EXPECT_EQ(VolumeFiles(), (Files{{"a", "x"}}));
}

TEST_F(ImportTest, AListingInPartsThatBreaksIsNoWholeListing) {
  for (int i = 0; i < 1500; ++i) Put(fmt::format("n{:02}/{:05}.jpg", i % 10, i), "x");
  options_.delete_dst = true;
  faulty_->Inject(Op::kList, {.kind = object::testing::Fault::Kind::kUnavailable}, 1, 3);
  const ImportReport report = Run();
  EXPECT_CODE(report.result, Code::kUnavailable);
  options_.delete_dst = false;
  RunWell();
  ExpectSame();
}

TEST_F(ImportTest, ADryRunChangesNothing) {
  PutMany(20);
  options_.dry = true;
  options_.to = "/new";
  const ImportReport report = RunWell();
  EXPECT_EQ(report.progress.copied_files, 20u);
  EXPECT_EQ(faulty_->calls(Op::kGet), 0);
  EXPECT_TRUE(VolumeFiles().empty());
  EXPECT_CODE(volume_->meta().Lookup(kCtx, {}, kRootIno, "new"), Code::kNotFound);
}

TEST_F(ImportTest, MovesInsteadOfCopying) {
  PutMany(30);
  RunWell();
  Put("extra", "x");
  options_.delete_src = true;
  const ImportReport report = RunWell();
  EXPECT_EQ(report.progress.copied_files, 1u);
  EXPECT_EQ(report.progress.deleted_source_files, 31u);
  EXPECT_EQ(memory_->size(), 0u);
  ExpectSame();
}

TEST_F(ImportTest, AFileThatStaysInTheSourceCountsOnce) {
  PutMany(30);
  RunWell();
  Put("extra", "x");
  options_.delete_src = true;
  faulty_->Inject(Op::kDelete, {.kind = object::testing::Fault::Kind::kUnavailable}, 1000);
  const ImportReport report = Run();
  EXPECT_OK(report.result);
  EXPECT_EQ(report.progress.failed_files, 31u);
  EXPECT_EQ(report.progress.done_files(), 31u) << "copied, skipped and failed make the whole";
  EXPECT_EQ(report.progress.failed_bytes, report.progress.listed_bytes);
  EXPECT_FALSE(report.complete());
  ASSERT_FALSE(report.failures.empty());
  EXPECT_THAT(report.failures[0].error.message(), HasSubstr("not deleted from the source"));
  ExpectSame();
}

TEST_F(ImportTest, WrongOptionsAreNamed) {
  options_.threads = 0;
  EXPECT_THAT(Run().result.error().message(), HasSubstr("threads"));
  options_.threads = 1;
  options_.part = 3;
  EXPECT_CODE(Run().result, Code::kInvalid);
}

TEST_F(ImportTest, ADirectoryKeepsModesAndEmptyDirectories) {
  const std::string from = dir_.File("from");
  ASSERT_OK(MakeDirectories(from + "/d/empty"));
  ASSERT_OK(WriteFileAtomic(from + "/d/run.sh", "#!/bin/sh\n", 0750));
  ASSERT_EQ(::chmod((from + "/d/empty").c_str(), 0711), 0);
  ASSERT_EQ(::chmod((from + "/d/run.sh").c_str(), 0750), 0);
  auto source = OpenSource(kCtx, from, {}, log_, metrics_);
  ASSERT_OK(source);
  options_.perms = options_.dirs = true;
  const ImportReport report = Import(kCtx, *volume_, *source, options_, log_);
  EXPECT_TRUE(report.complete());
  auto file = volume_->meta().Resolve(kCtx, {}, kRootIno, "d/run.sh");
  ASSERT_OK(file);
  EXPECT_EQ(file->attr.mode, 0750);
  EXPECT_EQ(file->attr.uid, ::geteuid());
  auto empty = volume_->meta().Resolve(kCtx, {}, kRootIno, "d/empty");
  ASSERT_OK(empty);
  EXPECT_EQ(empty->attr.mode, 0711);
}

TEST_F(ImportTest, OneFileCanBeASource) {
  const std::string path = dir_.File("list.txt");
  ASSERT_OK(WriteFileAtomic(path, "hello"));
  auto source = OpenSource(kCtx, path, {}, log_, metrics_);
  ASSERT_OK(source);
  EXPECT_TRUE(Import(kCtx, *volume_, *source, options_, log_).complete());
  EXPECT_EQ(VolumeFiles(), (Files{{"list.txt", "hello"}}));
  EXPECT_CODE(OpenSource(kCtx, dir_.File("absent"), {}, log_, metrics_), Code::kNotFound);
}

TEST_F(ImportTest, AnotherVolumeCanBeASource) {
  PutMany(100);
  Put("big", Content(200 << 10, 4));
  RunWell();
  const std::string first = url_;
  OpenVolume("second", {});
  auto source = OpenSource(kCtx, first, {}, log_, metrics_);
  ASSERT_OK(source);
  const ImportReport report = Import(kCtx, *volume_, *source, options_, log_);
  EXPECT_TRUE(report.complete()) << (report.result ? "" : report.result.error().message());
  ExpectSame();
  const ImportReport again = Import(kCtx, *volume_, *source, options_, log_);
  EXPECT_EQ(again.progress.skipped_files, 101u);
  ASSERT_EQ(::setenv("FIRST", first.c_str(), 1), 0);
  auto part = OpenSource(kCtx, "jfs://FIRST/train/003", {}, log_, metrics_);
  ASSERT_OK(part);
  options_.to = "/copy";
  EXPECT_EQ(Import(kCtx, *volume_, *part, options_, log_).progress.copied_files, 14u);
  EXPECT_CODE(OpenSource(kCtx, "jfs://NO_SUCH_VOLUME/x", {}, log_, metrics_), Code::kInvalid);
}

TEST_F(ImportTest, WhatIsRemovedTakesItsObjectsWithIt) {
  PutMany(300);
  Put("stays", Content(9000, 1));
  RunWell();
  const std::vector<std::string> paths = {"train/001", "/train/", "absent", "/"};
  const RemoveReport report = RemovePaths(kCtx, *volume_, paths, {.skip_trash = true});
  EXPECT_OK(report.objects);
  EXPECT_EQ(report.removed, 300u + 7u + 1u);
  ASSERT_EQ(report.failures.size(), 2u);
  EXPECT_CODE(Result<void>(std::unexpected(report.failures[0].error)), Code::kNotFound);
  EXPECT_CODE(Result<void>(std::unexpected(report.failures[1].error)), Code::kInvalid);
  EXPECT_EQ(VolumeFiles().size(), 1u);
  ExpectClean();
  EXPECT_EQ(objects_, 1u);
}

TEST_F(ImportTest, EachBlockIsOfferedOnce) {
  PutMany(200);
  std::mutex mutex;
  std::map<BlockId, std::size_t> offered;
  options_.on_block = [&](const BlockId& block, std::span<const std::byte> content) {
    const std::lock_guard lock(mutex);
    offered[block] += content.size();
  };
  const ImportReport report = RunWell();
  EXPECT_EQ(offered.size(), report.progress.uploaded_objects);
  for (const auto& [block, size] : offered) EXPECT_EQ(size, block.length);
}

}  // namespace
}  // namespace paddleop::volume::data
