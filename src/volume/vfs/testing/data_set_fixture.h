// A small volume in memory for tests of data sets.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/object/forwarding_store.h"
#include "volume/object/testing/faulty_store.h"
#include "volume/object/testing/mem_object.h"
#include "volume/vfs/data_set.h"
#include "volume/vfs/vfs.h"

namespace paddleop::volume {

inline const Context kCtx = Context::Background().WithTimeout(std::chrono::minutes(2));
inline constexpr std::uint32_t kBlock = 64 << 10;

// Counts what is read from the store behind it, and does not answer if told so.
class MeteredStore final : public object::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<object::GetResult> Get(const Context& ctx, std::string_view key,
                                const object::GetOptions& options,
                                std::span<std::byte> out) override {
    if (silent.fetch_sub(1) > 0) {
      Mutex mutex;
      CondVar never;
      MutexLock lock(mutex);
      never.wait_until(lock, ctx.stop(), ctx.deadline(), [] { return false; });
      return Fail(Code::kDeadline, "no answer");
    }
    auto got = ForwardingStore::Get(ctx, key, options, out);
    if (got) bytes += got->size;
    return got;
  }
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<int> silent{0};  // so many requests get no answer
};

class DataSetTest : public ::testing::Test {
 protected:
  DataSetTest() : dir_(*TempDir::Create()), log_(LogLevel::kOff) {
    meta_ = *OpenMetaStore(kCtx, "sqlite3://" + dir_.File("m.db"), {.log = &log_});
    Setting setting;
    setting.name = "test";
    setting.uuid = "00000000-0000-0000-0000-000000000001";
    setting.storage = "file";
    setting.bucket = dir_.path() + "/";
    EXPECT_OK(meta_->Format(kCtx, setting, false));
    EXPECT_OK(meta_->Load(kCtx));
    blocks_ = std::make_unique<BlockStore>(
        BlockStoreOptions{.layout = {.block_size = kBlock}, .max_downloads = 4, .max_uploads = 4},
        objects_, nullptr, log_);
    vfs_ = std::make_unique<Vfs>(*meta_, *blocks_, log_);
  }

  // Small files in packs of one block, as an import lays them out.
  void Import(int packs, int files_per_pack, std::uint32_t file_size) {
    for (int p = 0; p < packs; ++p) {
      auto id = meta_->NewSliceId(kCtx);
      ASSERT_OK(id);
      const auto size = static_cast<std::uint32_t>(files_per_pack) * file_size;
      std::string pack;
      std::vector<NewFile> files;
      for (int i = 0; i < files_per_pack; ++i) {
        const std::string name = fmt::format("p{:03}-{:03}", p, i);
        std::string content = Content(name, file_size);
        const Slice slice{.pos = 0,
                          .id = *id,
                          .size = size,
                          .off = static_cast<std::uint32_t>(pack.size()),
                          .len = file_size};
        pack += content;
        files.push_back({.parent = kRootIno,
                         .name = name,
                         .length = file_size,
                         .chunks = {{.index = 0, .slices = {slice}}},
                         .symlink_target = {}});
      }
      ASSERT_OK(blocks_->WriteBlock(kCtx, blocks_->BlockOf({*id, size}, 0), AsBytes(pack)));
      for (const auto& done : meta_->CommitFiles(kCtx, files, {})) ASSERT_OK(done);
    }
  }

  static std::string Content(std::string_view name, std::size_t size) {
    std::string out;
    while (out.size() < size) out += fmt::format("{}:{} ", name, out.size());
    out.resize(size);
    return out;
  }

  void Open(DataSetOptions options = {}) {
    auto set = DataSet::Open(kCtx, *meta_, *blocks_, disk_.get(), metrics_, options);
    ASSERT_OK(set);
    set_ = std::move(*set);
  }

  void OpenDisk(std::uint64_t capacity = 1ULL << 40) {
    disk_ = *DiskCache::Open(
        kCtx,
        {.uuid = "00000000-0000-0000-0000-000000000001",
         .layout = {.block_size = kBlock},
         .directories = {{.path = dir_.File("cache"), .capacity = capacity, .free_space_ratio = 0}},
         .direct_reads = true},
        log_, metrics_);
  }

  Result<std::string> Read(Ino ino, std::uint64_t offset, std::size_t size) {
    std::promise<Result<std::string>> answer;
    set_->Read(ino, offset, size, [&](Result<std::span<const std::byte>> bytes) {
      if (!bytes) return answer.set_value(std::unexpected(bytes.error()));
      answer.set_value(std::string(AsText(*bytes)));
    });
    return answer.get_future().get();
  }

  Ino Find(std::string_view name) {
    const auto view = set_->view();
    return view->ino(view->Lookup(view->Find(kRootIno), name));
  }

  Ino Write(const std::string& name, std::string_view content) {
    auto opened = vfs_->Create(kCtx, Caller{}, kRootIno, name, 0644,
                               {.read = true, .write = true, .truncate = true}, false);
    EXPECT_OK(opened);
    EXPECT_OK(vfs_->Write(kCtx, opened->handle, 0, AsBytes(content)));
    EXPECT_OK(vfs_->Release(kCtx, opened->handle));
    return opened->entry.ino;
  }

  TempDir dir_;
  Logger log_;
  MetricsRegistry metrics_;
  MeteredStore* metered_ =
      new MeteredStore(std::make_unique<object::testing::MemObjectStore>());  // of objects_
  object::testing::FaultyObjectStore objects_{std::unique_ptr<object::ObjectStore>(metered_)};
  std::unique_ptr<MetaStore> meta_;
  std::unique_ptr<BlockStore> blocks_;
  std::unique_ptr<Vfs> vfs_;
  std::unique_ptr<DiskCache> disk_;
  std::unique_ptr<DataSet> set_;
};

}  // namespace paddleop::volume
