// Imports that delete: from the source, and from the volume.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "volume/data/import.h"
#include "volume/data/testing/import_fixture.h"
#include "volume/object/forwarding_store.h"

namespace paddleop::volume::data {
namespace {

using ::testing::HasSubstr;

class ImportDeleteTest : public ImportTest {
 protected:
  Source OpenWell(const std::string& uri) {
    auto source = OpenSource(kCtx, uri, {}, log_, metrics_);
    EXPECT_OK(source);
    return *std::move(source);
  }
  ImportReport RunFrom(const std::string& uri) {
    return Import(kCtx, *volume_, OpenWell(uri), options_, log_);
  }
  // jfs://SELF is the volume itself.
  void NameVolume() { ASSERT_EQ(::setenv("SELF", url_.c_str(), 1), 0); }
};

TEST_F(ImportDeleteTest, ADirectoryIsNoSourceForItself) {
  PutMany(20);
  options_.to = "/set/deep";
  RunWell();
  const Files before = VolumeFiles();
  NameVolume();
  const auto refused = [&](const std::string& uri, const std::string& to) {
    SCOPED_TRACE(uri + " to " + to);
    options_.to = to;
    const ImportReport report = RunFrom(uri);
    EXPECT_CODE(report.result, Code::kInvalid);
    EXPECT_EQ(VolumeFiles(), before);
  };
  options_.delete_src = true;
  refused("jfs://SELF/set", "/set");
  refused("jfs://SELF/set", "set//");
  refused("jfs://SELF/set", "/set/deep");
  refused("jfs://SELF/set", "/set/not/there/yet");
  refused("jfs://SELF/", "/copy");
  refused(url_, "/");
  refused("jfs://SELF/set/deep/train/000/00000.jpg", "/set/deep/train/000");
  options_.delete_src = false;
  refused("jfs://SELF/set", "/set");
  options_.delete_dst = true;
  refused("jfs://SELF/set/deep", "/set");

  options_.to = "/copy";
  EXPECT_TRUE(RunFrom("jfs://SELF/set/deep").complete());
  options_.delete_dst = false;
  options_.to = "/";
  EXPECT_TRUE(RunFrom("jfs://SELF/set/deep").complete()) << "upwards is fine";
  options_.to = "/set";
  EXPECT_TRUE(RunFrom("jfs://SELF/set/deep/train/000/00000.jpg").complete());
  EXPECT_EQ(VolumeFiles().size(), 3 * before.size() + 1);
}

TEST_F(ImportDeleteTest, WhatTheVolumeHasNoCopyOfStaysInTheSource) {
  Put("older", "other content");
  Put("same", "same content");
  RunWell();
  Put("older", "older content, to be kept");
  auto entry = volume_->meta().Lookup(kCtx, {}, kRootIno, "older");
  ASSERT_OK(entry);
  const Timestamp future{.seconds = entry->attr.mtime.seconds + 1000, .nanos = 0};
  ASSERT_OK(volume_->meta().SetAttr(kCtx, {}, entry->ino, {.mtime = future}));
  options_.update = options_.delete_src = true;
  const ImportReport report = RunWell();
  EXPECT_EQ(report.progress.copied_files, 0u);
  EXPECT_EQ(report.progress.skipped_files, 2u);
  EXPECT_EQ(report.progress.deleted_source_files, 1u);
  EXPECT_OK(memory_->Head(kCtx, "older"));
  EXPECT_CODE(memory_->Head(kCtx, "same"), Code::kNotFound);
}

// Changes an object as soon as its deletion is prepared.
class LateChange final : public object::ForwardingStore {
 public:
  LateChange(std::unique_ptr<ObjectStore> inner, std::string key)
      : ForwardingStore(std::move(inner)), key_(std::move(key)) {}
  Result<object::ObjectInfo> Head(const Context& ctx, std::string_view key) override {
    if (key == key_) RETURN_IF_ERROR(object::PutString(*inner_, ctx, key, "written meanwhile"));
    return ForwardingStore::Head(ctx, key);
  }

