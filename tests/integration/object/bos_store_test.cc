// The contract of every ObjectStore on a stand-in of BOS that checks signatures, and the official
// SDK beside us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"
#include "integration/object/bos_standin.h"
#include "support/peer.h"
#include "volume/object/open_store.h"
#include "volume/object/testing/object_store_contract.h"

namespace paddleop::volume::object::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Ends while the program still is whole.
class BosEnvironment final : public ::testing::Environment {
 public:
  void SetUp() override { server_ = std::make_unique<BosStandIn>(); }
  void TearDown() override { server_.reset(); }
  std::unique_ptr<BosStandIn> server_;
};
BosEnvironment* const environment =
    static_cast<BosEnvironment*>(::testing::AddGlobalTestEnvironment(new BosEnvironment));

BosStandIn& Server() { return *environment->server_; }

StorageConfig Config(std::string_view bucket) {
  return {.storage = "bos",
          .bucket = fmt::format("{}/{}", Server().endpoint(), bucket),
          .access_key = Server().credentials().access_key,
          .secret_key = Server().credentials().secret_key};
}

std::unique_ptr<ObjectStore> NewStore() {
  static std::atomic<int> count = 0;
  auto store = OpenStore(Config(fmt::format("bucket-{}", ++count)));
  EXPECT_OK(store);
  return store ? *std::move(store) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Bos, ObjectStoreContract,
                         ::testing::Values(StoreCase{
                             .name = "StandIn", .open = NewStore, .binary_keys = false}),
                         NameOfCase);

const Context kCtx = Context::Background();

TEST(BosStore, TheOfficialSdkAndWeReadEachOther) {
  auto python = paddleop::testing::Peer::Path("bce-sdk");
  ASSERT_OK(python);
  auto store = OpenStore(Config("shared-bucket"));
  ASSERT_OK(store);
  ASSERT_OK((*store)->Create(kCtx));
  for (int i = 0; i < 15; ++i)
    ASSERT_OK(PutString(**store, kCtx, fmt::format("many/{:02}", i), "x"));
  ASSERT_OK(PutString(**store, kCtx, "ours", "from our store"));
  ASSERT_OK(PutString(**store, kCtx, "old", "x"));
  const auto& keys = Server().credentials();
  auto ran = paddleop::testing::RunProcess(
      {*python + "/bin/python",
       paddleop::testing::SourceDir() + "/tests/integration/object/bos_client.py",
       Server().endpoint(), keys.access_key, keys.secret_key.Reveal(), "shared-bucket"});
  ASSERT_OK(ran);
  ASSERT_EQ(ran->exit_code, 0) << ran->err;
  const json seen = json::parse(ran->out);
  EXPECT_EQ(seen["ours"], "from our store");
  EXPECT_EQ(seen["range"], "om ");
  EXPECT_EQ(seen["size"], 14);
  EXPECT_EQ(seen["keys"].size(), 18u);
  auto theirs = GetString(**store, kCtx, "theirs/\xe5\x9b\xbe 1", 100);
  ASSERT_OK(theirs);
  EXPECT_EQ(*theirs, "from the SDK");
  auto parts = GetString(**store, kCtx, "parts", 100);
  ASSERT_OK(parts);
  EXPECT_EQ(*parts, "one, two");
  EXPECT_CODE((*store)->Head(kCtx, "old"), Code::kNotFound);
}

TEST(BosStore, WrongKeysAndBucketsAreNamed) {
  StorageConfig config = Config("bucket-x");
  config.secret_key = Secret("not-the-secret");
  auto read = GetString(**OpenStore(config), kCtx, "k", 10);
  ASSERT_CODE(read, Code::kPermission);
  EXPECT_THAT(read.error().message(), HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(read.error().message(), Not(HasSubstr("not-the-secret")));
  read = GetString(**OpenStore(Config("no-such-bucket")), kCtx, "k", 10);
  ASSERT_CODE(read, Code::kInvalid);
  EXPECT_THAT(read.error().message(),
              HasSubstr("there is no bucket no-such-bucket at " + Server().endpoint()));
}

TEST(BosStore, APublicBucketNeedsNoKeys) {
  auto owner = OpenStore(Config("public-set"));
  ASSERT_OK(owner);
  ASSERT_OK((*owner)->Create(kCtx));
  ASSERT_OK(PutString(**owner, kCtx, "imagenet/demo/1", "pixels"));
  auto parsed = ParseStorageUri(
      fmt::format("bos://{}/public-set/imagenet/demo", Server().endpoint().substr(7)));
  ASSERT_OK(parsed);
  auto store = OpenStore(parsed->config, {.environment = [](const char*) { return std::nullopt; }});
  ASSERT_OK(store);
  auto entries = ListEntries(**store, kCtx, {.prefix = parsed->prefix});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_OK(GetString(**store, kCtx, entries->front().key, 100));
  EXPECT_CODE(PutString(**store, kCtx, "mine", "x"), Code::kPermission);
}

}  // namespace
}  // namespace paddleop::volume::object::testing
