#include "volume/data/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <random>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/data/fsck.h"
#include "volume/data/gc.h"
#include "volume/data/internal/import_journal.h"
#include "volume/data/remove.h"
#include "volume/object/forwarding_store.h"
#include "volume/object/testing/faulty_store.h"
#include "volume/object/testing/mem_object.h"

namespace paddleop::volume::data {
namespace {

using object::testing::FaultyObjectStore;
using object::testing::MemObjectStore;
using object::testing::Op;
using ::testing::HasSubstr;

const Context kCtx = Context::Background();
using Files = std::map<std::string, std::string>;

std::string Content(std::size_t size, unsigned seed) {
  std::string text(size, 0);
  std::minstd_rand random(seed + 1);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// A source in memory that can be told to misbehave.
class ImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto memory = std::make_unique<MemObjectStore>();
    memory_ = memory.get();
    auto faulty = std::make_unique<FaultyObjectStore>(std::move(memory));
    faulty_ = faulty.get();
    source_.store = std::move(faulty);
    source_.uri = "mem://source/";
    options_.progress_interval = std::chrono::milliseconds(20);
    options_.journal_dir = dir_.File("state");
    OpenVolume("volume", {});
  }

  void OpenVolume(const std::string& name, Setting setting) {
    volume_.reset();
    url_ = "sqlite3://" + dir_.File(name + ".db");
    setting.name = name;
    setting.uuid = RandomUuid();
    setting.storage = "file";
    setting.bucket = dir_.File("blocks") + "/";
    setting.block_size_kib = 64;
    setting.trash_days = 0;
    ASSERT_OK(FormatVolume(kCtx, url_, setting, false, log_, metrics_));
    auto opened = Volume::Open(kCtx, url_, {.memory_cache_bytes = 0}, log_, metrics_);
    ASSERT_OK(opened);
    volume_ = *std::move(opened);
  }

  void Put(const std::string& key, const std::string& content) {
    ASSERT_OK(object::PutString(*memory_, kCtx, key, content));
    source_files_[key] = content;
  }
  void PutMany(int count) {
    for (int i = 0; i < count; ++i) {
      Put(fmt::format("train/{:03}/{:05}.jpg", i % 7, i),
          Content(static_cast<std::size_t>(i * 37 % 9000), static_cast<unsigned>(i)));
    }
  }

  ImportReport Run() { return Import(kCtx, *volume_, source_, options_, log_); }
  ImportReport RunWell() {
    ImportReport report = Run();
    EXPECT_OK(report.result);
    EXPECT_EQ(report.progress.failed_files, 0u)
        << report.failures[0].key << ": " << report.failures[0].error.message();
    return report;
  }

  // All files of the volume below `path`.
  void Collect(const std::string& path, Ino directory, Files& files) {
    std::string cursor;
    do {
      auto page = volume_->meta().ReadDir(kCtx, {}, directory, cursor, 1000, true);
      ASSERT_OK(page);
      for (const DirEntry& entry : page->entries) {
        const std::string name = path + entry.name;
        if (entry.type == FileType::kDirectory) {
          Collect(name + "/", entry.ino, files);
          continue;
        }
        auto opened = volume_->vfs().Open(kCtx, {}, entry.ino, {});
        ASSERT_OK(opened);
        std::string content(entry.attr->length, 0);
        auto read = volume_->vfs().Read(kCtx, opened->handle, 0,
                                        std::as_writable_bytes(std::span(content)));
        ASSERT_OK(read) << name;
        EXPECT_EQ(*read, content.size());
        ASSERT_OK(volume_->vfs().Release(kCtx, opened->handle));
        files[name] = content;
      }
      cursor = page->next;
    } while (!cursor.empty());
  }
  Files VolumeFiles() {
    Files files;
    Collect("", kRootIno, files);
    return files;
  }
  // Every block is there, every reference right, and no object too many.
  void ExpectClean() {
    ASSERT_OK(volume_->meta().DrainDeletions(kCtx));
    auto checked =
        Fsck(kCtx, volume_->meta(), volume_->objects(), volume_->setting().layout(), true);
    ASSERT_OK(checked);
    EXPECT_TRUE(checked->clean()) << checked->problems[0].path << ": "
                                  << checked->problems[0].detail;
    auto garbage =
        CollectGarbage(kCtx, volume_->meta(), volume_->objects(), volume_->setting().layout(),
                       {.min_age = std::chrono::seconds(0)});
    ASSERT_OK(garbage);
    EXPECT_EQ(garbage->leaked_objects, 0u);
    EXPECT_EQ(garbage->pending_slices, 0u);
    objects_ = garbage->objects;
  }
  void ExpectSame() {
    const Files there = VolumeFiles();
    EXPECT_EQ(there.size(), source_files_.size());
    for (const auto& [key, content] : source_files_) {
      const auto found = there.find(key);
      if (found == there.end()) {
        ADD_FAILURE() << "missing: " << key;
      } else {
        EXPECT_TRUE(found->second == content) << key;
      }
    }
    ExpectClean();
  }

