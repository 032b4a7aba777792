// A volume for tests of the Vfs: metadata in a SQLite file, objects in memory.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/cache/memory_cache.h"
#include "volume/object/forwarding_store.h"
#include "volume/object/testing/faulty_store.h"
#include "volume/object/testing/mem_object.h"
#include "volume/vfs/testing/forwarding_meta_store.h"
#include "volume/vfs/vfs.h"

namespace paddleop::volume::testing {

inline const Context kCtx = Context::Background().WithTimeout(std::chrono::minutes(2));
inline constexpr std::uint32_t kBlock = 64 << 10;

// Refuses or holds uploads until it is told otherwise.
class SwitchedStore final : public object::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  void RefusePuts(std::optional<Code> code) {
    MutexLock lock(mutex_);
    refuse_ = code;
  }
  void HoldPuts(bool hold) {
    MutexLock lock(mutex_);
    hold_ = hold;
    only_.clear();
    changed_.notify_all();
  }
  // Called by every deletion before it begins.
  void OnDelete(std::function<void()> call) {
    MutexLock lock(mutex_);
    on_delete_ = std::move(call);
  }
  // Holds the next upload, and no other.
  void HoldNextPut() {
    MutexLock lock(mutex_);
    hold_ = hold_next_ = true;
  }
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const object::PutOptions& options) override {
    {
      MutexLock lock(mutex_);
      if (refuse_) return Fail(*refuse_, "{}: refused", key);
      if (std::exchange(hold_next_, false)) only_ = key;
      if (!changed_.wait_until(lock, ctx.stop(), ctx.deadline(), [&]() REQUIRES(mutex_) {
            return !hold_ || (!only_.empty() && only_ != key);
          }))
        return Fail(Code::kDeadline, "{}: held", key);
    }
    return ForwardingStore::Put(ctx, key, data, options);
  }
  Result<void> Delete(const Context& ctx, std::string_view key) override {
    std::function<void()> call;
    {
      MutexLock lock(mutex_);
      call = on_delete_;
    }
    if (call) call();
    RETURN_IF_ERROR(ctx.Check());
    return ForwardingStore::Delete(ctx, key);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<Code> refuse_ GUARDED_BY(mutex_);
  std::function<void()> on_delete_ GUARDED_BY(mutex_);
  bool hold_ GUARDED_BY(mutex_) = false;
  bool hold_next_ GUARDED_BY(mutex_) = false;
  std::string only_ GUARDED_BY(mutex_);  // what is held; everything if empty
};

// Refuses what it is told to until it is told otherwise.
class SwitchedMeta final : public ForwardingMetaStore {
 public:
  using ForwardingMetaStore::ForwardingMetaStore;

  void RefuseSlices(std::optional<Code> code) {
    MutexLock lock(mutex_);
    refuse_slices_ = code;
  }
  void RefuseAttrs(std::optional<Code> code) {
    MutexLock lock(mutex_);
    refuse_attrs_ = code;
  }
  // Changes of attributes happen, but nobody hears of it.
  void LoseAnswers(bool lose) {
    MutexLock lock(mutex_);
    lose_answers_ = lose;
  }
  // The next answer to Open or SetAttr is on its way until it is let through.
  void HoldNextAnswer() {
    MutexLock lock(mutex_);
    hold_ = Hold::kNext;
  }
  // The next SetAttr does not reach the volume until it is let through.
  void HoldNextChange() {
    MutexLock lock(mutex_);
    hold_ = Hold::kNextChange;
  }
  // Called with every answer to GetAttr that is on its way.
  void OnAttr(std::function<void()> call) {
    MutexLock lock(mutex_);
    on_attr_ = std::move(call);
  }
  bool AwaitHeldAnswer() {
    MutexLock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&]() REQUIRES(mutex_) { return hold_ == Hold::kHeld; });
  }
  void LetAnswerThrough() {
    MutexLock lock(mutex_);
    hold_ = Hold::kNo;
    changed_.notify_all();
  }
  Result<Attr> Open(const Context& ctx, const Caller& caller, Ino ino, unsigned mask) override {
    auto attr = ForwardingMetaStore::Open(ctx, caller, ino, mask);
    WaitIf(Hold::kNext);
    return attr;
  }
  Result<Attr> WriteSlice(const Context& ctx, Ino ino, std::uint32_t index, const Slice& slice,
                          Timestamp mtime) override {
    {
      MutexLock lock(mutex_);
      if (refuse_slices_) return Fail(*refuse_slices_, "slice {}: refused", slice.id);
    }
    return ForwardingMetaStore::WriteSlice(ctx, ino, index, slice, mtime);
  }
  Result<Attr> GetAttr(const Context& ctx, Ino ino) override {
    {
      MutexLock lock(mutex_);
      if (refuse_attrs_) return Fail(*refuse_attrs_, "inode {}: refused", ToInt(ino));
    }
    auto attr = ForwardingMetaStore::GetAttr(ctx, ino);
    std::function<void()> call;
    {
      MutexLock lock(mutex_);
      call = on_attr_;
    }
    if (call) call();
    return attr;
  }
  Result<Attr> SetAttr(const Context& ctx, const Caller& caller, Ino ino,
                       const AttrChange& change) override {
    WaitIf(Hold::kNextChange);
    auto attr = ForwardingMetaStore::SetAttr(ctx, caller, ino, change);
    WaitIf(Hold::kNext);
    MutexLock lock(mutex_);
    if (lose_answers_) return Fail(Code::kUnavailable, "inode {}: no answer", ToInt(ino));
    return attr;
  }

 private:
  enum class Hold { kNo, kNext, kNextChange, kHeld };

  void WaitIf(Hold what) {
    MutexLock lock(mutex_);
    if (hold_ != what) return;
    hold_ = Hold::kHeld;
    changed_.notify_all();
    const bool came = changed_.wait_for(lock, std::chrono::seconds(30),
                                        [&]() REQUIRES(mutex_) { return hold_ == Hold::kNo; });
    EXPECT_TRUE(came) << "nobody let it through";
  }

  Mutex mutex_;
  CondVar changed_;
  Hold hold_ GUARDED_BY(mutex_) = Hold::kNo;
  std::optional<Code> refuse_slices_ GUARDED_BY(mutex_);
  std::optional<Code> refuse_attrs_ GUARDED_BY(mutex_);
  std::function<void()> on_attr_ GUARDED_BY(mutex_);
  bool lose_answers_ GUARDED_BY(mutex_) = false;
};