 private:
  const std::string key_;
};

TEST_F(ImportDeleteTest, WhatChangesAfterItWasCopiedStaysInTheSource) {
  PutMany(20);
  Put("busy", "as it was copied");
  source_.store = std::make_unique<LateChange>(std::move(source_.store), "busy");
  options_.delete_src = true;
  const ImportReport report = Run();
  ASSERT_OK(report.result);
  EXPECT_EQ(report.progress.deleted_source_files, 20u);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].key, "busy");
  EXPECT_THAT(report.failures[0].error.message(), HasSubstr("not deleted from the source"));
  EXPECT_THAT(report.failures[0].error.message(), HasSubstr("changed"));
  EXPECT_EQ(*object::GetString(*memory_, kCtx, "busy", 100), "written meanwhile");
  EXPECT_EQ(memory_->size(), 1u);
  ExpectSame();
}

TEST_F(ImportDeleteTest, DirectoriesOutsideTheBoundsStay) {
  Put("m", "x");
  RunWell();
  for (const char* name : {"aaa", "m5", "zzz"})
    ASSERT_OK(volume_->meta().Mkdir(kCtx, {}, kRootIno, name, 0755));
  options_.delete_dst = true;
  options_.start = "m";
  options_.end = "n";
  options_.dry = true;
  EXPECT_EQ(RunWell().progress.deleted_files, 1u) << "a dry run says what would go";
  options_.dry = false;
  EXPECT_EQ(RunWell().progress.deleted_files, 1u);
  EXPECT_CODE(volume_->meta().Lookup(kCtx, {}, kRootIno, "m5"), Code::kNotFound);
  EXPECT_OK(volume_->meta().Lookup(kCtx, {}, kRootIno, "aaa"));
  EXPECT_OK(volume_->meta().Lookup(kCtx, {}, kRootIno, "zzz"));
}

TEST_F(ImportDeleteTest, AMistypedSourceDeletesNothingWhateverTheBounds) {
  Put("m", "x");
  RunWell();
  const auto keep = std::move(source_.store);
  source_.store = std::make_unique<object::testing::MemObjectStore>();
  source_.whole = false;
  options_.delete_dst = true;
  for (const auto& [start, end] : {std::pair("", ""), std::pair("", "z"), std::pair("a", "")}) {
    options_.start = start;
    options_.end = end;
    EXPECT_CODE(Run().result, Code::kNotFound);
    EXPECT_OK(volume_->meta().Lookup(kCtx, {}, kRootIno, "m"));
  }
}

TEST_F(ImportDeleteTest, AFileThatBecameADirectoryIsReplaced) {
  Put("file", "one");
  Put("directory/a", "two");
  Put("directory/b", "three");
  RunWell();
  for (const char* key : {"file", "directory/a", "directory/b"}) {
    ASSERT_OK(memory_->Delete(kCtx, key));
    source_files_.erase(key);
  }
  Put("file/a", "four");
  Put("directory", "five");
  const ImportReport refused = Run();
  EXPECT_EQ(refused.progress.failed_files, 2u);
  for (const FileFailure& failure : refused.failures)
    EXPECT_THAT(failure.error.message(), HasSubstr("--delete-dst"));
  options_.delete_dst = true;
  options_.rules = {{.include = false, .pattern = "*.log"}};
  EXPECT_EQ(Run().progress.failed_files, 2u) << "it may hold what the patterns want to keep";
  options_.rules.clear();
  options_.dry = true;
  EXPECT_EQ(RunWell().progress.deleted_files, 2u);
  EXPECT_EQ(VolumeFiles().size(), 3u);
  options_.dry = false;
  RunWell();
  ExpectSame();
}

