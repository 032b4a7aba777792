#include "volume/object/bucket_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/testing/matchers.h"

namespace paddleop::volume::object {
namespace {

using ::testing::HasSubstr;

Environment Fixed(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

// "scheme authority bucket region style".
std::string Text(const Result<BucketEndpoint>& e) {
  if (!e) return e.error().ToString();
  return fmt::format("{} {} {} {} {}", e->scheme, e->authority, e->bucket, e->region,
                     e->path_style ? "path" : "host");
}

TEST(BucketEndpoint, ReadsTheFormsOfABucket) {
  const auto parse = [](std::string_view text) { return Text(ParseS3Bucket(text, Fixed({}))); };
  EXPECT_EQ(parse("mybucket"), "https s3.us-east-1.amazonaws.com mybucket us-east-1 host");
  EXPECT_EQ(parse("https://b1.s3.eu-west-1.amazonaws.com"),
            "https s3.eu-west-1.amazonaws.com b1 eu-west-1 host");
  EXPECT_EQ(parse("b1.s3-eu-west-1.amazonaws.com"),
            "https s3-eu-west-1.amazonaws.com b1 eu-west-1 host");
  EXPECT_EQ(parse("b1.s3.dualstack.us-west-2.amazonaws.com"),
            "https s3.dualstack.us-west-2.amazonaws.com b1 us-west-2 host");
  EXPECT_EQ(parse("b1.s3.cn-north-1.amazonaws.com.cn"),
            "https s3.cn-north-1.amazonaws.com.cn b1 cn-north-1 host");
  EXPECT_EQ(parse("b1.s3.amazonaws.com"), "https s3.amazonaws.com b1 us-east-1 host");
  EXPECT_EQ(parse("http://my.s3.data.s3.eu-west-1.amazonaws.com"),
            "http s3.eu-west-1.amazonaws.com my.s3.data eu-west-1 host");
  EXPECT_EQ(parse("https://dotted.name.s3.eu-west-1.amazonaws.com"),
            "https s3.eu-west-1.amazonaws.com dotted.name eu-west-1 path");
  EXPECT_EQ(parse("https://s3.eu-west-1.amazonaws.com/b1/"),
            "https s3.eu-west-1.amazonaws.com b1 eu-west-1 host");
  EXPECT_EQ(parse("http://127.0.0.1:9000/b1"), "http 127.0.0.1:9000 b1 us-east-1 path");
  EXPECT_EQ(parse("127.0.0.1:9000/b1"), "http 127.0.0.1:9000 b1 us-east-1 path");
  EXPECT_EQ(parse("b1.store.example.com:8080"), "http store.example.com:8080 b1 us-east-1 path");
  EXPECT_EQ(parse("https://b1.Store.Example.com:443"), "https store.example.com b1 us-east-1 path");
  EXPECT_EQ(parse("https://store.example.com/b1/ignored"),
            "https store.example.com b1 us-east-1 path");
  EXPECT_EQ(parse("http://[::1]:9000/b1"), "http [::1]:9000 b1 us-east-1 path");
  EXPECT_EQ(parse("https://store.example.com/b1?region=xy-1"),
            "https store.example.com b1 xy-1 path");
}

TEST(BucketEndpoint, ReadsTheEnvironment) {
  EXPECT_EQ(Text(ParseS3Bucket("b1.example.com", Fixed({{"AWS_DEFAULT_REGION", "r2"}}))),
            "http example.com b1 r2 path");
  EXPECT_EQ(Text(ParseS3Bucket("b1", Fixed({{"AWS_REGION", "r1"}, {"AWS_DEFAULT_REGION", "r2"}}))),
            "https s3.r1.amazonaws.com b1 r1 host");
  EXPECT_EQ(Text(ParseS3Bucket("b1.s3.eu-west-1.amazonaws.com", Fixed({{"AWS_REGION", "r1"}}))),
            "https s3.eu-west-1.amazonaws.com b1 eu-west-1 host");
  EXPECT_EQ(Text(ParseS3Bucket("b1.example.com", Fixed({{"JFS_S3_VHOST_STYLE", "1"}}))),
            "http example.com b1 us-east-1 host");
  EXPECT_EQ(
      Text(ParseMinioBucket("h:9000/b1", Fixed({{"MINIO_REGION", "r3"}, {"AWS_REGION", "r1"}}))),
      "http h:9000 b1 r3 path");
}

TEST(BucketEndpoint, ReadsMinioBuckets) {
  const auto parse = [](std::string_view text) { return Text(ParseMinioBucket(text, Fixed({}))); };
  EXPECT_EQ(parse("http://127.0.0.1:9000/b1"), "http 127.0.0.1:9000 b1 us-east-1 path");
  EXPECT_EQ(parse("minio.paddle-system:9000/data-center"),
            "http minio.paddle-system:9000 data-center us-east-1 path");
  EXPECT_EQ(parse("https://host/minio/b1"), "https host b1 us-east-1 path");
  EXPECT_EQ(parse("http://host/b1?region=r"), "http host b1 r path");
}

TEST(BucketEndpoint, ReadsBosBuckets) {
  const auto parse = [](std::string_view text) { return Text(ParseBosBucket(text, Fixed({}))); };
  EXPECT_EQ(parse("b1.bj.bcebos.com"), "https bj.bcebos.com b1  host");
  EXPECT_EQ(parse("http://b1.bj.bcebos.com"), "http bj.bcebos.com b1  host");
  EXPECT_EQ(parse("http://127.0.0.1:8080/b1"), "http 127.0.0.1:8080 b1  path");
  EXPECT_EQ(Text(ParseBosBucket("b1.bcebos.com", Fixed({{"BDCLOUD_DEFAULT_REGION", "gz"}}))),
            "https gz.bcebos.com b1  host");
  EXPECT_THAT(parse("b1.bcebos.com"), HasSubstr("has no region: write b1.REGION.bcebos.com"));
  for (const char* text : {"", "b1", "127.0.0.1:8080"}) {
    EXPECT_CODE(ParseBosBucket(text, Fixed({})), Code::kInvalid) << text;
  }
}

TEST(BucketEndpoint, ReadsOptions) {
  auto endpoint = ParseS3Bucket(
      "https://h.example.com/b1?disable-checksum=true&tls-insecure-skip-verify=true&ca-certs=/"
      "ca.pem&ssl-cert=/c&ssl-key=/k",
      Fixed({}));
  ASSERT_OK(endpoint);
  EXPECT_FALSE(endpoint->checksum);
  EXPECT_TRUE(endpoint->tls.insecure_skip_verify);
  EXPECT_EQ(endpoint->tls.ca_file, "/ca.pem");
  EXPECT_EQ(endpoint->tls.cert_file, "/c");
  EXPECT_EQ(endpoint->tls.key_file, "/k");
}

TEST(BucketEndpoint, NamesItself) {
  EXPECT_EQ(ParseS3Bucket("b1", Fixed({}))->Name("s3"), "s3://b1/");
  EXPECT_EQ(ParseS3Bucket("b1.example.com", Fixed({}))->Name("s3"), "s3://example.com/b1/");
  EXPECT_EQ(ParseMinioBucket("127.0.0.1:9000/b1", Fixed({}))->Name("minio"),
            "minio://127.0.0.1:9000/b1/");
}

TEST(BucketEndpoint, RefusesWhatNamesNoBucket) {
  for (const char* text : {"", "http://127.0.0.1:9000", "https://localhost", "s3.amazonaws.com",
                           "ftp://b1.example.com", "http:///b1", "http://h/b%20c", "http://h/b%2fc",
                           "http://ak:sk@h.example.com/b1", "http://h/b"}) {
    EXPECT_CODE(ParseS3Bucket(text, Fixed({})), Code::kInvalid) << text;
  }
  for (const char* text :
       {"", "http://127.0.0.1:9000", "http://127.0.0.1:9000/", "http://h:99999/b1"}) {
    EXPECT_CODE(ParseMinioBucket(text, Fixed({})), Code::kInvalid) << text;
  }
  auto parsed = ParseMinioBucket("http://127.0.0.1:9000", Fixed({}));
  EXPECT_THAT(parsed.error().message(), HasSubstr("write http://127.0.0.1:9000/BUCKET"));
  parsed = ParseS3Bucket("http://ak:hidden@h.example.com/b1", Fixed({}));
  EXPECT_EQ(parsed.error().message().find("hidden"), std::string::npos);
}

}  // namespace
}  // namespace paddleop::volume::object