  TempDir dir_ = *TempDir::Create();
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  std::string url_;
  std::unique_ptr<Volume> volume_;
  MemObjectStore* memory_ = nullptr;
  FaultyObjectStore* faulty_ = nullptr;
  Source source_;
  Files source_files_;
  ImportOptions options_;
  std::uint64_t objects_ = 0;
};

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
  for (int i = 0; i < 20; ++i) {
    Put(fmt::format("{:02}", i), Content(static_cast<std::size_t>(1000 + 900 * i), 5));
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
  EXPECT_THAT(report.failures[1].error.message(), HasSubstr("directory \"a\""));
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

TEST_F(ImportTest, WhatAKilledImportLeftIsDeleted) {
  PutMany(20);
  RunWell();
  const std::uint64_t stored = objects_;
  // As a killed import leaves it: stored, noted, not committed. And one that was committed.
  auto id = volume_->meta().NewSliceId(kCtx);
  ASSERT_OK(id);
  auto tree = volume_->meta().LoadTree(kCtx, kRootIno, true);
  const auto dir = tree->Lookup(tree->Lookup(tree->Find(kRootIno), "train"), "001");
  const Slice used = tree->Slices(tree->Lookup(dir, "00001.jpg"), 0).at(0);
  {
    auto journal =
        ImportJournal::Open(options_.journal_dir + "/" + volume_->setting().uuid + "/import");
    ASSERT_OK(journal);
    ASSERT_OK((*journal)->Begin({.id = *id, .size = 5}));
    ASSERT_OK((*journal)->Begin({.id = used.id, .size = used.size}));
    ASSERT_OK(volume_->blocks().WriteBlock(kCtx, {.slice = *id, .index = 0, .length = 5},
                                           AsBytes("hello")));
  }
  RunWell();
  ExpectSame();
  EXPECT_GE(objects_, stored);
}

TEST_F(ImportTest, AStoppedImportIsGoneOnWith) {
  PutMany(600);
  std::stop_source stop;
  std::atomic<int> blocks{0};
  options_.on_block = [&](const BlockId&, std::span<const std::byte>) {
    if (++blocks == 5) stop.request_stop();
  };
  const ImportReport stopped =
      Import(kCtx.WithStop(stop.get_token()), *volume_, source_, options_, log_);
  EXPECT_CODE(stopped.result, Code::kCancelled);
  EXPECT_LT(stopped.progress.copied_files, 600u);
  options_.on_block = {};
  const ImportReport rest = RunWell();
  EXPECT_EQ(rest.progress.copied_files + stopped.progress.copied_files, 600u);
  ExpectSame();
}

TEST_F(ImportTest, AFullVolumeEndsTheImportAndStaysWhole) {
  Setting setting;
  setting.capacity = 1 << 20;
  OpenVolume("small", setting);
  for (int i = 0; i < 100; ++i) Put(fmt::format("{:03}", i), Content(20'000, 7));
  const ImportReport report = Run();
  ASSERT_FALSE(report.result);
  EXPECT_THAT(report.result.error().message(), HasSubstr("make files in the volume"));
  EXPECT_GT(report.progress.copied_files, 0u);
  ExpectClean();
}

TEST_F(ImportTest, ASourceThatGoesAwayEndsTheImport) {
  PutMany(300);
  faulty_->Inject(Op::kGet, {.kind = object::testing::Fault::Kind::kUnavailable}, 1000, 100);
  const ImportReport report = Run();
  EXPECT_CODE(report.result, Code::kUnavailable);
  EXPECT_THAT(report.result.error().message(), HasSubstr("mem://source/"));
  ExpectClean();
}

TEST_F(ImportTest, AListingThatBreaksDeletesNothing) {
  PutMany(50);
  RunWell();
  options_.delete_dst = true;
  faulty_->Inject(Op::kList, {.kind = object::testing::Fault::Kind::kUnavailable}, 1);
  const ImportReport report = Run();
  EXPECT_CODE(report.result, Code::kUnavailable);
  EXPECT_EQ(report.progress.deleted_files, 0u);
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
