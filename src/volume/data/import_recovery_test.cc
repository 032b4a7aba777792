// What imports leave behind when they are killed, stopped, or fail, and how the next one goes on.
#include <gmock/gmock.h>

#include <thread>

#include "base/bytes.h"
#include "volume/data/internal/import_journal.h"
#include "volume/data/testing/import_fixture.h"

namespace paddleop::volume::data {
namespace {

using object::testing::Op;
using ::testing::HasSubstr;

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
    const std::vector<SliceKey> committed = {{.id = used.id, .size = used.size}};
    ASSERT_OK((*journal)->Begin(committed[0]));
    ASSERT_OK((*journal)->Committing(committed));
    ASSERT_OK(volume_->blocks().WriteBlock(kCtx, {.slice = *id, .index = 0, .length = 5},
                                           AsBytes("hello")));
  }
  RunWell();
  ExpectSame();
  EXPECT_GE(objects_, stored);
}

TEST_F(ImportTest, AnUnmarkedSliceOfAnEarlierVersionMayBeInUse) {
  PutMany(20);
  RunWell();
  auto tree = volume_->meta().LoadTree(kCtx, kRootIno, true);
  const auto dir = tree->Lookup(tree->Lookup(tree->Find(kRootIno), "train"), "001");
  const Slice used = tree->Slices(tree->Lookup(dir, "00001.jpg"), 0).at(0);
  const std::string journals = options_.journal_dir + "/" + volume_->setting().uuid + "/import";
  ASSERT_OK(MakeDirectories(journals, 0700));
  ASSERT_OK(WriteFileAtomic(journals + "/1.journal", fmt::format("+ {} {}\n", used.id, used.size)));
  RunWell();
  ExpectSame();
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

// A garbage collection took the first blocks of a file that was long on its way.
TEST_F(ImportTest, DataThatWasCollectedMeanwhileIsStoredAgain) {
  Put("big", Content(5 << 20, 4));
  options_.recheck_after = std::chrono::seconds(0);
  std::atomic<int> blocks{0};
  // As a collector does, which takes only what is old: never a block that is being stored.
  options_.on_block = [&](const BlockId& block, std::span<const std::byte>) {
    if (++blocks != 40) return;
    EXPECT_OK(volume_->objects().Delete(kCtx, BlockKey(volume_->setting().layout(), block)));
  };
  const ImportReport report = RunWell();
  EXPECT_EQ(report.progress.retried_files, 1u);
  ExpectSame();
}

TEST_F(ImportTest, AJournalThatItsImportRemovesIsNotAdopted) {
  const std::string directory = dir_.File("journals");
  std::atomic<bool> done{false};
  std::jthread others([&] {
    while (!done) {
      auto journal = ImportJournal::Open(directory);
      ASSERT_OK(journal);
      ASSERT_OK((*journal)->Begin({.id = 7, .size = 1}));
      ASSERT_OK((*journal)->End({.id = 7, .size = 1}));
    }
  });
  for (int i = 0; i < 500; ++i) {
    auto journal = ImportJournal::Open(directory);
    ASSERT_OK(journal);
    EXPECT_TRUE((*journal)->abandoned().empty());
  }
  done = true;
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

}  // namespace
}  // namespace paddleop::volume::data