// One client of a volume whose metadata is a SQLite file and whose objects are in memory.
struct Client {
  Client(const std::string& url, object::ObjectStore& objects, std::uint32_t block_size = kBlock)
      : log(LogLevel::kOff) {
    meta = std::make_unique<SwitchedMeta>(*OpenMetaStore(kCtx, url, {.log = &log}));
    cache = MakeMemoryCache(kMemory);
    blocks = std::make_unique<BlockStore>(BlockStoreOptions{.layout = {.block_size = block_size},
                                                            .max_downloads = 4,
                                                            .max_uploads = 4,
                                                            .buffer_bytes = 4 << 20},
                                          objects, cache.get(), log);
  }
  void Start(VfsOptions options) {
    ASSERT_OK(meta->Load(kCtx));
    meta->SetSliceDeleter(
        [this](const Context& ctx, SliceKey slice) { return blocks->DeleteSlice(ctx, slice); });
    ASSERT_OK(meta->OpenSession(
        kCtx, {.version = "1.3.1", .host_name = "test", .mount_point = "test", .process_id = 1}));
    if (!options.ahead_limit) options.ahead_limit = [] { return kMemory / 2; };
    vfs = std::make_unique<Vfs>(*meta, *blocks, log, std::move(options));
  }
  ~Client() {
    vfs.reset();
    meta.reset();
  }

  static constexpr std::uint64_t kMemory = 8 << 20;
  Logger log;
  std::unique_ptr<SwitchedMeta> meta;
  std::unique_ptr<CacheStore> cache;
  std::unique_ptr<BlockStore> blocks;
  std::unique_ptr<Vfs> vfs;
};

class VfsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    url_ = "sqlite3://" + dir_.File("volume.db");
    Setting setting;
    setting.name = "test";
    setting.uuid = RandomUuid();
    setting.bucket = dir_.path() + "/";
    setting.block_size_kib = kBlock >> 10;
    setting.trash_days = 0;
    client_ = std::make_unique<Client>(url_, objects_);
    ASSERT_OK(client_->meta->Format(kCtx, setting, false));
    client_->Start({});
  }

  Vfs& vfs() { return *client_->vfs; }

  // Another client with other options instead of the first.
  void Restart(VfsOptions options, std::uint32_t block_size = kBlock) {
    client_ = std::make_unique<Client>(url_, objects_, block_size);
    client_->Start(options);
  }

  OpenedFile MustCreate(const std::string& name, OpenFlags flags = {.read = true, .write = true}) {
    auto opened = vfs().Create(kCtx, {}, kRootIno, name, 0644, flags, false);
    EXPECT_OK(opened);
    return *opened;
  }

  static std::string ReadAll(Vfs& vfs, Handle handle) {
    std::string out, buffer(100'000, '\0');
    for (;;) {
      auto n = vfs.Read(kCtx, handle, out.size(), std::as_writable_bytes(std::span(buffer)));
      EXPECT_OK(n);
      if (!n || *n == 0) return out;
      out.append(buffer, 0, *n);
    }
  }

  TempDir dir_ = *TempDir::Create();
  std::string url_;
  SwitchedStore* const uploads_ =
      new SwitchedStore(std::make_unique<object::testing::MemObjectStore>());  // of objects_
  object::testing::FaultyObjectStore objects_{std::unique_ptr<object::ObjectStore>(uploads_)};
  std::unique_ptr<Client> client_;
};

}  // namespace paddleop::volume::testing
