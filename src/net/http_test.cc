#include "net/http.h"

#include <gtest/gtest.h>

namespace paddleop::net {
namespace {

TEST(HttpHeaders, NamesCompareWithoutCase) {
  HttpHeaders headers{{"Content-Type", "text/plain"}, {"Set-Cookie", "a"}, {"set-cookie", "b"}};
  EXPECT_EQ(headers.Get("content-TYPE"), "text/plain");
  EXPECT_EQ(headers.Get("SET-COOKIE"), "a");
  EXPECT_EQ(headers.Get("Content"), std::nullopt);
}

TEST(HttpHeaders, SetReplacesEveryValueAndAddKeepsThem) {
  HttpHeaders headers;
  EXPECT_TRUE(headers.empty());
  headers.Add("Accept", "a");
  headers.Add("accept", "b");
  EXPECT_EQ(std::distance(headers.begin(), headers.end()), 2);
  headers.Set("ACCEPT", "c");
  EXPECT_EQ(std::distance(headers.begin(), headers.end()), 1);
  EXPECT_EQ(headers.Get("accept"), "c");
}

TEST(StatusOfHttp, TheCodeTellsWhatTheCallerCanDo) {
  EXPECT_EQ(StatusOfHttp(404, "get pod").code(), Code::kNotFound);
  EXPECT_EQ(StatusOfHttp(409, "x").code(), Code::kConflict);
  EXPECT_EQ(StatusOfHttp(401, "x").code(), Code::kPermission);
  EXPECT_EQ(StatusOfHttp(403, "x").code(), Code::kPermission);
  for (const int status : {408, 429, 500, 502, 503, 504, 599}) {
    EXPECT_EQ(StatusOfHttp(status, "x").code(), Code::kUnavailable) << status;
  }
  EXPECT_EQ(StatusOfHttp(418, "x").code(), Code::kInvalid);
  EXPECT_EQ(StatusOfHttp(404, "get pod").message(), "get pod: HTTP 404 Not Found");
  EXPECT_EQ(StatusOfHttp(299, "x").message(), "x: HTTP 299");
}

}  // namespace
}  // namespace paddleop::net
