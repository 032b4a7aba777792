#include "volume/object/open_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix.h"
#include "base/testing/matchers.h"

namespace paddleop::volume::object {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StoreOptions Plain() {
  return {.environment = [](const char*) { return std::nullopt; }};
}

TEST(OpenStore, OpensWhatFormatWouldUse) {
  auto directory = TempDir::Create("object_test");
  ASSERT_OK(directory);
  const Context ctx = Context::Background();
  auto store = OpenStore({.storage = "FILE\n", .bucket = directory->path() + "/\n"}, Plain());
  ASSERT_OK(store);
  EXPECT_EQ((*store)->name(), "file://" + directory->path() + "/");
  EXPECT_TRUE((*store)->traits().asynchronous);
  ASSERT_OK(PutString(**store, ctx, "a/b", "content"));
  EXPECT_OK(ReadFile(directory->File("a/b")));

  store = OpenStore({.storage = "minio",
                     .bucket = "127.0.0.1:9/bkt",
                     .access_key = "a",
                     .secret_key = Secret("b")},
                    Plain());
  ASSERT_OK(store);
  EXPECT_EQ((*store)->name(), "minio://127.0.0.1:9/bkt/");
}

TEST(OpenStore, SaysWhatIsWrong) {
  auto store = OpenStore({.storage = "gs", .bucket = "b"}, Plain());
  ASSERT_CODE(store, Code::kNotSupported);
  EXPECT_THAT(store.error().message(), HasSubstr("\"gs\""));
  store = OpenStore({.storage = "s3", .bucket = "b%d", .shards = 4}, Plain());
  ASSERT_CODE(store, Code::kNotSupported);
  EXPECT_THAT(store.error().message(), HasSubstr("--shards"));
  EXPECT_CODE(OpenStore({.storage = "s3"}, Plain()), Code::kInvalid);
  store = OpenStore({.storage = "s3", .bucket = "bkt", .access_key = "only"}, Plain());
  ASSERT_CODE(store, Code::kInvalid);
  EXPECT_THAT(store.error().message(), HasSubstr("secret key is missing"));
  EXPECT_OK(OpenStore({.storage = "s3", .bucket = "bkt", .access_key = "anonymous"}, Plain()));
}

TEST(OpenStore, AnEndpointThatIsDownIsNamedAfterAFewTries) {
  StoreOptions options = Plain();
  options.retry.backoff = {.initial = std::chrono::milliseconds(1), .max_attempts = 2};
  auto store = OpenStore({.storage = "minio",
                          .bucket = "http://127.0.0.1:1/bkt",
                          .access_key = "AK",
                          .secret_key = Secret("hidden")},
                         options);
  ASSERT_OK(store);
  auto read = GetString(**store, Context::Background(), "k", 10);
  ASSERT_CODE(read, Code::kUnavailable);
  EXPECT_THAT(read.error().message(), HasSubstr("get minio://127.0.0.1:1/bkt/k"));
  EXPECT_THAT(read.error().message(), Not(HasSubstr("hidden")));
}

}  // namespace
}  // namespace paddleop::volume::object
