#include "kube/wire/watch_event.h"

#include <gmock/gmock.h>

#include "base/testing/matchers.h"

namespace paddleop::kube {
namespace {

TEST(ParseWatchEvent, ReadsEveryType) {
  auto added = ParseWatchEvent(R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})");
  ASSERT_OK(added);
  EXPECT_EQ(added->type, WatchEventType::kAdded);
  EXPECT_EQ(added->object.name, "a");
  // The order of fields is the server's affair.
  auto bookmark = ParseWatchEvent(
      R"({"object":{"kind":"Pod","metadata":{"resourceVersion":"77"}},"type":"BOOKMARK"})");
  ASSERT_OK(bookmark);
  EXPECT_EQ(bookmark->type, WatchEventType::kBookmark);
  EXPECT_EQ(bookmark->object.resource_version, "77");
}

TEST(ParseWatchEvent, AnErrorEventIsTheErrorItCarries) {
  const auto event = ParseWatchEvent(
      R"({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},
          "status":"Failure","message":"too old resource version","reason":"Expired","code":410}
})");
  EXPECT_CODE(event, Code::kExpired);
  EXPECT_CODE(ParseWatchEvent(R"({"type":"ERROR","object":{"kind":"Status","code":500}})"),
              Code::kUnavailable);
}

TEST(ParseWatchEvent, RefusesNonsense) {
  EXPECT_CODE(ParseWatchEvent("{"), Code::kInvalid);
  EXPECT_CODE(ParseWatchEvent(R"({"type":"ADDED"})"), Code::kInvalid);
  EXPECT_CODE(ParseWatchEvent(R"({"type":"SEEN","object":{}})"), Code::kInvalid);
}

TEST(LineSplitter, DoesNotCareHowPiecesFall) {
  const std::string stream = "{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}\nrest";
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    LineSplitter splitter;
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < stream.size(); at += size) {
      ASSERT_OK(splitter.Feed(std::string_view(stream).substr(at, size),
                              [&](std::string_view line) -> Result<void> {
                                lines.emplace_back(line.substr(0, line.find('\r')));
                                return {};
                              }));
    }
    EXPECT_THAT(lines, ::testing::ElementsAre("{\"a\":1}", "{\"b\":2}", "{\"c\":3}")) << size;
    EXPECT_EQ(splitter.pending(), 4u);
  }
}

TEST(LineSplitter, StopsAtErrorsAndLimits) {
  LineSplitter splitter(8);
  const auto refuse = [](std::string_view) -> Result<void> { return Fail(Code::kCancelled, "x"); };
  const auto take = [](std::string_view) -> Result<void> { return {}; };
  EXPECT_CODE(splitter.Feed("a\nb\n", refuse), Code::kCancelled);
  EXPECT_OK(splitter.Feed("12345678\n", take));
  EXPECT_CODE(splitter.Feed("123456789\n", take), Code::kInvalid);
  EXPECT_CODE(LineSplitter(8).Feed("123456789", take), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::kube