TEST_F(ImportDeleteTest, WhatMustStayInTheVolumeIsNamedAndNothingElseStays) {
  Put("a", "x");
  RunWell();
  const auto make = [&](Ino parent, const char* name) {
    auto made = volume_->meta().Mknod(kCtx, {}, parent, name, FileType::kFile, 0644, 0);
    EXPECT_OK(made);
    return made->ino;
  };
  const Ino fixed = make(kRootIno, "fixed");
  auto tree = volume_->meta().Mkdir(kCtx, {}, kRootIno, "tree", 0755);
  ASSERT_OK(tree);
  const Ino below = make(tree->ino, "fixed");
  make(kRootIno, "gone");
  for (const Ino ino : {fixed, below})
    ASSERT_OK(volume_->meta().SetAttr(kCtx, {}, ino, {.flags = kFlagImmutable}));
  Put("z/new", "x");
  options_.delete_dst = true;
  std::map<std::string, std::string> reasons;
  options_.on_failure = [&](const FileFailure& failure) {
    reasons[failure.key] = failure.error.message();
  };
  for (const bool all : {true, false}) {
    SCOPED_TRACE(all);
    if (!all) options_.rules = {{.include = false, .pattern = "*.log"}};
    reasons.clear();
    const ImportReport report = Run();
    EXPECT_OK(report.result);
    ASSERT_EQ(reasons.size(), 2u);
    EXPECT_THAT(reasons["fixed"], HasSubstr("cannot be removed from the volume"));
    EXPECT_TRUE(reasons.contains(all ? "tree" : "tree/fixed"));
    EXPECT_EQ(VolumeFiles(),
              (Files{{"a", "x"}, {"fixed", ""}, {"tree/fixed", ""}, {"z/new", "x"}}));
  }
}

TEST_F(ImportDeleteTest, TheTrashIsNoDestination) {
  OpenVolume("with-trash", {}, /*trash_days=*/1);
  Put("a", "x");
  Put("b", "x");
  RunWell();
  ASSERT_OK(volume_->meta().Unlink(kCtx, {}, kRootIno, "a"));
  const auto trashed = [&] {
    Files files;
    Collect("", kTrashIno, files);
    return files.size();
  };
  ASSERT_EQ(trashed(), 1u);
  ASSERT_OK(memory_->Delete(kCtx, "a"));
  for (const char* key : {".trash/x", ".stats"})
    ASSERT_OK(object::PutString(*memory_, kCtx, key, ""));
  options_.delete_dst = true;
  const ImportReport report = Run();
  EXPECT_OK(report.result);
  ASSERT_EQ(report.failures.size(), 2u);
  for (const FileFailure& failure : report.failures)
    EXPECT_THAT(failure.error.message(), HasSubstr("reserved"));
  EXPECT_EQ(trashed(), 1u);
  EXPECT_EQ(VolumeFiles(), (Files{{"b", "x"}}));
  options_.to = "/copy";
  EXPECT_EQ(RunWell().progress.copied_files, 3u);
  options_.to = "/.trash/x";
  EXPECT_CODE(Run().result, Code::kInvalid);
}

// Several parts of an import replace the same file by a directory.
TEST_F(ImportDeleteTest, PartsReplaceAFileTogether) {
  Put("d", "file");
  RunWell();
  ASSERT_OK(memory_->Delete(kCtx, "d"));
  source_files_.clear();
  for (int i = 0; i < 3000; ++i) Put(fmt::format("d/{:05}", i), "x");
  options_.delete_dst = true;
  options_.parts = 3;
  std::vector<ImportReport> reports(3);
  {
    std::vector<std::jthread> parts;
    for (std::uint32_t part = 0; part < 3; ++part) {
      parts.emplace_back([&, part] {
        ImportOptions options = options_;
        options.part = part;
        reports[part] = Import(kCtx, *volume_, source_, options, log_);
      });
    }
  }
  for (const ImportReport& report : reports)
    EXPECT_TRUE(report.complete())
        << (report.result ? report.failures[0].error.message() : report.result.error().message());
  ExpectSame();
}

