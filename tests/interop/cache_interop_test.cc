// One cache directory used by us and by the official client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "interop/juicefs.h"
#include "volume/data/warmup.h"

namespace paddleop::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using volume::Volume;
using volume::VolumeOptions;
using volume::data::LoadWarmup;

class CacheInterop : public ::testing::Test {
 protected:
  void SetUp() override {
    juicefs_.emplace(*Juicefs::Find(dir_.path()));
    ASSERT_OK(MakeDirectories(dir_.File("store")));
    ASSERT_OK(juicefs_->Run({"format", url_, "shared", "--storage", "file", "--bucket",
                             dir_.File("store") + "/", "--trash-days", "0"}));
  }

  std::unique_ptr<Volume> Open() { return Open({cache_}); }
  std::unique_ptr<Volume> Open(const std::vector<std::string>& paths) {
    volume::CacheOptions cache;
    for (const std::string& path : paths)
      cache.directories.push_back({.path = path, .free_space_ratio = 0.001});
    auto opened =
        Volume::Open(ctx_, url_, {.memory_cache_bytes = 0, .cache = cache}, log_, metrics_);
    EXPECT_OK(opened);
    return opened ? *std::move(opened) : nullptr;
  }
  std::unique_ptr<Juicefs::Mount> Mount(const std::vector<std::string>& options = {}) {
    auto mounted = juicefs_->MountAt(url_, dir_.File("mnt"), options);
    EXPECT_OK(mounted);
    return mounted ? *std::move(mounted) : nullptr;
  }
  static std::string Content(int i) {
    std::string text(100'000 + static_cast<std::size_t>(i) * 1000, static_cast<char>('a' + i));
    return text;
  }
  static void WriteFiles(const std::string& folder, int count) {
    for (int i = 0; i < count; ++i)
      std::ofstream(folder + "/f" + std::to_string(i), std::ios::binary) << Content(i);
  }
  static std::string ReadAll(const std::string& path) {
    auto read = ReadFile(path);
    return read ? *read : read.error().ToString();
  }
  std::string ReadOurs(Volume& volume, const std::string& name) {
    auto entry = volume.meta().Resolve(ctx_, {}, volume::kRootIno, name);
    if (!entry) return entry.error().ToString();
    auto opened = volume.vfs().Open(ctx_, {}, entry->ino, {.read = true});
    if (!opened) return opened.error().ToString();
    std::string text(entry->attr.length, '\0');
    auto read = volume.vfs().Read(ctx_, opened->handle, 0, std::as_writable_bytes(std::span(text)));
    EXPECT_OK(volume.vfs().Release(ctx_, opened->handle));
    return read ? text : read.error().ToString();
  }
  // Keeps the blocks of the store out of everybody's reach.
  void HideStore() { fs::rename(Chunks(), dir_.File("hidden")); }
  void ShowStore() { fs::rename(dir_.File("hidden"), Chunks()); }
  std::string Chunks() const { return dir_.File("store/shared/chunks"); }

  TempDir dir_ = *TempDir::Create();
  const Context ctx_ = Context::Background();
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  std::optional<Juicefs> juicefs_;
  const std::string url_ = "sqlite3://" + dir_.File("meta.db");
  const std::string cache_ = dir_.File("cache");  // the same that MountAt uses
};

TEST_F(CacheInterop, WhatTheyCachedIsAHitForUs) {
  {
    auto mount = Mount();
    WriteFiles(mount->path(), 8);
  }
  {
    auto mount = Mount();
    ASSERT_OK(juicefs_->Run({"warmup", mount->path()}));
  }
  auto volume = Open();
  HideStore();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(ReadOurs(*volume, "f" + std::to_string(i)), Content(i));
  ShowStore();
  EXPECT_EQ(volume->disk_cache()->Traffic().misses, 0u);
  ASSERT_OK(volume->disk_cache()->Recount(ctx_));
  EXPECT_EQ(volume->disk_cache()->Status()[0].blocks, 8u) << "counted by a walk";
}

TEST_F(CacheInterop, WhatWePinnedIsAHitForThemAndStays) {
  {
    auto mount = Mount();
    WriteFiles(mount->path(), 8);
  }
  fs::remove_all(cache_);
  {
    auto volume = Open();
    auto warmup = LoadWarmup(ctx_, *volume, {});
    ASSERT_OK(warmup);
    auto report = RunWarmup(ctx_, *volume, warmup->plan, {.pin = "epoch-0"});
    ASSERT_OK(report);
    ASSERT_EQ(report->progress.done_blocks, 8u);
  }
  HideStore();
  {
    // A cache of 1 MiB, of which they would evict at once if they could.
    auto mount = Mount({"--cache-size", "1"});
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(ReadAll(mount->path() + "/f" + std::to_string(i)), Content(i));
    ShowStore();
    // What they fill the directory with goes; what is pinned stays.
    std::ofstream(mount->path() + "/big", std::ios::binary) << std::string(20 << 20, 'z');
    EXPECT_EQ(ReadAll(mount->path() + "/big").size(), 20u << 20);
    auto volume = Open();
    auto warmup =
        LoadWarmup(ctx_, *volume, {.paths = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"}});
    ASSERT_OK(warmup);
    auto check = CheckWarmup(ctx_, *volume, warmup->plan);
    ASSERT_OK(check);
    EXPECT_EQ(check->progress.cached_blocks, 8u);
  }
}

// Its index is made when it is mounted: what is pinned later it replaces, and then evicts as its
// own.
TEST_F(CacheInterop, PinsOutliveAMountThatDoesNotKnowThem) {
  {
    auto mount = Mount();
    WriteFiles(mount->path(), 8);
    std::ofstream(mount->path() + "/big", std::ios::binary) << std::string(20 << 20, 'z');
  }
  fs::remove_all(cache_);
  auto mount = Mount({"--cache-size", "1"});
  auto volume = Open();
  auto warmup =
      LoadWarmup(ctx_, *volume, {.paths = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"}});
  ASSERT_OK(warmup);
  ASSERT_OK(RunWarmup(ctx_, *volume, warmup->plan, {.pin = "epoch-0"}));
  const std::string root = cache_ + "/" + volume->setting().uuid;
  std::vector<std::string> pins;  // and the names they belong to
  for (const auto& entry : fs::recursive_directory_iterator(root + "/pinned/epoch-0/raw")) {
    if (entry.is_regular_file()) pins.push_back(entry.path().string());
  }
  ASSERT_EQ(pins.size(), 8u);
  const auto unpinned = [&] {
    return std::ranges::count_if(pins, [&](const std::string& pin) {
      std::error_code error;
      return !fs::equivalent(pin, root + pin.substr((root + "/pinned/epoch-0").size()), error);
    });
  };
  ASSERT_EQ(unpinned(), 0);
  const auto pinned_bytes = volume->disk_cache()->Status()[0].pinned_bytes;
  // It fetches them again.
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(ReadAll(mount->path() + "/f" + std::to_string(i)), Content(i));
  ASSERT_TRUE(WaitFor([&] { return unpinned() == 8; })) << "all are replaced: " << unpinned();
  ASSERT_OK(volume->disk_cache()->Recount(ctx_));
  EXPECT_EQ(unpinned(), 0);
  EXPECT_EQ(volume->disk_cache()->Status()[0].pinned_bytes, pinned_bytes);
  // It makes room.
  EXPECT_EQ(ReadAll(mount->path() + "/big").size(), 20u << 20);
  ASSERT_TRUE(WaitFor([&] { return unpinned() > 0; })) << "some of them go";
  HideStore();
  auto fresh = Open();
  const auto misses = fresh->disk_cache()->Traffic().misses;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(ReadOurs(*fresh, "f" + std::to_string(i)), Content(i));
  EXPECT_EQ(fresh->disk_cache()->Traffic().misses, misses);
  ShowStore();
}

TEST_F(CacheInterop, EachFindsTheOthersBlocksInSeveralDirectories) {
  const std::vector<std::string> paths = {dir_.File("c1"), dir_.File("c2"), dir_.File("c3")};
  const std::vector<std::string> options = {
      "--cache-dir", paths[0] + ":" + paths[1] + ":" + paths[2], "--free-space-ratio", "0.001"};
  constexpr int kFiles = 24;
  {
    auto mount = Mount();
    WriteFiles(mount->path(), kFiles);
  }
  const auto read_theirs = [&] {
    auto mount = Mount(options);
    HideStore();
    for (int i = 0; i < kFiles; ++i)
      EXPECT_EQ(ReadAll(mount->path() + "/f" + std::to_string(i)), Content(i));
    ShowStore();
  };
  const auto warm = [&] {
    auto volume = Open(paths);
    auto warmup = LoadWarmup(ctx_, *volume, {});
    ASSERT_OK(warmup);
    auto report = RunWarmup(ctx_, *volume, warmup->plan, {});
    ASSERT_OK(report);
    ASSERT_OK(volume->disk_cache()->Recount(ctx_));
    for (const auto& status : volume->disk_cache()->Status())
      EXPECT_GT(status.blocks, 0u) << status.directory.path;
  };
  // We are first, and name the directories.
  warm();
  read_theirs();
  // They are, and we put blocks where they would.
  for (const std::string& path : paths) fs::remove_all(path);
  {
    auto mount = Mount(options);
    ASSERT_OK(juicefs_->Run({"warmup", mount->path() + "/f0"}));
  }
  warm();
  read_theirs();
}

TEST_F(CacheInterop, BothUseTheDirectoryAtTheSameTime) {
  auto mount = Mount();
  WriteFiles(mount->path(), 20);
  auto volume = Open();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) {
      const std::string name = "f" + std::to_string(i);
      EXPECT_EQ(ReadOurs(*volume, name), Content(i));
      EXPECT_EQ(ReadAll(mount->path() + "/" + name), Content(i));
    }
    ASSERT_OK(volume->disk_cache()->ClearAll(ctx_));
  }
  // A file they damaged is no harm to us, nor ours to them.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ReadOurs(*volume, "f" + std::to_string(i)), Content(i));
  const std::string raw = cache_ + "/" + volume->setting().uuid + "/raw/chunks";
  int damaged = 0;
  for (const auto& entry : fs::recursive_directory_iterator(raw)) {
    if (!entry.is_regular_file()) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(50'000);
    file << "damage";
    ++damaged;
  }
  EXPECT_GE(damaged, 20);
  auto fresh = Open();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ReadOurs(*fresh, "f" + std::to_string(i)), Content(i));
    EXPECT_EQ(ReadAll(mount->path() + "/f" + std::to_string(i)), Content(i));
  }
  EXPECT_GT(fresh->disk_cache()->Traffic().corrupt, 0u);
}

}  // namespace
}  // namespace paddleop::testing
