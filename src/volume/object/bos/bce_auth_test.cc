#include "volume/object/bos/bce_auth.h"

#include <gtest/gtest.h>

namespace paddleop::volume::object {
namespace {

// Values that the official Python SDK (bce-python-sdk 0.9.79) gives for the same requests.
std::chrono::system_clock::time_point At(std::int64_t seconds) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(seconds));
}

TEST(BceAuth, SignsAListing) {
  const BceRequest request{
      .method = "GET",
      .path = "/my-bucket",
      .query = {{"prefix", "train/"}, {"maxKeys", "1000"}, {"delimiter", ""}},
      .headers = {{"Host", "127.0.0.1:8080"}, {"x-bce-date", "2021-11-08T12:00:00Z"}}};
  EXPECT_EQ(BceCanonicalRequest(request),
            "GET\n/my-bucket\ndelimiter=&maxKeys=1000&prefix=train%2F\nhost:127.0.0.1%3A8080\n"
            "x-bce-date:2021-11-08T12%3A00%3A00Z");
  EXPECT_EQ(
      BceAuthorization({.access_key = "AKIDTEST0001", .secret_key = Secret("sk-0123456789abcdef")},
                       request, At(1636372800), 1800, false),
      "bce-auth-v1/AKIDTEST0001/2021-11-08T12:00:00Z/1800//"
      "20250825eb1505f1dedb03ff5d74e8d43c90671c228e96dca689e3fab0148691");
}

TEST(BceAuth, SignsAnUploadWithAwkwardNames) {
  const BceRequest request{.method = "PUT",
                           .path = "/my-bucket/\xe5\x9b\xbe\xe7\x89\x87/a b+c~1.jpg",
                           .headers = {{"Host", "my-bucket.bj.example.com"},
                                       {"Content-Type", "image/jpeg"},
                                       {"Content-Length", "11"},
                                       {"Content-MD5", "XrY7u+Ae7tCTyyK7j1rNww=="},
                                       {"x-bce-date", "2021-11-08T12:00:00Z"},
                                       {"x-bce-meta-k", " v 1 "},
                                       {"x-bce-empty", " "}}};
  EXPECT_EQ(
      BceCanonicalRequest(request),
      "PUT\n/my-bucket/%E5%9B%BE%E7%89%87/a%20b%2Bc~1.jpg\n\ncontent-length:11\n"
      "content-md5:XrY7u%2BAe7tCTyyK7j1rNww%3D%3D\ncontent-type:image%2Fjpeg\n"
      "host:my-bucket.bj.example.com\nx-bce-date:2021-11-08T12%3A00%3A00Z\nx-bce-meta-k:v%201");
  EXPECT_EQ(
      BceAuthorization({.access_key = "AKIDTEST0001", .secret_key = Secret("sk-0123456789abcdef")},
                       request, At(1636372800), 3600, false),
      "bce-auth-v1/AKIDTEST0001/2021-11-08T12:00:00Z/3600//"
      "536a25b6d60cc77c32a2ba57f28f82285c873fa6606b2fc3c65df538ec34c421");
}

TEST(BceAuth, NamesTheHeadersItSigned) {
  const BceRequest request{
      .method = "GET",
      .path = "/b/dir/obj%20",
      .query = {{"partNumber", "9"},
                {"uploadId", "a44cc9bab11cbd156984767aad637851"},
                {"acl", ""},
                {"Authorization", "left out"}},
      .headers = {{"x-bce-date", "2015-04-27T08:23:49Z"}, {"Host", "h.example:9000"}}};
  EXPECT_EQ(
      BceAuthorization({.access_key = "AKIDTEST0002", .secret_key = Secret("secret/with+chars=")},
                       request, At(1430123029), 1800, true),
      "bce-auth-v1/AKIDTEST0002/2015-04-27T08:23:49Z/1800/host;x-bce-date/"
      "1f4c098f3bcc0d53b7eec5d8a2f92951c2e2ff3fc6e635df63718b4200b5ad87");
}

}  // namespace
}  // namespace paddleop::volume::object
