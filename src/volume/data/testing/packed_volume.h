// A small volume whose files share slices, as an import packs them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/vfs/volume.h"

namespace paddleop::volume::data::testing {

class PackedVolume {
 public:
  static constexpr std::uint32_t kBlock = 256U << 10;
  static constexpr std::uint32_t kFile = 20'000;   // bytes of a file
  static constexpr std::uint32_t kPlace = 20'480;  // what it takes in a pack
  static constexpr std::uint32_t kPerPack = 12;

  PackedVolume() {
    setting_.name = "packed";
    setting_.uuid = RandomUuid();
    setting_.bucket = dir_.File("store") + "/";
    setting_.block_size_kib = kBlock >> 10;
    setting_.trash_days = 0;
    EXPECT_OK(FormatVolume(ctx_, url(), setting_, false, log_, metrics_));
  }

  std::string url() const { return "sqlite3://" + dir_.File("meta.db"); }
  std::string cache_dir() const { return dir_.File("cache"); }
  std::string File(std::string_view name) const { return dir_.File(name); }

  std::unique_ptr<Volume> Open(const VolumeOptions& options = {}) {
    auto volume = Volume::Open(ctx_, url(), options, log_, metrics_);
    EXPECT_OK(volume);
    return volume ? *std::move(volume) : nullptr;
  }
  std::unique_ptr<Volume> OpenCached(std::uint64_t capacity = 1ULL << 30) {
    return Open(
        {.memory_cache_bytes = 0,
         .cache = {.directories = {
                       {.path = cache_dir(), .capacity = capacity, .free_space_ratio = 0.0001}}}});
  }

  static std::string NameOf(int i) { return fmt::format("f{:04}", i); }
  static std::string ContentOf(int i) {
    std::string text(kFile, static_cast<char>('a' + i % 26));
    text.replace(0, 8, fmt::format("{:08}", i));
    return text;
  }

  // Files f0000, f0001, ... in directory `folder`, packed in that order.
  void AddPacked(const std::string& folder, int files) {
    auto volume = Open();
    auto made = volume->meta().Mkdir(ctx_, {}, kRootIno, folder, 0755);
    ASSERT_OK(made);
    for (int first = 0; first < files; first += static_cast<int>(kPerPack)) {
      std::string pack;
      std::vector<NewFile> batch;
      auto slice = volume->meta().NewSliceId(ctx_);
      ASSERT_OK(slice);
      for (int i = first; i < std::min(files, first + static_cast<int>(kPerPack)); ++i) {
        NewFile file{.parent = made->ino, .name = NameOf(i), .length = kFile};
        file.chunks = {
            {.index = 0,
             .slices = {
                 {.id = *slice, .off = static_cast<std::uint32_t>(pack.size()), .len = kFile}}}};
        pack += ContentOf(i);
        pack.resize(pack.size() + kPlace - kFile);
        batch.push_back(std::move(file));
      }
      for (NewFile& file : batch)
        file.chunks[0].slices[0].size = static_cast<std::uint32_t>(pack.size());
      ASSERT_OK(object::PutString(
          volume->objects(), ctx_,
          BlockKey(
              setting_.layout(),
              {.slice = *slice, .index = 0, .length = static_cast<std::uint32_t>(pack.size())}),
          pack));
      for (auto& result : volume->meta().CommitFiles(ctx_, batch, {})) ASSERT_OK(result);
    }
  }

  // The file's content as the volume gives it.
  std::string Read(Volume& volume, const std::string& path) {
    auto entry = volume.meta().Resolve(ctx_, {}, kRootIno, path);
    if (!entry) return entry.error().ToString();
    auto opened = volume.vfs().Open(ctx_, {}, entry->ino, {.read = true});
    if (!opened) return opened.error().ToString();
    std::string content(entry->attr.length, '\0');
    auto read =
        volume.vfs().Read(ctx_, opened->handle, 0, std::as_writable_bytes(std::span(content)));
    EXPECT_OK(volume.vfs().Release(ctx_, opened->handle));
    return read ? content : read.error().ToString();
  }
  void RemoveObjects() {
    std::ignore = std::system(("rm -rf " + dir_.File("store/packed/chunks")).c_str());
  }

  const Setting& setting() const { return setting_; }

 private:
  const Context ctx_ = Context::Background();
  TempDir dir_ = *TempDir::Create();
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  Setting setting_;
};

}  // namespace paddleop::volume::data::testing
