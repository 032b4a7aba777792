#include "volume/object/hdfs/hdfs_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "volume/object/hdfs/hdfs_json.h"
#include "volume/object/testing/fake_http.h"
#include "volume/object/uri.h"

namespace paddleop::volume::object {
namespace {

using ::testing::ElementsAre;
using testing::FakeHttpClient;
using ::testing::HasSubstr;

const Context kCtx = Context::Background();

std::string FileJson(std::string_view name, std::string_view type, int length) {
  return fmt::format(
      R"({{"pathSuffix":"{}","type":"{}","length":{},"modificationTime":1700000000123,)"
      R"("fileId":7,"owner":"root","group":"root","permission":"640"}})",
      name, type, length);
}

std::string ListingJson(std::initializer_list<std::string> entries, int remaining) {
  std::string all;
  for (const std::string& entry : entries) all += (all.empty() ? "" : ",") + entry;
  return R"({"DirectoryListing":{"partialListing":{"FileStatuses":{"FileStatus":[)" + all +
         R"(]}},"remainingEntries":)" + std::to_string(remaining) + "}}";
}

TEST(HdfsStore, ListsTreesInKeyOrderAndInPages) {
  auto client = std::make_unique<FakeHttpClient>(
      [](const net::HttpRequest& request) -> Result<net::HttpResponse> {
        net::HttpResponse response{.status = 200};
        if (request.url.find("/data/a?") != std::string::npos) {
          response.body = ListingJson({FileJson("z", "FILE", 1)}, 0);
        } else if (request.url.find("startAfter=a.txt") != std::string::npos) {
          response.body = ListingJson({FileJson("b c", "FILE", 3)}, 0);
        } else {
          response.body =
              ListingJson({FileJson("a", "DIRECTORY", 0), FileJson("a.txt", "FILE", 2)}, 1);
        }
        return response;
      });
  const FakeHttpClient* requests = client.get();
  auto store = NewHdfsStore({.endpoint = "http://name:9870", .user = "me"}, std::move(client));
  std::vector<std::string> keys;
  ASSERT_OK(store->List(kCtx, {.prefix = "data/"}, [&](ObjectInfo& entry) -> Result<bool> {
    keys.push_back(entry.key);
    return true;
  }));
  EXPECT_THAT(keys, ElementsAre("data/a.txt", "data/a/z", "data/b c"));
  EXPECT_THAT(
      requests->requests()[0].url,
      ::testing::StrEq("http://name:9870/webhdfs/v1/data?op=LISTSTATUS_BATCH&user.name=me"));
}

TEST(HdfsStore, ReadsRangesAndNoticesChanges) {
  std::string length = "5";
  auto client = std::make_unique<FakeHttpClient>(
      [&](const net::HttpRequest& request) -> Result<net::HttpResponse> {
        net::HttpResponse response{.status = 200};
        if (request.url.find("op=GETFILESTATUS") != std::string::npos) {
          response.body = R"({"FileStatus":)" + FileJson("", "FILE", std::stoi(length)) + "}";
        } else {
          response.body =
              request.url.find("offset=1&length=3") != std::string::npos ? "ell" : "hello";
        }
        return response;
      });
  auto store = NewHdfsStore({.endpoint = "http://name:9870"}, std::move(client));
  auto info = store->Head(kCtx, "a b");
  ASSERT_OK(info);
  EXPECT_EQ(info->size, 5u);
  EXPECT_EQ(info->owner->mode, 0640);
  std::vector<std::byte> out(5);
  auto got = store->Get(kCtx, "a b", {.if_match = info->etag}, out);
  ASSERT_OK(got);
  EXPECT_EQ(got->object_size, 5u);
  got = store->Get(kCtx, "a b", {.range = {.offset = 1, .length = 3}, .if_match = info->etag}, out);
  ASSERT_OK(got);
  EXPECT_EQ(got->size, 3u);
  length = "6";
  EXPECT_CODE(store->Get(kCtx, "a b", {.if_match = info->etag}, out), Code::kConflict);
  bool called = false;
  store->StartGet(kCtx, "a b", {.if_match = info->etag}, out, [&](Result<GetResult> result) {
    called = true;
    EXPECT_CODE(result, Code::kConflict);
  });
  EXPECT_TRUE(called);
  EXPECT_CODE(store->Head(kCtx, "a b/"), Code::kNotFound);
  EXPECT_CODE(store->Put(kCtx, "x", {}, {}), Code::kNotSupported);
}

TEST(HdfsJson, RemoteExceptionsBecomeCodes) {
  const auto code = [](std::string_view exception, int status) {
    return ParseHdfsError(
        status,
        fmt::format(R"({{"RemoteException":{{"exception":"{}","message":"m\nx"}}}})", exception),
        "get hdfs://h/f");
  };
  EXPECT_EQ(code("FileNotFoundException", 404).code(), Code::kNotFound);
  EXPECT_EQ(code("AccessControlException", 403).code(), Code::kPermission);
  EXPECT_EQ(code("StandbyException", 403).code(), Code::kUnavailable);
  EXPECT_THAT(code("AccessControlException", 403).message(), HasSubstr("hdfs://h/f"));
  EXPECT_EQ(ParseHdfsError(503, "not json", "x").code(), Code::kUnavailable);
}

TEST(HdfsJson, RefusesWhatIsNotAsDocumented) {
  EXPECT_CODE(ParseHdfsStatus("{}"), Code::kCorrupt);
  EXPECT_CODE(ParseHdfsStatus("[1]"), Code::kCorrupt);
  EXPECT_CODE(ParseHdfsStatus(R"({"FileStatus":7})"), Code::kCorrupt);
  EXPECT_CODE(ParseHdfsListing(R"({"DirectoryListing":{"partialListing":[]}})"), Code::kCorrupt);
}

TEST(HdfsUri, NamesTheWebPortAndAPath) {
  auto uri = ParseStorageUri("hdfs://name/user/a b%20");
  ASSERT_OK(uri);
  EXPECT_EQ(uri->config.storage, "hdfs");
  EXPECT_EQ(uri->config.bucket, "http://name:9870");
  EXPECT_EQ(uri->prefix, "user/a b%20");
  uri = ParseStorageUri("hdfs://me@name:1234/");
  ASSERT_OK(uri);
  EXPECT_EQ(uri->config.access_key, "me");
  EXPECT_EQ(uri->config.bucket, "http://name:1234");
  EXPECT_CODE(ParseStorageUri("hdfs:///path"), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::volume::object