TEST_F(ImportDeleteTest, AWrongSourceLeavesNoTrace) {
  options_.to = "/new/place";
  source_.whole = false;
  EXPECT_CODE(Run().result, Code::kNotFound);
  faulty_->Inject(object::testing::Op::kList, {.kind = object::testing::Fault::Kind::kUnavailable},
                  100);
  EXPECT_FALSE(Run().result);
  EXPECT_CODE(volume_->meta().Lookup(kCtx, {}, kRootIno, "new"), Code::kNotFound);
}

TEST_F(ImportDeleteTest, PatternsMayLeaveOutOneSideOfAClash) {
  Put("a", "file");
  Put("a/b", "below");
  options_.rules = {{.include = true, .pattern = "/a/"}, {.include = false, .pattern = "/a"}};
  EXPECT_EQ(RunWell().progress.copied_files, 1u);
  EXPECT_EQ(VolumeFiles(), (Files{{"a/b", "below"}}));
}

TEST_F(ImportDeleteTest, LinksThatLeadNowhereFailAndKeepTheCopy) {
  const std::string from = dir_.File("from");
  ASSERT_OK(MakeDirectories(from + "/d"));
  ASSERT_OK(WriteFileAtomic(from + "/target", "content"));
  ASSERT_EQ(::symlink("target", (from + "/link").c_str()), 0);
  EXPECT_TRUE(RunFrom(from).complete());
  ASSERT_EQ(::unlink((from + "/target").c_str()), 0);
  ASSERT_EQ(::symlink("circle", (from + "/circle").c_str()), 0);
  ASSERT_EQ(::symlink("..", (from + "/d/up").c_str()), 0);
  options_.delete_dst = true;
  const ImportReport report = RunFrom(from);
  ASSERT_OK(report.result);
  std::map<std::string, std::string> reasons;
  for (const FileFailure& failure : report.failures) reasons[failure.key] = failure.error.message();
  ASSERT_EQ(reasons.size(), 3u);
  EXPECT_THAT(reasons["link"], HasSubstr("does not exist"));
  EXPECT_THAT(reasons["circle"], HasSubstr("leads to itself"));
  EXPECT_THAT(reasons["d/up"], HasSubstr("above it"));
  EXPECT_EQ(VolumeFiles(), (Files{{"link", "content"}}));
}

TEST_F(ImportDeleteTest, ModesAndOwnersArriveWhole) {
  const std::string from = dir_.File("from");
  ASSERT_OK(MakeDirectories(from + "/closed/below"));
  ASSERT_OK(WriteFileAtomic(from + "/closed/below/file", "x"));
  ASSERT_OK(WriteFileAtomic(from + "/program", "x"));
  EXPECT_TRUE(RunFrom(from).complete());
  ASSERT_EQ(::chmod((from + "/program").c_str(), 04755), 0);
  ASSERT_EQ(::chmod((from + "/closed").c_str(), 0555), 0);
  ASSERT_EQ(::chown((from + "/program").c_str(), 12, 34), 0);
  ASSERT_EQ(::chmod((from + "/program").c_str(), 04755), 0);
  options_.perms = options_.dirs = true;
  EXPECT_TRUE(RunFrom(from).complete());
  auto program = volume_->meta().Lookup(kCtx, {}, kRootIno, "program");
  ASSERT_OK(program);
  EXPECT_EQ(program->attr.mode, 04755) << "of a file that was there before";
  EXPECT_EQ(program->attr.uid, 12u);

  options_.to = "/theirs";
  options_.caller = {.uid = 12, .gid = 34};
  ASSERT_OK(volume_->meta().SetAttr(kCtx, {}, kRootIno, {.mode = 0777}));
  for (const char* path : {"", "/closed", "/closed/below", "/closed/below/file"})
    ASSERT_EQ(::chown((from + path).c_str(), 12, 34), 0);
  const ImportReport report = RunFrom(from);
  EXPECT_TRUE(report.complete()) << report.failures[0].error.message();
  auto closed = volume_->meta().Resolve(kCtx, {}, kRootIno, "theirs/closed");
  ASSERT_OK(closed);
  EXPECT_EQ(closed->attr.mode, 0555);
}

}  // namespace
}  // namespace paddleop::volume::data
