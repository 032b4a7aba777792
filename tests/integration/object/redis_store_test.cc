// The contract of every ObjectStore, and what is special about it, on a real Redis server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "redis/pool.h"
#include "redis/url.h"
#include "support/peer.h"
#include "volume/object/open_store.h"
#include "volume/object/testing/object_store_contract.h"

namespace paddleop::volume::object::testing {
namespace {

using paddleop::testing::Peer;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class RedisEnvironment final : public ::testing::Environment {
 public:
  void SetUp() override {
    auto peer = Peer::Start("redis", {"--password", "pass/word", "--appendonly"});
    ASSERT_OK(peer);
    peer_ = std::make_unique<Peer>(*std::move(peer));
  }
  void TearDown() override { peer_.reset(); }
  std::unique_ptr<Peer> peer_;
};
RedisEnvironment* const environment =
    static_cast<RedisEnvironment*>(::testing::AddGlobalTestEnvironment(new RedisEnvironment));

std::string Bucket(int database) {
  return fmt::format("redis://127.0.0.1:{}/{}", environment->peer_->Get("port"), database);
}

Result<redis::Reply> Command(int database, redis::Args args) {
  ASSIGN_OR_RETURN(redis::PoolOptions options, redis::ParseRedisUrl(Bucket(database)));
  options.connection.password = Secret("pass/word");
  ASSIGN_OR_RETURN(auto pool, redis::Pool::Create(options));
  return pool->Call(Context::Background(), args);
}

Result<redis::Reply> Command(int database, std::initializer_list<redis::Arg> args) {
  return Command(database, redis::Args(args.begin(), args.size()));
}

std::unique_ptr<ObjectStore> Open(int database, StoreOptions options = {}) {
  auto store =
      OpenStore({.storage = "redis", .bucket = Bucket(database), .secret_key = Secret("pass/word")},
                std::move(options));
  EXPECT_OK(store);
  return store ? *std::move(store) : nullptr;
}

std::unique_ptr<ObjectStore> OpenEmpty() {
  EXPECT_OK(Command(3, {"FLUSHDB"}));
  return Open(3);
}

INSTANTIATE_TEST_SUITE_P(Redis, ObjectStoreContract,
                         ::testing::Values(StoreCase{
                             .name = "OpenStore", .open = OpenEmpty, .has_mtime = false}),
                         NameOfCase);

class RedisStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = OpenEmpty();
    ASSERT_NE(store_, nullptr);
  }
  const Context ctx_ = Context::Background().WithTimeout(seconds(60));
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(RedisStoreTest, ObjectsArePlainStrings) {
  ASSERT_OK(PutString(*store_, ctx_, "vol/chunks/0/0/1_0_5", "hello"));
  auto reply = Command(3, {"GET", "vol/chunks/0/0/1_0_5"});
  ASSERT_OK(reply);
  EXPECT_EQ(reply->text(), "hello");
}

TEST_F(RedisStoreTest, PrefixesAreNoPatterns) {
  for (const char* key : {"a*b/1", "axb/1", "a?b/1", "[ab]/1", "b/1", "a\\b/1"}) {
    ASSERT_OK(PutString(*store_, ctx_, key, "x"));
  }
  for (const std::string prefix : {"a*b/", "a?b/", "[ab]/", "a\\b/"}) {
    auto entries = ListEntries(*store_, ctx_, {.prefix = prefix});
    ASSERT_OK(entries);
    ASSERT_EQ(entries->size(), 1u) << prefix;
    EXPECT_EQ(entries->front().key, prefix + "1");
  }
}

TEST_F(RedisStoreTest, OtherTypesAreNoObjects) {
  ASSERT_OK(Command(3, {"RPUSH", "list", "x"}));
  ASSERT_OK(PutString(*store_, ctx_, "string", "x"));
  auto entries = ListEntries(*store_, ctx_, {});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ(entries->front().key, "string");
  auto read = GetString(*store_, ctx_, "list", 10);
  ASSERT_CODE(read, Code::kInvalid);
  EXPECT_THAT(read.error().message(), HasSubstr("list"));
}

TEST_F(RedisStoreTest, ListsManyKeysOnce) {
  constexpr std::size_t kCount = 5000;
  std::vector<std::string> keys;
  std::vector<redis::Arg> args = {"MSET"};
  for (std::size_t i = 0; i < kCount; ++i) keys.push_back(fmt::format("k{:05}", i));
  for (const auto& key : keys) {
    args.emplace_back(key);
    args.emplace_back("x");
  }
  ASSERT_OK(Command(3, args));
  auto entries = ListEntries(*store_, ctx_, {.start_after = "k00099"});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), kCount - 100);
  for (std::size_t i = 0; i < entries->size(); ++i) ASSERT_EQ(entries->at(i).key, keys[i + 100]);
}

TEST_F(RedisStoreTest, AWrongPasswordIsRefusedAndNotShown) {
  auto store =
      OpenStore({.storage = "redis", .bucket = Bucket(3), .secret_key = Secret("wrong-word")});
  ASSERT_OK(store);
  auto read = GetString(**store, ctx_, "k", 10);
  ASSERT_CODE(read, Code::kPermission);
  EXPECT_THAT(read.error().message(), Not(HasSubstr("wrong-word")));
  EXPECT_CODE(OpenStore({.storage = "redis", .bucket = "redis://a:1,b:2/0"}), Code::kNotSupported);
}

TEST_F(RedisStoreTest, SurvivesARestartOfTheServer) {
  store_ = Open(3, {.retry = {.backoff = {.initial = milliseconds(50),
                                          .maximum = milliseconds(500),
                                          .max_attempts = 0}}});
  ASSERT_OK(PutString(*store_, ctx_, "k", "content"));
  ASSERT_OK(environment->peer_->Command("kill redis"));
  EXPECT_CODE(GetString(*store_, Context::Background().WithTimeout(milliseconds(500)), "k", 100),
              Code::kUnavailable);
  ASSERT_OK(environment->peer_->Command("start redis"));
  EXPECT_OK(PutString(*store_, ctx_, "k2", "content"));
  auto read = GetString(*store_, ctx_, "k", 100);
  ASSERT_OK(read);
  EXPECT_EQ(*read, "content");
}

}  // namespace
}  // namespace paddleop::volume::object::testing
