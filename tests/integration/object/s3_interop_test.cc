// What we write, others read, and the reverse; public buckets; keys that expire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "integration/object/minio.h"
#include "volume/object/testing/object_store_contract.h"

namespace paddleop::volume::object::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class S3Interop : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = NewBucket({}, &bucket_);
    ASSERT_NE(store_, nullptr);
  }
  json Client(std::string_view action, const std::vector<std::string>& arguments = {}) {
    return json::parse(Boto3(action, bucket_, arguments));
  }

  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(100));
  std::string bucket_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(S3Interop, AnotherClientReadsWhatWeWrote) {
  const std::string content(300'000, 'x');
  const std::vector<std::string> keys = {"plain", "a b+c/\xe5\x9b\xbe%~&=?#.jpg",
                                         "dir/with:odd;chars,@!$'()*"};
  for (const std::string& key : keys) ASSERT_OK(PutString(*store_, ctx_, key, content));
  const json objects = Client("read", keys);
  ASSERT_EQ(objects.size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const json& seen = objects[i];
    EXPECT_EQ(seen["size"], content.size());
    EXPECT_EQ(seen["sha256"], HexEncode(Sha256(content)));
    EXPECT_EQ(seen["metadata"]["crc32c"], fmt::to_string(Crc32c(content)));
    auto info = store_->Head(ctx_, keys[i]);
    ASSERT_OK(info);
    EXPECT_EQ(seen["etag"], info->etag);
  }
}

TEST_F(S3Interop, WeReadWhatAnotherClientWrote) {
  const std::string content = "hello";
  Client("write", {"k 1", Base64Encode(content), "2591144780"});
  auto read = GetString(*store_, ctx_, "k 1", 100);
  ASSERT_OK(read);
  EXPECT_EQ(*read, content);
  // Its checksum is compared, on whole reads only.
  Client("write", {"damaged", Base64Encode(content), "1"});
  read = GetString(*store_, ctx_, "damaged", 100);
  ASSERT_CODE(read, Code::kCorrupt);
  EXPECT_THAT(read.error().message(), HasSubstr("damaged"));
  std::string buffer(3, '\0');
  EXPECT_OK(
      store_->Get(ctx_, "damaged", {.range = {0, 3}}, std::as_writable_bytes(std::span(buffer))));
  EXPECT_EQ(buffer, "hel");
}

TEST_F(S3Interop, UploadsInPartsAreWholeForOthers) {
  const std::string part(5 << 20, 'p');
  auto upload = store_->CreateUpload(ctx_, "big", {});
  ASSERT_OK(upload);
  std::vector<UploadedPart> parts;
  for (int number = 1; number <= 3; ++number) {
    const std::string_view data =
        std::string_view(part).substr(0, number == 3 ? 1000 : part.size());
    auto uploaded = store_->UploadPart(ctx_, "big", *upload, number, AsBytes(data));
    ASSERT_OK(uploaded);
    parts.push_back(*uploaded);
  }
  EXPECT_EQ(Client("uploads").size(), 1u);
  ASSERT_OK(store_->CompleteUpload(ctx_, "big", *upload, parts));
  const json seen = Client("read", {"big"})[0];
  EXPECT_EQ(seen["size"], 2 * part.size() + 1000);
  EXPECT_EQ(seen["sha256"], HexEncode(Sha256(part + part + part.substr(0, 1000))));
  auto dropped = store_->CreateUpload(ctx_, "dropped", {});
  ASSERT_OK(dropped);
  ASSERT_OK(store_->AbortUpload(ctx_, "dropped", *dropped));
  EXPECT_EQ(Client("uploads").size(), 0u);
}

TEST_F(S3Interop, ListsMoreThanOnePage) {
  constexpr int kCount = 1234;
  std::vector<std::string> expected;
  for (int i = 0; i < kCount; ++i) expected.push_back(fmt::format("set/{:04} +", i));
  Countdown puts(kCount);
  for (const std::string& key : expected) {
    store_->StartPut(ctx_, key, AsBytes("x"), {}, [&](Result<void> put) {
      EXPECT_OK(put);
      puts.Down();
    });
  }
  ASSERT_TRUE(puts.Wait());
  std::vector<std::string> keys;
  ASSERT_OK(store_->List(ctx_, {.prefix = "set/"}, [&](ObjectInfo& entry) -> Result<bool> {
    keys.push_back(entry.key);
    return true;
  }));
  EXPECT_TRUE(keys == expected);
  EXPECT_TRUE(Client("keys") == json(expected));
  auto rest =
      ListEntries(*store_, ctx_, {.prefix = "set/", .start_after = expected[100], .limit = 1100});
  ASSERT_OK(rest);
  ASSERT_EQ(rest->size(), 1100u);
  EXPECT_EQ(rest->front().key, expected[101]);
  auto failed = store_->DeleteMany(ctx_, expected);
  ASSERT_OK(failed);
  EXPECT_TRUE(failed->empty());
  EXPECT_EQ(Client("keys").size(), 0u);
}

TEST_F(S3Interop, APublicBucketNeedsNoKeys) {
  ASSERT_OK(PutString(*store_, ctx_, "set/image", "pixels"));
  const auto open = [&] {
    auto store = OpenStore({.storage = "s3", .bucket = BucketAddress(bucket_)},
                           {.environment = [](const char*) { return std::nullopt; }});
    EXPECT_OK(store);
    return *std::move(store);
  };
  auto refused = GetString(*open(), ctx_, "set/image", 100);
  ASSERT_CODE(refused, Code::kPermission);
  EXPECT_THAT(refused.error().message(), HasSubstr("AccessDenied"));
  Client("publish");
  auto read = GetString(*open(), ctx_, "set/image", 100);
  ASSERT_OK(read);
  EXPECT_EQ(*read, "pixels");
  auto entries = ListEntries(*open(), ctx_, {.prefix = "set/"});
  ASSERT_OK(entries);
  EXPECT_EQ(entries->size(), 1u);
  EXPECT_CODE(PutString(*open(), ctx_, "mine", "x"), Code::kPermission);
}

TEST_F(S3Interop, SessionTokensWork) {
  const json keys = Client("session");
  StorageConfig config = MinioConfig(bucket_);
  config.access_key = keys[0];
  config.secret_key = Secret(keys[1]);
  config.session_token = Secret(keys[2]);
  auto store = OpenStore(config);
  ASSERT_OK(store);
  EXPECT_OK(PutString(**store, ctx_, "k", "x"));
  EXPECT_OK(GetString(**store, ctx_, "k", 10));
  config.session_token = Secret("forged");
  store = OpenStore(config);
  ASSERT_OK(store);
  auto read = GetString(**store, ctx_, "k", 10);
  ASSERT_CODE(read, Code::kPermission);
  EXPECT_THAT(read.error().message(), Not(HasSubstr("forged")));
}

TEST_F(S3Interop, WrongKeysAndBucketsAreNamed) {
  StorageConfig config = MinioConfig(bucket_);
  config.secret_key = Secret("not-the-secret");
  auto read = GetString(**OpenStore(config), ctx_, "k", 10);
  ASSERT_CODE(read, Code::kPermission);
  EXPECT_THAT(read.error().message(), HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(read.error().message(), Not(HasSubstr("not-the-secret")));

  config = MinioConfig(bucket_);
  config.access_key = "nobody";
  read = GetString(**OpenStore(config), ctx_, "k", 10);
  ASSERT_CODE(read, Code::kPermission);
  EXPECT_THAT(read.error().message(), HasSubstr("InvalidAccessKeyId"));

  auto missing = *OpenStore(MinioConfig("no-such-bucket"));
  for (const Status& error :
       {GetString(*missing, ctx_, "k", 10).error(), PutString(*missing, ctx_, "k", "x").error(),
        missing->Delete(ctx_, "k").error(), missing->Head(ctx_, "k").error(),
        ListEntries(*missing, ctx_, {}).error()}) {
    EXPECT_EQ(error.code(), Code::kInvalid) << error.ToString();
    EXPECT_THAT(error.message(),
                HasSubstr("there is no bucket no-such-bucket at " + Minio().Get("endpoint")));
  }
}

TEST_F(S3Interop, AUriIsAllThatASourceNeeds) {
  ASSERT_OK(PutString(*store_, ctx_, "image net/demo/1.jpg", "pixels"));
  const std::string address = Minio().Get("endpoint").substr(7);
  const std::string keys = Minio().Get("access_key") + ":" + Minio().Get("secret_key");
  for (const std::string& uri :
       {fmt::format("minio://{}@{}/{}/image%20net/", keys, address, bucket_),
        fmt::format("s3://{}@{}/{}/image net/", keys, address, bucket_)}) {
    auto parsed = ParseStorageUri(uri);
    ASSERT_OK(parsed) << uri;
    auto store = OpenStore(parsed->config);
    ASSERT_OK(store) << uri;
    auto entries = ListEntries(**store, ctx_, {.prefix = parsed->prefix});
    ASSERT_OK(entries) << uri;
    ASSERT_EQ(entries->size(), 1u);
    EXPECT_EQ(entries->front().key, "image net/demo/1.jpg");
  }
}

}  // namespace
}  // namespace paddleop::volume::object::testing
