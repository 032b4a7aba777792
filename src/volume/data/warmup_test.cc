#include "volume/data/warmup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "volume/data/testing/packed_volume.h"
#include "volume/format/cache_file.h"

namespace paddleop::volume::data {
namespace {

using ::testing::HasSubstr;
using testing::PackedVolume;

const Context kCtx = Context::Background();

class WarmupTest : public ::testing::Test {
 protected:
  WarmupReport Run(Volume& volume, const WarmupSelection& selection,
                   const WarmupOptions& options = {}) {
    auto warmup = LoadWarmup(kCtx, volume, selection);
    EXPECT_OK(warmup);
    auto report = RunWarmup(kCtx, volume, warmup->plan, options);
    EXPECT_OK(report);
    return *std::move(report);
  }

  PackedVolume packed_;
};

TEST_F(WarmupTest, WhatIsWarmIsReadWithoutTheStore) {
  packed_.AddPacked("train", 30);
  auto volume = packed_.OpenCached();
  int shown = 0;
  auto report = Run(*volume, {}, {.progress = [&](const WarmupProgress&) { ++shown; }});
  EXPECT_EQ(report.progress.done_blocks, 3u);
  EXPECT_EQ(report.progress.done_files, 30u);
  EXPECT_EQ(report.progress.fetched_bytes, 30u * PackedVolume::kPlace);
  EXPECT_GE(shown, 1);
  auto again = Run(*volume, {});
  EXPECT_EQ(again.progress.cached_blocks, 3u);
  EXPECT_EQ(again.progress.fetched_bytes, 0u);
  EXPECT_EQ(volume->disk_cache()->Status()[0].pinned_bytes,
            volume->disk_cache()->Status()[0].bytes);
  packed_.RemoveObjects();
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(packed_.Read(*volume, "train/" + PackedVolume::NameOf(i)),
              PackedVolume::ContentOf(i));
}

TEST_F(WarmupTest, ARanksShareIsKeptAsRanges) {
  packed_.AddPacked("train", 48);
  auto volume = packed_.OpenCached();
  const WarmupSelection selection{
      .strategy = WarmupStrategy::kRandom, .ranks = 8, .batch_size = 2, .rank = 3};
  auto warmup = LoadWarmup(kCtx, *volume, selection);
  ASSERT_OK(warmup);
  EXPECT_EQ(warmup->plan.files, 6u);
  auto before = CheckWarmup(kCtx, *volume, warmup->plan);
  ASSERT_OK(before);
  EXPECT_EQ(before->progress.cached_bytes, 0u);
  auto report = RunWarmup(kCtx, *volume, warmup->plan, {.pin = "epoch-0"});
  ASSERT_OK(report);
  EXPECT_EQ(report->progress.failed_blocks, 0u);
  EXPECT_LT(volume->disk_cache()->Status()[0].bytes, 48u * PackedVolume::kPlace / 2);
  EXPECT_EQ(volume->disk_cache()->Status()[0].pinned_bytes,
            volume->disk_cache()->Status()[0].bytes);
  auto after = CheckWarmup(kCtx, *volume, warmup->plan);
  ASSERT_OK(after);
  EXPECT_EQ(after->progress.cached_bytes, warmup->plan.cache_bytes);
  packed_.RemoveObjects();
  int read = 0;
  for (const auto node : warmup->plan.nodes) {
    const Attr attr = warmup->tree.attr(node);
    std::string content(attr.length, '\0');
    auto opened = volume->vfs().Open(kCtx, {}, warmup->tree.ino(node), {.read = true});
    ASSERT_OK(opened);
    ASSERT_OK(
        volume->vfs().Read(kCtx, opened->handle, 0, std::as_writable_bytes(std::span(content))));
    EXPECT_EQ(content, PackedVolume::ContentOf(std::stoi(content.substr(0, 8))));
    ASSERT_OK(volume->vfs().Release(kCtx, opened->handle));
    ++read;
  }
  EXPECT_EQ(read, 6);
}

TEST_F(WarmupTest, EvictingARanksShareTakesItsRangesAndPinsAway) {
  packed_.AddPacked("train", 48);
  auto volume = packed_.OpenCached();
  const auto share = [&](std::uint32_t rank) {
    auto warmup = LoadWarmup(
        kCtx, *volume,
        {.strategy = WarmupStrategy::kRandom, .ranks = 8, .batch_size = 2, .rank = rank});
    EXPECT_OK(warmup);
    return *std::move(warmup);
  };
  const Warmup mine = share(3);
  ASSERT_OK(RunWarmup(kCtx, *volume, mine.plan, {.pin = "epoch-0"}));
  ASSERT_GT(volume->disk_cache()->Status()[0].pinned_bytes, 0u);
  auto removed = EvictPlanned(kCtx, *volume, mine.plan, "epoch-0");
  ASSERT_OK(removed);
  EXPECT_GT(removed->bytes, 0u);
  EXPECT_EQ(volume->disk_cache()->Status()[0].bytes, 0u);
  EXPECT_EQ(volume->disk_cache()->Status()[0].pinned_bytes, 0u);
}

TEST_F(WarmupTest, AFullCacheFailsTheRestAndNamesTheFiles) {
  packed_.AddPacked("train", 60);
  auto volume = packed_.OpenCached(2 * (PackedVolume::kBlock + 4096));
  auto warmup = LoadWarmup(kCtx, *volume, {.paths = {"train"}});
  ASSERT_OK(warmup);
  auto report = RunWarmup(kCtx, *volume, warmup->plan, {.threads = 1});
  ASSERT_OK(report);
  EXPECT_EQ(report->progress.done_blocks, 2u);
  EXPECT_EQ(report->progress.failed_blocks, 3u);
  EXPECT_EQ(report->progress.done_files, 24u);
  EXPECT_LE(report->progress.fetched_bytes, 2u * PackedVolume::kBlock);
  auto failed = FailedFiles(*warmup, packed_.setting().layout(), *report);
  ASSERT_EQ(failed.size(), 36u);
  EXPECT_EQ(failed[0].path, "/train/f0024");
  EXPECT_EQ(failed[0].error.code(), Code::kNoSpace);
  EXPECT_THAT(failed[0].error.message(), HasSubstr("pinned"));
}

TEST_F(WarmupTest, ATruncatedCacheFileIsBroughtAgain) {
  packed_.AddPacked("train", 60);
  auto volume = packed_.OpenCached();
  auto warmup = LoadWarmup(kCtx, *volume, {});
  ASSERT_OK(warmup);
  ASSERT_OK(RunWarmup(kCtx, *volume, warmup->plan, {}));
  const std::string first = fmt::format(
      "{}/{}/{}", packed_.cache_dir(), packed_.setting().uuid,
      CacheFilePath(BlockKey(packed_.setting().layout(), warmup->plan.blocks[0].block)));
  std::filesystem::resize_file(first, 1000);
  volume->disk_cache()->Remove(warmup->plan.blocks[1].block);
  auto report = RunWarmup(kCtx, *volume, warmup->plan, {.threads = 1});
  ASSERT_OK(report);
  EXPECT_EQ(report->progress.failed_blocks, 0u);
  EXPECT_EQ(report->progress.done_files, 60u);
  packed_.RemoveObjects();
  EXPECT_TRUE(packed_.Read(*volume, "train/f0000") == PackedVolume::ContentOf(0));
}

TEST_F(WarmupTest, ANameThatCannotBeFreedFailsItsBlockOnly) {
  packed_.AddPacked("train", 60);
  auto volume = packed_.OpenCached();
  auto warmup = LoadWarmup(kCtx, *volume, {.paths = {"train"}});
  ASSERT_OK(warmup);
  std::filesystem::create_directories(fmt::format(
      "{}/{}/{}/in the way", packed_.cache_dir(), packed_.setting().uuid,
      CacheFilePath(BlockKey(packed_.setting().layout(), warmup->plan.blocks[0].block))));
  auto report = RunWarmup(kCtx, *volume, warmup->plan, {.threads = 1});
  ASSERT_OK(report);
  EXPECT_EQ(report->progress.failed_blocks, 1u);
  EXPECT_EQ(report->progress.done_blocks, 4u);
  ASSERT_EQ(report->failures.size(), 1u);
  EXPECT_THAT(report->failures[0].error.message(), HasSubstr("in the way"));
}

TEST_F(WarmupTest, AMissingObjectFailsItsFilesOnly) {
  packed_.AddPacked("train", 24);
  auto volume = packed_.OpenCached();
  auto warmup = LoadWarmup(kCtx, *volume, {.paths = {"train"}});
  ASSERT_OK(warmup);
  ASSERT_OK(volume->objects().Delete(
      kCtx, BlockKey(packed_.setting().layout(), warmup->plan.blocks[0].block)));
  auto report = RunWarmup(kCtx, *volume, warmup->plan, {});
  ASSERT_OK(report);
  EXPECT_EQ(report->progress.done_blocks, 1u);
  auto failed = FailedFiles(*warmup, packed_.setting().layout(), *report);
  ASSERT_EQ(failed.size(), 12u);
  EXPECT_EQ(failed[0].error.code(), Code::kNotFound);
}

TEST_F(WarmupTest, EvictingRemovesBlocksThatBelongToThePaths) {
  packed_.AddPacked("a", 12);
  packed_.AddPacked("b", 12);
  auto volume = packed_.OpenCached();
  Run(*volume, {});
  auto warmup = LoadWarmup(kCtx, *volume, {.paths = {"a"}});
  ASSERT_OK(warmup);
  auto removed = EvictPlanned(kCtx, *volume, warmup->plan, {});
  ASSERT_OK(removed);
  EXPECT_EQ(removed->blocks, 1u);
  EXPECT_EQ(volume->disk_cache()->Usage().blocks, 1u);
  auto one_file = LoadWarmup(kCtx, *volume, {.paths = {"b/f0003"}});
  ASSERT_OK(one_file);
  removed = EvictPlanned(kCtx, *volume, one_file->plan, {});
  ASSERT_OK(removed);
  EXPECT_EQ(removed->blocks, 0u) << "others share that block";
}

TEST_F(WarmupTest, WhoOnlyLooksOrRemovesEvictsNothing) {
  packed_.AddPacked("train", 48);
  WarmupPlan plan;
  {
    auto volume = packed_.OpenCached();
    auto warmup = LoadWarmup(kCtx, *volume, {});
    ASSERT_OK(warmup);
    plan = std::move(warmup->plan);
    ASSERT_OK(RunWarmup(kCtx, *volume, plan, {.pin = ""}));
  }
  // With a limit of its own, as a command has that was told none.
  VolumeOptions options{.memory_cache_bytes = 0,
                        .cache = {.directories = {{.path = packed_.cache_dir(),
                                                   .capacity = PackedVolume::kBlock,
                                                   .free_space_ratio = 0.0001}}},
                        .cache_upkeep = false};
  const auto cached = [&](Volume& volume) {
    auto report = CheckWarmup(kCtx, volume, plan);
    EXPECT_OK(report);
    return report->progress.cached_blocks;
  };
  {
    auto volume = packed_.Open(options);
    ASSERT_OK(volume->disk_cache()->Clear(kCtx, plan.blocks[0].block, {}));
    EXPECT_EQ(cached(*volume), 3u);
  }
  EXPECT_EQ(cached(*packed_.Open(options)), 3u);
  // Upkeep is what would have evicted them.
  options.cache_upkeep = true;
  auto volume = packed_.Open(options);
  while (cached(*volume) == 3) std::this_thread::yield();
}

TEST_F(WarmupTest, EvictingLeavesWhatOtherPlansHavePinned) {
  packed_.AddPacked("train", 24);
  auto volume = packed_.OpenCached();
  auto warmup = LoadWarmup(kCtx, *volume, {.paths = {"train"}});
  ASSERT_OK(warmup);
  for (const char* plan : {"mine", "theirs"})
    ASSERT_OK(RunWarmup(kCtx, *volume, warmup->plan, {.pin = plan}));
  auto removed = EvictPlanned(kCtx, *volume, warmup->plan, "mine");
  ASSERT_OK(removed);
  EXPECT_EQ(removed->blocks, 0u);
  EXPECT_EQ(volume->disk_cache()->Usage().blocks, 2u);
  EXPECT_GT(volume->disk_cache()->Status()[0].pinned_bytes, 0u);
  ASSERT_OK(EvictPlanned(kCtx, *volume, warmup->plan, "theirs"));
  EXPECT_EQ(volume->disk_cache()->Usage().blocks, 0u);
  EXPECT_EQ(volume->disk_cache()->Status()[0].pinned_bytes, 0u);
}

TEST_F(WarmupTest, AWrongNameOfPinsFetchesNothing) {
  packed_.AddPacked("train", 12);
  auto volume = packed_.OpenCached();
  auto warmup = LoadWarmup(kCtx, *volume, {.paths = {"train"}});
  ASSERT_OK(warmup);
  packed_.RemoveObjects();
  EXPECT_CODE(RunWarmup(kCtx, *volume, warmup->plan, {.pin = "../x"}), Code::kInvalid);
}

// A disk that fails for a moment: its directory is no directory.
TEST_F(WarmupTest, ADirectoryThatComesBackIsWaitedFor) {
  packed_.AddPacked("train", 120);
  auto volume = packed_.OpenCached();
  auto warmup = LoadWarmup(kCtx, *volume, {.paths = {"train"}});
  ASSERT_OK(warmup);
  namespace fs = std::filesystem;
  const std::string cache = packed_.cache_dir(), away = cache + "-away";
  fs::rename(cache, away);
  ASSERT_OK(WriteFileAtomic(cache, "no directory"));
  Result<WarmupReport> report;
  {
    const std::jthread run([&] { report = RunWarmup(kCtx, *volume, warmup->plan, {}); });
    while (volume->disk_cache()->Status()[0].usable) std::this_thread::yield();
    fs::remove(cache);
    fs::rename(away, cache);
  }
  ASSERT_OK(report);
  EXPECT_EQ(report->progress.failed_blocks, 0u);
  EXPECT_EQ(report->progress.done_blocks, warmup->plan.blocks.size());
}

TEST_F(WarmupTest, PeersAreAskedBeforeTheStore) {
  packed_.AddPacked("train", 12);
  std::atomic<int> asked = 0;
  VolumeOptions options{
      .memory_cache_bytes = 0,
      .cache = {.directories = {{.path = packed_.cache_dir(), .free_space_ratio = 0.0001}}}};
  options.peer = [&](const Context&, const BlockId& block, std::uint32_t,
                     std::span<std::byte> plain) -> Result<void> {
    ++asked;
    if (block.length != plain.size()) return Fail(Code::kInternal, "wrong buffer");
    return Fail(Code::kNotFound, "nobody has it");
  };
  auto volume = packed_.Open(options);
  auto report = Run(*volume, {});
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(report.progress.done_blocks, 1u) << "the store has it";
  ASSERT_OK(volume->disk_cache()->ClearAll(kCtx));
  packed_.RemoveObjects();
  options.peer = [&](const Context&, const BlockId&, std::uint32_t,
                     std::span<std::byte> plain) -> Result<void> {
    std::fill(plain.begin(), plain.end(), std::byte{'x'});
    return {};
  };
  volume.reset();
  volume = packed_.Open(options);
  EXPECT_EQ(packed_.Read(*volume, "train/f0000"), std::string(PackedVolume::kFile, 'x'));
}

TEST_F(WarmupTest, WithoutACacheDirectoryItSaysSo) {
  packed_.AddPacked("train", 1);
  auto volume = packed_.Open();
  EXPECT_CODE(RunWarmup(kCtx, *volume, {}, {}), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::volume::data
