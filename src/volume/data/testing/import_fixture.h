// Imports from a source in memory into a volume of its own.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/data/fsck.h"
#include "volume/data/gc.h"
#include "volume/data/import.h"
#include "volume/object/testing/faulty_store.h"
#include "volume/object/testing/mem_object.h"

namespace paddleop::volume::data {

inline const Context kCtx = Context::Background();
using Files = std::map<std::string, std::string>;

inline std::string Content(std::size_t size, unsigned seed) {
  std::string text(size, 0);
  std::minstd_rand random(seed + 1);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// A source in memory that can be told to misbehave.
class ImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto memory = std::make_unique<object::testing::MemObjectStore>();
    memory_ = memory.get();
    auto faulty = std::make_unique<object::testing::FaultyObjectStore>(std::move(memory));
    faulty_ = faulty.get();
    source_.store = std::move(faulty);
    source_.uri = "mem://source/";
    options_.progress_interval = std::chrono::milliseconds(20);
    options_.journal_dir = dir_.File("state");
    OpenVolume("volume", {});
  }

  void OpenVolume(const std::string& name, Setting setting, int trash_days = 0) {
    volume_.reset();
    url_ = "sqlite3://" + dir_.File(name + ".db");
    setting.name = name;
    setting.uuid = RandomUuid();
    setting.storage = "file";
    setting.bucket = dir_.File("blocks") + "/";
    setting.block_size_kib = 64;
    setting.trash_days = trash_days;
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
  object::testing::MemObjectStore* memory_ = nullptr;
  object::testing::FaultyObjectStore* faulty_ = nullptr;
  Source source_;
  Files source_files_;
  ImportOptions options_;
  std::uint64_t objects_ = 0;
};

}  // namespace paddleop::volume::data
