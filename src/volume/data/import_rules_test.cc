#include "volume/data/internal/import_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/testing/matchers.h"
#include "volume/data/internal/import_journal.h"
#include "volume/data/internal/pack.h"
#include "volume/data/progress.h"

namespace paddleop::volume::data {
namespace {

TEST(Glob, MatchesAsShellsDo) {
  const auto matches = [](std::string_view pattern, std::string_view text) {
    return Glob(pattern).Matches(text);
  };
  EXPECT_TRUE(matches("*.jpg", "a.jpg"));
  EXPECT_FALSE(matches("*.jpg", "a.jpeg"));
  EXPECT_FALSE(matches("a*c", "a/c"));
  EXPECT_TRUE(matches("a**c", "a/b/c"));
  EXPECT_TRUE(matches("?", "x"));
  EXPECT_FALSE(matches("?", "/"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_TRUE(matches("[a-c]x", "bx"));
  EXPECT_FALSE(matches("[!a-c]x", "bx"));
  EXPECT_TRUE(matches("[!a-c]x", "dx"));
  EXPECT_TRUE(matches("\\*", "*"));
  EXPECT_FALSE(matches("\\*", "a"));
  EXPECT_TRUE(matches("[", "["));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Glob, IsNotSlowWithManyStars) {
  EXPECT_FALSE(Glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*b").Matches(std::string(5000, 'a')));
}

TEST(KeyFilter, TheFirstRuleThatMatchesDecides) {
  const KeyFilter filter({{true, "*.jpg"}, {false, "*"}});
  EXPECT_TRUE(filter.Wants("a.jpg"));
  EXPECT_FALSE(filter.Wants("a.txt"));
  // The directory itself is left out by "*", with all below it.
  EXPECT_FALSE(filter.Wants("d/a.jpg"));
  const KeyFilter deep({{true, "*/"}, {true, "*.jpg"}, {false, "*"}});
  EXPECT_TRUE(deep.Wants("d/e/a.jpg"));
  EXPECT_FALSE(deep.Wants("d/e/a.txt"));
}

TEST(KeyFilter, KnowsAnchorsDirectoriesAndPaths) {
  const KeyFilter anchored({{false, "/tmp"}});
  EXPECT_FALSE(anchored.Wants("tmp"));
  EXPECT_FALSE(anchored.Wants("tmp/x"));
  EXPECT_TRUE(anchored.Wants("a/tmp"));
  const KeyFilter directory({{false, "tmp/"}});
  EXPECT_TRUE(directory.Wants("tmp"));
  EXPECT_FALSE(directory.Wants("a/tmp/x"));
  const KeyFilter path({{false, "b/c"}});
  EXPECT_FALSE(path.Wants("a/b/c"));
  EXPECT_FALSE(path.Wants("b/c"));
  EXPECT_TRUE(path.Wants("xb/c"));
  const KeyFilter all({{false, "d/***"}});
  EXPECT_FALSE(all.Wants("d/"));
  EXPECT_FALSE(all.Wants("d/x/y"));
  EXPECT_TRUE(all.Wants("dx"));
  EXPECT_TRUE(KeyFilter({}).Wants("anything/at/all"));
}

TEST(CheckKey, SaysWhatNoFileCanBeCalled) {
  for (const char* good : {"a", "a/b", "a/", " ", "\xff\xfe/x", "...", "a b/c"}) {
    EXPECT_OK(CheckKey(good)) << good;
  }
  for (const char* bad : {"", "/a", "a//b", "../a", "a/../b", "a/.", "a//", "/"}) {
    EXPECT_CODE(CheckKey(bad), Code::kInvalid) << bad;
  }
  EXPECT_CODE(CheckKey(std::string(256, 'x')), Code::kNameTooLong);
  EXPECT_OK(CheckKey(std::string(255, 'x')));
  EXPECT_CODE(CheckKey(std::string("a\0b", 3)), Code::kInvalid);
}

TEST(NameClash, FindsAFileThatIsAlsoADirectory) {
  NameClash clash;
  EXPECT_EQ(clash.Next("a"), std::nullopt);
  EXPECT_EQ(clash.Next("a-b"), std::nullopt);  // sorts between "a" and "a/"
  EXPECT_EQ(clash.Next("a.txt"), std::nullopt);
  EXPECT_EQ(clash.Next("a/x"), "a");
  EXPECT_EQ(clash.Next("a/y/z"), "a");
  EXPECT_EQ(clash.Next("b/c"), std::nullopt);
  EXPECT_EQ(clash.Next("b/c/d"), "b/c");
  EXPECT_EQ(clash.Next("b/d"), std::nullopt);
}

TEST(PartOfKeys, SharesKeysEvenlyInRuns) {
  constexpr std::uint32_t kParts = 3;
  PartOfKeys one(kParts), two(kParts);
  std::map<std::uint32_t, int> counts;
  int changes = 0;
  std::uint32_t last = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string key = fmt::format("train/{:08}.jpg", i);
    const std::uint32_t part = one.Next(key);
    EXPECT_EQ(part, two.Next(key));
    if (i > 0 && part != last) ++changes;
    last = part;
    ++counts[part];
  }
  for (std::uint32_t part = 0; part < kParts; ++part) EXPECT_GT(counts[part], 20'000);
  EXPECT_LT(changes, 400);
}

TEST(StableHash, NeverChanges) {
  // Parts of one import may run different releases.
  EXPECT_EQ(StableHash("a"), 0x2c0bdbf481420f8ULL) << std::hex << StableHash("a");
}

TEST(SameTime, WholeSecondsAreEnoughForThoseWhoKeepNoMore) {
  EXPECT_TRUE(SameTime({.seconds = 5, .nanos = 7}, {.seconds = 5, .nanos = 0}));
  EXPECT_TRUE(SameTime({.seconds = 5, .nanos = 7}, {.seconds = 5, .nanos = 7}));
  EXPECT_FALSE(SameTime({.seconds = 5, .nanos = 7}, {.seconds = 5, .nanos = 8}));
  EXPECT_FALSE(SameTime({.seconds = 5, .nanos = 0}, {.seconds = 6, .nanos = 0}));
}

TEST(StartAfter, ComesBeforeTheFirstKey) {
  EXPECT_LT(StartAfter("abc"), "abc");
  EXPECT_EQ(StartAfter(""), "");
}

TEST(PackLayout, AlignsAllButTinyFilesAndFillsBlocks) {
  PackLayout pack(64 << 10);
  EXPECT_EQ(pack.Add(100), 0u);
  EXPECT_EQ(pack.Add(100), 100u);
  EXPECT_EQ(pack.Add(4096), 4096u);
  EXPECT_EQ(pack.Add(1), 8192u);
  EXPECT_EQ(pack.Add(5000), 12288u);
  EXPECT_EQ(pack.used(), 17288u);
  EXPECT_EQ(pack.Add(48 << 10), std::nullopt);
  EXPECT_EQ(pack.Add(40 << 10), 20480u);
  pack.Clear();
  EXPECT_EQ(pack.Add(64 << 10), 0u);
  EXPECT_EQ(pack.Add(1), std::nullopt);
  EXPECT_TRUE(pack.Fits(64 << 10));
  EXPECT_FALSE(pack.Fits((64 << 10) + 1));
}

TEST(PackLayout, HoldsNoMoreFilesThanOneTransactionShould) {
  PackLayout pack(4 << 20);
  for (std::size_t i = 0; i < PackLayout::kMaxFiles; ++i) ASSERT_TRUE(pack.Add(1));
  EXPECT_EQ(pack.Add(1), std::nullopt);
}

TEST(ImportJournal, RemembersWhatADeadImportLeftOpen) {
  const TempDir dir = *TempDir::Create();
  {
    auto first = ImportJournal::Open(dir.path());
    ASSERT_OK(first);
    ASSERT_OK((*first)->Begin({.id = 1, .size = 10}));
    ASSERT_OK((*first)->Begin({.id = 2, .size = 20}));
    ASSERT_OK((*first)->Begin({.id = 3, .size = 30}));
    const std::vector<SliceKey> committing = {{.id = 1, .size = 10}, {.id = 3, .size = 30}};
    ASSERT_OK((*first)->Committing(committing));
    ASSERT_OK((*first)->End({.id = 1, .size = 10}));
    // While it lives, it is not taken over.
    auto second = ImportJournal::Open(dir.path());
    ASSERT_OK(second);
    EXPECT_TRUE((*second)->abandoned().empty());
  }
  auto next = ImportJournal::Open(dir.path());
  ASSERT_OK(next);
  EXPECT_THAT((*next)->abandoned(),
              ::testing::ElementsAre(
                  ::testing::Pair(SliceKey{.id = 2, .size = 20}, SliceStage::kUploading),
                  ::testing::Pair(SliceKey{.id = 3, .size = 30}, SliceStage::kCommitting)));
  (*next)->ForgetAbandoned();
  next->reset();
  auto last = ImportJournal::Open(dir.path());
  ASSERT_OK(last);
  EXPECT_TRUE((*last)->abandoned().empty());
}

TEST(ImportJournal, StaysSmall) {
  const TempDir dir = *TempDir::Create();
  {
    auto journal = ImportJournal::Open(dir.path());
    ASSERT_OK(journal);
    const std::vector<SliceKey> committing = {{.id = 7, .size = 7}};
    ASSERT_OK((*journal)->Begin(committing[0]));
    ASSERT_OK((*journal)->Committing(committing));
    for (std::uint64_t id = 100; id < 60'000; ++id) {
      ASSERT_OK((*journal)->Begin({.id = id, .size = 1}));
      ASSERT_OK((*journal)->End({.id = id, .size = 1}));
    }
  }
  auto next = ImportJournal::Open(dir.path());
  ASSERT_OK(next);
  EXPECT_THAT((*next)->abandoned(), ::testing::ElementsAre(::testing::Pair(
                                        SliceKey{.id = 7, .size = 7}, SliceStage::kCommitting)));
}

TEST(OpenSlices, PassesOverWhatIsNotComplete) {
  EXPECT_TRUE(OpenSlices("+ 1 2").empty());
  EXPECT_EQ(OpenSlices("+ 1 2\n+ 3").size(), 1u);
  EXPECT_EQ(OpenSlices("rubbish\n\n+ x y\n+ 5 6\n").size(), 1u);
}

TEST(ImportProgress, TellsSharesRatesAndTheTimeLeft) {
  ImportProgress progress;
  progress.listed_files = 100;
  progress.listed_bytes = 1000;
  progress.copied_files = 40;
  progress.copied_bytes = 400;
  progress.elapsed = std::chrono::seconds(4);
  EXPECT_EQ(progress.Remaining(), std::nullopt);  // still listing
  progress.listing = false;
  EXPECT_DOUBLE_EQ(progress.percent(), 40);
  EXPECT_DOUBLE_EQ(progress.files_per_second(), 10);
  EXPECT_EQ(progress.Remaining(), std::chrono::seconds(6));
  EXPECT_EQ(ProgressLine(progress),
            "40 of 100 files, 400 B of 1000 B, 10 files/s, 100 B/s, 0:06 left");
  EXPECT_LE(ProgressBar(progress, 30).size(), 30u);
}

}  // namespace
}  // namespace paddleop::volume::data
