#include "redis/reply_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/testing/matchers.h"

namespace paddleop::redis {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

// All replies in `bytes`, which must end with a whole one, fed in pieces of `piece` bytes.
Result<std::vector<Reply>> Parse(std::string_view bytes, std::size_t piece = SIZE_MAX,
                                 const ReplyLimits& limits = {}) {
  ReplyParser parser(limits);
  std::vector<Reply> replies;
  while (!bytes.empty()) {
    parser.Feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (Reply reply;;) {
      ASSIGN_OR_RETURN(const bool whole, parser.Next(reply));
      if (!whole) break;
      replies.push_back(std::move(reply));
    }
  }
  if (!parser.idle()) return Fail(Code::kUnavailable, "truncated");
  return replies;
}

TEST(ReplyParserTest, ReadsEveryType) {
  const std::string bytes =
      "+OK\r\n-ERR bad\r\n:-42\r\n$5\r\nhello\r\n$-1\r\n$0\r\n\r\n*-1\r\n*0\r\n"
      "*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n+QUEUED\r\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}, bytes.size()}) {
    const auto replies = Parse(bytes, piece);
    ASSERT_OK(replies);
    const std::vector<Reply> expected = {
        Reply::OfStatus("OK"),
        Reply::OfError("ERR bad"),
        Reply::OfInteger(-42),
        Reply::OfString("hello"),
        Reply(),
        Reply::OfString(""),
        Reply(),
        Reply::OfArray({}),
        Reply::OfArray({Reply::OfInteger(1), Reply::OfArray({Reply::OfString("a"), Reply()}),
                        Reply::OfStatus("QUEUED")}),
    };
    EXPECT_EQ(*replies, expected) << "in pieces of " << piece;
  }
}

TEST(ReplyParserTest, KeepsBinaryBytes) {
  const std::string value = "\0\r\n\xff*$"s;
  const auto replies = Parse("$6\r\n" + value + "\r\n");
  ASSERT_OK(replies);
  EXPECT_EQ(replies->front().text(), value);
}

TEST(ReplyParserTest, RefusesWhatIsNotResp) {
  for (const std::string_view bytes : {
           "HTTP/1.1 400 Bad Request\r\n", "?\r\n", "\r\n", ":12x\r\n", ":\r\n",
           ":9223372036854775808\r\n", "$x\r\n", "$-2\r\nab\r\n",
           "$3\r\nabcde\r\n",  // longer than it says
           "$3\r\nab\r\n\r\n", "*x\r\n", "*-2\r\n", "*4294967296\r\n", "*1\r\n!\r\n",
           "%1\r\n+a\r\n+b\r\n",  // RESP3
       }) {
    EXPECT_CODE(Parse(bytes), Code::kCorrupt) << bytes;
    EXPECT_CODE(Parse(bytes, 1), Code::kCorrupt) << bytes;
  }
}

TEST(ReplyParserTest, WaitsForTruncatedReplies) {
  const std::string_view whole = "*2\r\n$3\r\nabc\r\n*1\r\n:12\r\n";
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_CODE(Parse(whole.substr(0, size)), Code::kUnavailable) << size;
  }
  EXPECT_OK(Parse(whole));
}

TEST(ReplyParserTest, RefusesDeepNesting) {
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes += "*1\r\n";
  const auto replies = Parse(bytes + ":1\r\n");
  ASSERT_CODE(replies, Code::kCorrupt);
  EXPECT_THAT(replies.error().message(), HasSubstr("depth"));
}

TEST(ReplyParserTest, RefusesAStringOverTheLimitBeforeItArrives) {
  const ReplyLimits limits{.max_string_bytes = 100};
  EXPECT_OK(Parse("$100\r\n" + std::string(100, 'x') + "\r\n", SIZE_MAX, limits));
  for (const std::string_view header : {"$101\r\n", "$9223372036854775807\r\n"}) {
    const auto replies = Parse(header, SIZE_MAX, limits);
    ASSERT_CODE(replies, Code::kInvalid);
    EXPECT_THAT(replies.error().message(), HasSubstr("more than we accept"));
  }
  // Nor does it help to arrive at once.
  EXPECT_CODE(Parse("$101\r\n" + std::string(101, 'x') + "\r\n", SIZE_MAX, limits), Code::kInvalid);
}

TEST(ReplyParserTest, RefusesAReplyOverTheLimit) {
  const ReplyLimits limits{.max_reply_bytes = 1000};
  std::string bytes = "*1000000\r\n";
  for (int i = 0; i < 1000; ++i) bytes += ":1\r\n";
  EXPECT_CODE(Parse(bytes, SIZE_MAX, limits), Code::kInvalid);
  // Many small replies are not one large one.
  std::string many;
  for (int i = 0; i < 1000; ++i) many += ":1\r\n";
  EXPECT_OK(Parse(many, SIZE_MAX, limits));
  // A promise costs nothing.
  EXPECT_CODE(Parse("*2147483647\r\n"), Code::kUnavailable);
}

TEST(ReplyParserTest, RefusesAnUnendingLine) {
  const ReplyLimits limits{.max_line_bytes = 1000};
  EXPECT_CODE(Parse("+" + std::string(5000, 'x'), SIZE_MAX, limits), Code::kCorrupt);
  EXPECT_CODE(Parse("+" + std::string(5000, '\r'), 100, limits), Code::kCorrupt);
  EXPECT_CODE(Parse("$" + std::string(5000, '1'), 100, limits), Code::kCorrupt);
  EXPECT_CODE(Parse("*1\r\n-" + std::string(5000, 'x'), 100, limits), Code::kCorrupt);
  for (const std::size_t piece : {std::size_t{100}, SIZE_MAX}) {
    EXPECT_OK(Parse("+" + std::string(1000, 'x') + "\r\n", piece, limits));
    EXPECT_CODE(Parse("+" + std::string(1001, 'x') + "\r\n", piece, limits), Code::kCorrupt);
  }
}

TEST(ReplyParserTest, GivesLongStringsRoomAsTheyArrive) {
  ReplyParser parser;
  parser.Feed("$67108864\r\n");
  Reply reply;
  ASSERT_FALSE(*parser.Next(reply));
  // 64 MiB are promised, but nothing has come yet.
  EXPECT_LE(parser.Room().size(), 64U << 10);
  std::size_t left = (64 << 20) + 2;
  int pieces = 0;
  while (left > 0) {
    const auto room = parser.Room();
    const std::size_t size = std::min(left, room.size());
    std::fill_n(room.begin(), size, 'x');
    if (size == left) room[size - 2] = '\r', room[size - 1] = '\n';
    parser.Commit(size);
    left -= size;
    ++pieces;
    ASSERT_EQ(*parser.Next(reply), left == 0);
  }
  EXPECT_LT(pieces, 20);
  EXPECT_EQ(reply.text().size(), 64U << 20);
  EXPECT_TRUE(parser.idle());
}

}  // namespace
}  // namespace paddleop::redis
