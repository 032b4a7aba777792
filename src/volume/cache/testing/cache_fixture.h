// What tests of the disk cache share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/posix.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "volume/cache/disk_cache.h"
#include "volume/format/cache_file.h"

namespace paddleop::volume::testing {

inline constexpr char kUuid[] = "0123abcd-0000-4000-8000-000000000001";

// Bytes that tell where they come from.
inline std::string Pattern(std::uint64_t seed, std::size_t size) {
  std::string text(size, '\0');
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (char& c : text) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    c = static_cast<char>(state >> 56);
  }
  return text;
}

class DiskCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_OK(dir);
    dir_.emplace(*std::move(dir));
    options_ = {.uuid = kUuid,
                .layout = {.block_size = kBlock},
                .directories = {{.path = dir_->File("cache"), .free_space_ratio = 0.0001}},
                .clock = &clock_};
  }

  std::unique_ptr<DiskCache> Open() { return Open(options_); }
  std::unique_ptr<DiskCache> Open(const DiskCacheOptions& options) {
    auto cache = DiskCache::Open(ctx_, options, log_, metrics_);
    EXPECT_OK(cache);
    return cache ? *std::move(cache) : nullptr;
  }

  static BlockId Block(std::uint64_t slice, std::uint32_t length = kBlock) {
    return {.slice = slice, .index = 0, .length = length};
  }
  static std::string Content(const BlockId& block) { return Pattern(block.slice, block.length); }
  bool Put(DiskCache& cache, const BlockId& block) {
    return cache.Put(ctx_, block, AsBytes(Content(block)));
  }
  Result<void> Store(DiskCache& cache, const BlockId& block, std::string_view plan) {
    return cache.Store(ctx_, block, AsBytes(Content(block)), plan);
  }
  std::string Read(CacheStore& cache, const BlockId& block, std::uint32_t offset,
                   std::size_t size) {
    std::string out(size, '\0');
    if (!cache.Read(ctx_, block, offset, std::as_writable_bytes(std::span(out)))) return "miss";
    return out;
  }
  // True if all of the block is there and right.
  bool Holds(CacheStore& cache, const BlockId& block) {
    return Read(cache, block, 0, block.length) == Content(block);
  }
  // Moves the clock on until it is so; false if it never is.
  template <class Condition>
  bool InTime(Condition condition) {
    for (int i = 0; i < 4000 && !condition(); ++i) {
      clock_.Advance(std::chrono::seconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return condition();
  }
  std::string Root() const { return dir_->File("cache/") + kUuid; }
  std::string PathOf(const BlockId& block) const {
    return Root() + "/" + CacheFilePath(BlockKey(options_.layout, block));
  }
  std::string PartPathOf(const BlockId& block) const {
    return Root() + "/part/" + BlockKey(options_.layout, block);
  }

  static constexpr std::uint32_t kBlock = 256U << 10;

  const Context ctx_ = Context::Background();
  std::optional<TempDir> dir_;
  std::vector<std::string> warnings_;
  Logger log_{LogLevel::kWarn, [this](std::string_view line) { warnings_.emplace_back(line); }};
  MetricsRegistry metrics_;
  ::paddleop::testing::ManualClock clock_;
  DiskCacheOptions options_;
};

}  // namespace paddleop::volume::testing
