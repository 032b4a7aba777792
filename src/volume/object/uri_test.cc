#include "volume/object/uri.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/testing/matchers.h"

namespace paddleop::volume::object {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// "storage bucket prefix ak sk token".
std::string Text(std::string_view uri, bool no_https = false) {
  auto parsed = ParseStorageUri(uri, no_https);
  if (!parsed) return parsed.error().ToString();
  const StorageConfig& c = parsed->config;
  return fmt::format("{} {} [{}] {} {} {}", c.storage, c.bucket, parsed->prefix, c.access_key,
                     c.secret_key.Reveal(), c.session_token.Reveal());
}

TEST(StorageUri, ReadsBuckets) {
  EXPECT_EQ(Text("s3://bucket/imagenet/demo"), "s3 https://bucket [imagenet/demo]   ");
  EXPECT_EQ(Text("s3://bucket"), "s3 https://bucket []   ");
  EXPECT_EQ(Text("s3://AK:SK@bucket.s3.us-east-1.amazonaws.com/p/"),
            "s3 https://bucket.s3.us-east-1.amazonaws.com [p/] AK SK ");
  EXPECT_EQ(Text("s3://AK:SK:TOK@bucket.example.com"),
            "s3 https://bucket.example.com [] AK SK TOK");
  EXPECT_EQ(Text("S3://bucket.example.com:8080/p", true),
            "s3 http://bucket.example.com:8080 [p]   ");
  EXPECT_EQ(Text("s3://AK:SK@127.0.0.1:9000/bucket/p/q"),
            "s3 http://127.0.0.1:9000/bucket [p/q] AK SK ");
  EXPECT_EQ(Text("s3://localhost:9000/bucket"), "s3 http://localhost:9000/bucket []   ");
  EXPECT_EQ(Text("s3://s3.eu-west-1.amazonaws.com/bucket/p"),
            "s3 https://s3.eu-west-1.amazonaws.com/bucket [p]   ");
  EXPECT_EQ(Text("s3://bucket.127.0.0.1:9000/p"), "s3 http://bucket.127.0.0.1:9000 [p]   ");
  EXPECT_EQ(Text("bos://paddleflow-public.bj.bcebos.com/imagenet/demo"),
            "bos https://paddleflow-public.bj.bcebos.com [imagenet/demo]   ");
  EXPECT_EQ(Text("minio://AK:SK@127.0.0.1:9000/bucket/p/"),
            "minio http://127.0.0.1:9000/bucket [p/] AK SK ");
  EXPECT_EQ(Text("minio://minio.ns:9000/bucket"), "minio http://minio.ns:9000/bucket []   ");
  EXPECT_EQ(Text("  s3://bucket/p\n"), "s3 https://bucket [p]   ");
}

TEST(StorageUri, KeysMayBeEncodedOrRaw) {
  EXPECT_EQ(Text("s3://AK:a%2Fb%40c%3Ad@bucket/p"), "s3 https://bucket [p] AK a/b@c:d ");
  EXPECT_EQ(Text("s3://AK:a/b+c@bucket/p"), "s3 https://bucket [p] AK a/b+c ");
  EXPECT_EQ(Text("s3://AK:a/b/c=@127.0.0.1:9000/bucket/x@y"),
            "s3 http://127.0.0.1:9000/bucket [x@y] AK a/b/c= ");
  EXPECT_EQ(Text("s3://AK:a@b+@bucket/p@q"), "s3 https://bucket [p@q] AK a@b+ ");
  EXPECT_EQ(Text("s3://AK:100%x@bucket"), "s3 https://bucket [] AK 100%x ");
  EXPECT_EQ(Text("s3://AK@bucket"), "s3 https://bucket [] AK  ");
}

TEST(StorageUri, AnAtInThePrefixIsNoKey) {
  EXPECT_EQ(Text("s3://bucket/user@host/x"), "s3 https://bucket [user@host/x]   ");
  EXPECT_EQ(Text("minio://127.0.0.1:9000/bucket/a@b"),
            "minio http://127.0.0.1:9000/bucket [a@b]   ");
  EXPECT_EQ(Text("minio://h:9000/bucket/a:b@c"), "minio http://h:9000/bucket [a:b@c]   ");
}

TEST(StorageUri, ThePrefixIsDecoded) {
  EXPECT_EQ(Text("s3://bucket/a%20b%25/%E5%9B%BE"), "s3 https://bucket [a b%/\xe5\x9b\xbe]   ");
  EXPECT_EQ(Text("s3://bucket/raw space/\xe5\x9b\xbe"),
            "s3 https://bucket [raw space/\xe5\x9b\xbe]   ");
  EXPECT_CODE(ParseStorageUri("s3://bucket/100%"), Code::kInvalid);
}

TEST(StorageUri, ReadsFilesAndRedis) {
  EXPECT_EQ(Text("file:///data/set"), "file /data/set []   ");
  EXPECT_EQ(Text("/data/my set%20"), "file /data/my set%20 []   ");
  EXPECT_EQ(Text("redis://127.0.0.1:6379/1"), "redis redis://127.0.0.1:6379/1 []   ");
  EXPECT_EQ(Text("redis://:pw%2F@host:6379"), "redis redis://host:6379/0 []  pw/ ");
  EXPECT_EQ(Text("rediss://u:p@host/2/pre/fix"), "redis rediss://host/2 [pre/fix] u p ");
}

TEST(StorageUri, RefusesTheRestAndKeepsSecretsToItself) {
  for (const char* uri :
       {"", "relative/path", "s3://", "s3:///p", "minio://h:9000", "minio://h:9000/", "file://x",
        "s3://127.0.0.1:9000", "redis://", "redis://h/db", "s3://bu cket/p"}) {
    EXPECT_CODE(ParseStorageUri(uri), Code::kInvalid) << uri;
  }
  EXPECT_CODE(ParseStorageUri("gs://bucket/p"), Code::kNotSupported);
  for (const char* uri : {"oss://AK:hid/den@bucket", "s3://AK:hid@den@bucket/100%",
                          "minio://AK:hidden@h:9000", "redis://u:hidden@h/x", "gs://AK:hidden@b"}) {
    auto parsed = ParseStorageUri(uri);
    ASSERT_FALSE(parsed) << uri;
    EXPECT_THAT(parsed.error().message(), Not(HasSubstr("hid"))) << uri;
    EXPECT_THAT(parsed.error().message(), Not(HasSubstr("den"))) << uri;
  }
  EXPECT_EQ(ParseStorageUri("s3://AK:hidden@bucket.example.com/p")->Redacted(),
            "s3://bucket.example.com/p");
  EXPECT_EQ(ParseStorageUri("minio://AK:hidden@h:9000/b/p")->Redacted(), "minio://h:9000/b/p");
}

TEST(StorageConfig, TrimsAndFillsKeys) {
  std::map<std::string, std::string> values;
  const Environment environment = [&](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
  StorageConfig config{
      .storage = " MinIO\n", .bucket = "h/b\n", .access_key = "ak\n", .secret_key = Secret("sk\n")};
  config.Trim();
  EXPECT_EQ(config.storage, "minio");
  EXPECT_EQ(config.bucket, "h/b");
  EXPECT_EQ(config.access_key, "ak");
  EXPECT_EQ(config.secret_key.Reveal(), "sk");

  values = {{"AWS_ACCESS_KEY_ID", "aws"},
            {"AWS_SECRET_ACCESS_KEY", "aws-secret"},
            {"AWS_SESSION_TOKEN", "aws-token"}};
  config.FillKeys(environment);
  EXPECT_EQ(config.access_key, "ak");
  EXPECT_TRUE(config.session_token.empty());

  config = {.storage = "s3"};
  config.FillKeys(environment);
  EXPECT_EQ(config.access_key, "aws");
  EXPECT_EQ(config.secret_key.Reveal(), "aws-secret");
  EXPECT_EQ(config.session_token.Reveal(), "aws-token");

  values["MINIO_ACCESS_KEY"] = "mk";
  values["MINIO_SECRET_KEY"] = "ms";
  config = {.storage = "minio"};
  config.FillKeys(environment);
  EXPECT_EQ(config.access_key, "mk");
  EXPECT_TRUE(config.session_token.empty());

  values["ACCESS_KEY"] = "generic\n";
  values["SECRET_KEY"] = "generic-secret";
  config = {.storage = "bos"};
  config.FillKeys(environment);
  EXPECT_EQ(config.access_key, "generic");
  EXPECT_EQ(config.secret_key.Reveal(), "generic-secret");
  config = {.storage = "redis"};
  config.FillKeys(environment);
  EXPECT_EQ(config.access_key, "");
}

}  // namespace
}  // namespace paddleop::volume::object
