#include "volume/object/bos/bos_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "volume/object/bos/bos_json.h"
#include "volume/object/testing/fake_http.h"

namespace paddleop::volume::object::testing {
namespace {

using net::HttpRequest;
using net::HttpResponse;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Header(const HttpRequest& request, std::string_view name) {
  return std::string(request.headers.Get(name).value_or("(none)"));
}
HttpResponse Answer(int status, std::string body = "") {
  return {.status = status, .body = std::move(body)};
}

class BosStoreTest : public ::testing::Test {
 protected:
  void Open(std::string_view bucket, Credentials credentials, FakeHttpClient::Handler handler) {
    auto endpoint = ParseBosBucket(bucket, [](const char*) { return std::nullopt; });
    ASSERT_OK(endpoint);
    auto http = std::make_unique<FakeHttpClient>(std::move(handler));
    http_ = http.get();
    store_ = NewBosStore({.endpoint = *endpoint, .credentials = std::move(credentials)},
                         std::move(http), clock_);
  }
  void Open(FakeHttpClient::Handler handler) {
    Open("bkt.bj.bcebos.com", {.access_key = "AK", .secret_key = Secret("hidden")},
         std::move(handler));
  }
  HttpRequest Last() { return http_->requests().back(); }

  const Context ctx_ = Context::Background();
  paddleop::testing::ManualClock clock_;  // 2023-11-14T22:13:20Z
  FakeHttpClient* http_ = nullptr;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(BosStoreTest, AddressesAndSigns) {
  const auto ok = [](const HttpRequest&) { return Answer(200); };
  Open(ok);
  ASSERT_OK(store_->Put(ctx_, "dir/\xe5\x9b\xbe 1", AsBytes("abc"), {.crc32c = 7}));
  EXPECT_EQ(Last().url, "https://bkt.bj.bcebos.com/dir/%E5%9B%BE%201");
  EXPECT_THAT(
      Header(Last(), "Authorization"),
      AllOf(
          StartsWith("bce-auth-v1/AK/2023-11-14T22:13:20Z/1800/host;x-bce-date;x-bce-meta-crc32c/"),
          Not(HasSubstr("hidden"))));
  EXPECT_EQ(Header(Last(), "x-bce-meta-crc32c"), "7");
  EXPECT_EQ(store_->name(), "bos://bkt.bj.bcebos.com/");
  Open("http://127.0.0.1:8080/bkt",
       {.access_key = "AK", .secret_key = Secret("s"), .session_token = Secret("tok")}, ok);
  ASSERT_OK(store_->Delete(ctx_, "k"));
  EXPECT_EQ(Last().url, "http://127.0.0.1:8080/bkt/k");
  EXPECT_THAT(Header(Last(), "Authorization"), HasSubstr("/host;x-bce-date;x-bce-security-token/"));
  Open("bkt.bj.bcebos.com", {}, ok);
  ASSERT_OK(store_->Delete(ctx_, "k"));
  EXPECT_EQ(Header(Last(), "Authorization"), "(none)");
}

TEST_F(BosStoreTest, ReadsErrors) {
  Open([](const HttpRequest&) {
    return Answer(404, R"({"code":"NoSuchKey","message":"words","requestId":"r1"})");
  });
  auto read = GetString(*store_, ctx_, "some/key", 10);
  ASSERT_CODE(read, Code::kNotFound);
  EXPECT_THAT(read.error().message(), AllOf(HasSubstr("bos://bkt.bj.bcebos.com/some/key"),
                                            HasSubstr("NoSuchKey"), HasSubstr("r1")));
  EXPECT_OK(store_->Delete(ctx_, "some/key"));
  Open([](const HttpRequest&) {
    return Answer(404, R"({"code":"NoSuchBucket","message":"words"})");
  });
  EXPECT_CODE(store_->Delete(ctx_, "k"), Code::kInvalid);
  Open([](const HttpRequest&) { return Answer(400, R"({"code":"SignatureDoesNotMatch"})"); });
  EXPECT_CODE(GetString(*store_, ctx_, "k", 10), Code::kPermission);
  Open([](const HttpRequest&) { return Answer(200, R"({"code":"InternalError"})"); });
  EXPECT_CODE(store_->Copy(ctx_, "a", "b"), Code::kUnavailable);
  Open([](const HttpRequest&) { return Answer(503, "busy"); });
  EXPECT_CODE(PutString(*store_, ctx_, "k", "x"), Code::kUnavailable);
}

TEST_F(BosStoreTest, ListsPageByPage) {
  Open([](const HttpRequest& request) {
    if (request.url.find("marker=b") != std::string::npos) {
      return Answer(200, R"({"isTruncated":false,"contents":[{"key":"c","size":3,"eTag":"e",
        "lastModified":"2024-05-06T07:08:09Z"}]})");
    }
    return Answer(200,
                  R"({"isTruncated":true,"nextMarker":"b","contents":[{"key":"b","size":12345678901,
      "eTag":"e1","lastModified":"2024-05-06T07:08:09Z"}],"commonPrefixes":[{"prefix":"a/"}]})");
  });
  auto entries = ListEntries(*store_, ctx_, {.prefix = "", .delimiter = "/"});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ(entries->at(0).key, "a/");
  EXPECT_TRUE(entries->at(0).is_prefix);
  EXPECT_EQ(entries->at(1).size, 12345678901u);
  EXPECT_EQ(entries->at(1).etag, "e1");
  EXPECT_EQ(entries->at(2).key, "c");
}

TEST_F(BosStoreTest, DeletesManyAndTellsWhatIsLeft) {
  Open([](const HttpRequest& request) {
    if (request.method == "DELETE") return Answer(204);
    return Answer(
        200,
        R"({"errors":[{"key":"b","code":"AccessDenied","message":"no"},{"key":"a","code":"NoSuchKey"}]})");
  });
  const std::vector<std::string> keys = {"a", "b", "not utf-8 \xff"};
  auto failed = store_->DeleteMany(ctx_, keys);
  ASSERT_OK(failed);
  ASSERT_EQ(failed->size(), 1u);
  EXPECT_EQ(failed->at(0).key, "b");
  EXPECT_EQ(failed->at(0).error.code(), Code::kPermission);
  ASSERT_EQ(http_->requests().size(), 2u);
  EXPECT_EQ(http_->requests()[0].body, R"({"objects":[{"key":"a"},{"key":"b"}]})");
}

TEST(BosJson, RefusesWhatIsNotAListing) {
  for (const char* body :
       {"", "x", "[]", "{}", R"({"contents":[1]})", R"({"contents":[{"key":"a"}]})",
        R"({"contents":[{"key":"a","size":-1,"lastModified":"2024-05-06T07:08:09Z"}]})",
        R"({"contents":[{"key":"a","size":1,"lastModified":"yesterday"}]})",
        R"({"contents":[],"isTruncated":true})", R"({"contents":[],"commonPrefixes":[3]})"}) {
    EXPECT_CODE(ParseBosList(body), Code::kCorrupt) << body;
  }
  EXPECT_CODE(ParseBosList(std::string(kMaxBosJsonBytes + 1, ' ')), Code::kCorrupt);
  EXPECT_CODE(ParseBosList(std::string(1'000'000, '[')), Code::kCorrupt);
  EXPECT_CODE(ParseBosUploadId("{}"), Code::kCorrupt);
  EXPECT_FALSE(ParseBosError(R"({"code":3})"));
}

}  // namespace
}  // namespace paddleop::volume::object::testing
