#include "volume/object/s3/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "volume/object/internal/times.h"

namespace paddleop::volume::object {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

// The examples of the Amazon S3 API reference, "Signature Calculations for the Authorization
// Header".
constexpr char kHost[] = "examplebucket.s3.amazonaws.com";
constexpr char kTime[] = "20130524T000000Z";
const std::string kEmptyHash = HexEncode(Sha256(""));

std::string Sign(const SigV4Request& request) {
  static const SigV4Signer signer(
      {.access_key = "AKIAIOSFODNN7EXAMPLE",
       .secret_key = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")},
      "us-east-1");
  return signer.Authorization(request, *internal::ParseIsoTime("2013-05-24T00:00:00Z"));
}

TEST(SigV4, GetObjectWithRange) {
  const std::string value = Sign({.method = "GET",
                                  .path = "/test.txt",
                                  .headers = {{"host", kHost},
                                              {"range", "bytes=0-9"},
                                              {"x-amz-content-sha256", kEmptyHash},
                                              {"x-amz-date", kTime}},
                                  .payload_hash = kEmptyHash});
  EXPECT_EQ(value,
            "AWS4-HMAC-SHA256 "
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;"
            "range;x-amz-content-sha256;x-amz-date,Signature="
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SigV4, PutObject) {
  const std::string hash = HexEncode(Sha256("Welcome to Amazon S3."));
  EXPECT_EQ(hash, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
  const std::string value = Sign({.method = "PUT",
                                  .path = "/" + UrlEncode("test$file.text", "/"),
                                  .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                              {"host", kHost},
                                              {"x-amz-content-sha256", hash},
                                              {"x-amz-date", kTime},
                                              {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                                  .payload_hash = hash});
  EXPECT_THAT(
      value,
      HasSubstr("SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,"));
  EXPECT_THAT(value, EndsWith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(SigV4, QueryParameters) {
  const std::vector<std::pair<std::string, std::string>> headers = {
      {"host", kHost}, {"x-amz-content-sha256", kEmptyHash}, {"x-amz-date", kTime}};
  EXPECT_THAT(Sign({.method = "GET",
                    .path = "/",
                    .query = "lifecycle=",
                    .headers = headers,
                    .payload_hash = kEmptyHash}),
              EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_THAT(Sign({.method = "GET",
                    .path = "/",
                    .query = "max-keys=2&prefix=J",
                    .headers = headers,
                    .payload_hash = kEmptyHash}),
              EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SigV4, TheKeyOfADayIsNotUsedOnAnother) {
  const SigV4Signer signer({.access_key = "a", .secret_key = Secret("b")}, "us-east-1");
  const SigV4Request request{.method = "GET", .path = "/", .payload_hash = kUnsignedPayload};
  const auto day = *internal::ParseIsoTime("2024-02-29T23:59:59Z");
  const std::string first = signer.Authorization(request, day);
  EXPECT_THAT(first, HasSubstr("a/20240229/us-east-1/s3"));
  EXPECT_THAT(signer.Authorization(request, day + std::chrono::seconds(1)),
              HasSubstr("a/20240301/"));
  EXPECT_EQ(signer.Authorization(request, day), first);
}

TEST(Times, AreReadAndWritten) {
  using internal::ParseHttpTime;
  using internal::ParseIsoTime;
  const auto time = ParseIsoTime("2009-10-12T17:50:30.123Z");
  ASSERT_TRUE(time);
  EXPECT_EQ(time->time_since_epoch(), std::chrono::milliseconds(1255369830123));
  EXPECT_EQ(internal::IsoTime(*time), "2009-10-12T17:50:30Z");
  EXPECT_EQ(internal::BasicTime(*time), "20091012T175030Z");
  EXPECT_EQ(ParseHttpTime("Mon, 12 Oct 2009 17:50:30 GMT"), ParseIsoTime("2009-10-12T17:50:30Z"));
  for (const char* bad : {"", "2009-10-12", "2009-13-12T17:50:30Z", "2009-02-30T00:00:00Z",
                          "2009-10-12T24:00:00Z", "2009-10-12T17:50:30", "2009-10-12T17:50:30Zx"}) {
    EXPECT_FALSE(ParseIsoTime(bad)) << bad;
  }
  for (const char* bad : {"", "Mon, 12 Okt 2009 17:50:30 GMT", "Monday, 12-Oct-09 17:50:30 GMT",
                          "Mon, 12 Oct 2009 17:50:30 CET"}) {
    EXPECT_FALSE(ParseHttpTime(bad)) << bad;
  }
}

}  // namespace
}  // namespace paddleop::volume::object
