#include "volume/object/renewing_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>

#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "volume/object/forwarding_store.h"
#include "volume/object/testing/mem_object.h"
#include "volume/object/threaded_store.h"

namespace paddleop::volume::object::testing {
namespace {

const Context kCtx = Context::Background();

// What a server knows: its objects, and the one key that is good.
struct Server {
  MemObjectStore objects;
  std::atomic<int> good_key = 1;
  std::atomic<int> refused = 0;
};

// A client of the server that has a key.
class KeyedStore final : public ObjectStore {
 public:
  KeyedStore(Server& server, int key) : server_(server), key_(key) {}

  std::string name() const override { return "keyed://"; }
  StoreTraits traits() const override { return server_.objects.traits(); }
  Result<void> Create(const Context& ctx) override {
    RETURN_IF_ERROR(Check());
    return server_.objects.Create(ctx);
  }
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override {
    RETURN_IF_ERROR(Check());
    return server_.objects.Get(ctx, key, options, out);
  }
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override {
    RETURN_IF_ERROR(Check());
    return server_.objects.Put(ctx, key, data, options);
  }
  Result<void> Delete(const Context& ctx, std::string_view key) override {
    RETURN_IF_ERROR(Check());
    return server_.objects.Delete(ctx, key);
  }
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override {
    RETURN_IF_ERROR(Check());
    return server_.objects.Head(ctx, key);
  }
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override {
    RETURN_IF_ERROR(Check());
    return server_.objects.List(ctx, options, visit);
  }

 private:
  Result<void> Check() {
    if (key_ == server_.good_key) return {};
    ++server_.refused;
    return Fail(Code::kPermission, "key {} is not good", key_);
  }

  Server& server_;
  const int key_;
};

class RenewingStoreTest : public ::testing::Test {
 protected:
  RenewingStoreTest() {
    store_.emplace(
        Open(1),
        [this, used = 1](const Context&) mutable -> Result<std::unique_ptr<ObjectStore>> {
          ++looks_;
          if (known_key_ == used) return nullptr;
          used = known_key_;
          return Open(used);
        },
        clock_);
    EXPECT_OK(PutString(*store_, kCtx, "k", "content"));
  }

  std::unique_ptr<ObjectStore> Open(int key) {
    return WithThreads(std::make_unique<KeyedStore>(server_, key), {});
  }

  Result<std::string> GetLater() {
    std::string buffer(7, ' ');
    std::promise<Result<GetResult>> got;
    store_->StartGet(kCtx, "k", {}, std::as_writable_bytes(std::span(buffer)),
                     [&](Result<GetResult> result) { got.set_value(std::move(result)); });
    auto result = got.get_future().get();
    if (!result) return std::unexpected(result.error());
    return buffer;
  }

  Server server_;
  paddleop::testing::ManualClock clock_;
  std::atomic<int> known_key_ = 1;
  std::atomic<int> looks_ = 0;
  std::optional<RenewingStore> store_;
};

TEST_F(RenewingStoreTest, FollowsTheKeys) {
  EXPECT_EQ(GetString(*store_, kCtx, "k", 100).value_or(""), "content");
  EXPECT_EQ(looks_, 0);
  for (int key = 2; key <= 4; ++key) {
    server_.good_key = known_key_ = key;
    clock_.Advance(std::chrono::seconds(2));
    if (key % 2 == 0) {
      EXPECT_EQ(GetString(*store_, kCtx, "k", 100).value_or(""), "content");
    } else {
      EXPECT_EQ(GetLater().value_or(""), "content");
    }
    EXPECT_EQ(looks_, key - 1);
  }
  EXPECT_OK(store_->Head(kCtx, "k"));
  auto entries = ListEntries(*store_, kCtx, {});
  ASSERT_OK(entries);
  EXPECT_EQ(entries->size(), 1u);
  EXPECT_EQ(server_.refused, 3) << "each key is refused once";
}

TEST_F(RenewingStoreTest, ARefusalWithTheSameKeysIsTheAnswer) {
  server_.good_key = 2;
  EXPECT_CODE(GetString(*store_, kCtx, "k", 100), Code::kPermission);
  EXPECT_CODE(GetLater(), Code::kPermission);
  EXPECT_CODE(store_->Head(kCtx, "k"), Code::kPermission);
  EXPECT_EQ(looks_, 1) << "once a second at most";
  known_key_ = 2;
  EXPECT_CODE(store_->Head(kCtx, "k"), Code::kPermission);
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_OK(store_->Head(kCtx, "k"));
  EXPECT_EQ(looks_, 2);
}

TEST_F(RenewingStoreTest, ManyAtOnceLookOnce) {
  server_.good_key = known_key_ = 2;
  std::vector<std::future<Result<std::string>>> reads;
  for (int i = 0; i < 16; ++i)
    reads.push_back(std::async(std::launch::async, [this] { return GetLater(); }));
  for (auto& read : reads) EXPECT_EQ(read.get().value_or(""), "content");
  EXPECT_EQ(looks_, 1);
}

TEST_F(RenewingStoreTest, ListsFromTheBeginningOnlyIfNothingWasShown) {
  server_.good_key = known_key_ = 2;
  auto entries = ListEntries(*store_, kCtx, {});
  ASSERT_OK(entries);
  EXPECT_EQ(entries->size(), 1u);
}

TEST_F(RenewingStoreTest, GoesWhileRequestsWaitForKeys) {
  server_.good_key = 2;
  std::vector<std::string> buffers(50, std::string(7, ' '));
  std::atomic<int> ended = 0;
  for (std::string& buffer : buffers) {
    store_->StartGet(kCtx, "k", {}, std::as_writable_bytes(std::span(buffer)),
                     [&](const Result<GetResult>& result) {
                       EXPECT_FALSE(result);
                       ++ended;
                     });
  }
  store_.reset();
  EXPECT_EQ(ended, 50);
}

TEST_F(RenewingStoreTest, AStoppedOneAsksNoMore) {
  store_->Stop();
  server_.good_key = known_key_ = 2;
  EXPECT_CODE(store_->Head(kCtx, "k"), Code::kPermission);
  EXPECT_CODE(GetLater(), Code::kPermission);
  EXPECT_EQ(looks_, 0);
}

}  // namespace
}  // namespace paddleop::volume::object::testing
