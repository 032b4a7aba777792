#include "net/internal/request_reader.h"

#include <gtest/gtest.h>

#include <random>

namespace paddleop::net::internal {
namespace {

using Step = RequestReader::Step;

constexpr std::size_t kHeaderLimit = 1024;
constexpr std::size_t kBodyLimit = 100;

class RequestReaderTest : public ::testing::Test {
 protected:
  Step Feed(std::string_view bytes) {
    reader_.Append(bytes);
    return reader_.Advance();
  }
  // The refusal of bytes that are no request.
  int StatusOf(std::string_view bytes) {
    RequestReader reader(kHeaderLimit, kBodyLimit);
    reader.Append(bytes);
    return reader.Advance() == Step::kRefused ? reader.refusal().status : 0;
  }

  RequestReader reader_{kHeaderLimit, kBodyLimit};
};

TEST_F(RequestReaderTest, ReadsARequest) {
  ASSERT_EQ(Feed("GET /a%20b/c?x=1&y=%2f HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n\r\n"), Step::kRequest);
  const auto message = reader_.Take();
  EXPECT_EQ(message.request.method, "GET");
  EXPECT_EQ(message.request.target, "/a%20b/c?x=1&y=%2f");
  EXPECT_EQ(message.request.path, "/a b/c");
  EXPECT_EQ(message.request.query, "x=1&y=%2f");
  EXPECT_EQ(message.request.Query("y"), "/");
  EXPECT_EQ(message.request.Query("z"), std::nullopt);
  EXPECT_EQ(message.request.headers.Get("x-a"), "1");
  EXPECT_TRUE(message.keep_alive);
  EXPECT_EQ(reader_.phase(), RequestReader::Phase::kIdle);
}

TEST_F(RequestReaderTest, PhasesFollowTheRequest) {
  EXPECT_EQ(reader_.phase(), RequestReader::Phase::kIdle);
  EXPECT_EQ(Feed("POST / HT"), Step::kNeedMore);
  EXPECT_EQ(reader_.phase(), RequestReader::Phase::kHeader);
  EXPECT_EQ(Feed("TP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"), Step::kNeedMore);
  EXPECT_EQ(reader_.phase(), RequestReader::Phase::kBody);
  EXPECT_EQ(Feed("ab"), Step::kNeedMore);
  EXPECT_EQ(Feed("cd"), Step::kRequest);
  EXPECT_EQ(reader_.Take().request.body, "abcd");
}

TEST_F(RequestReaderTest, RequestsMayComeOneBehindTheOther) {
  const std::string two =
      "POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
      "\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\ncd\r\n1;ext=1\r\ne\r\n0\r\nTrailer: x\r\n\r\n"
      "GET /3 HTTP/1.0\r\n\r\n";
  ASSERT_EQ(Feed(two), Step::kRequest);
  EXPECT_EQ(reader_.Take().request.body, "ab");
  ASSERT_EQ(reader_.Advance(), Step::kRequest);
  const auto second = reader_.Take();
  EXPECT_EQ(second.request.path, "/2");
  EXPECT_EQ(second.request.body, "cde");
  ASSERT_EQ(reader_.Advance(), Step::kRequest);
  const auto third = reader_.Take();
  EXPECT_FALSE(third.keep_alive);
  EXPECT_TRUE(third.http_1_0);
  EXPECT_EQ(reader_.Advance(), Step::kNeedMore);
}

TEST_F(RequestReaderTest, ThePiecesDoNotMatter) {
  const std::string text =
      "PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n5\r\ndefgh\r\n0\r\n\r\n"
      "\r\nGET /y HTTP/1.1\r\nHost: h\r\n\r\n\r\n";
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::minstd_rand random(seed);
  for (int round = 0; round < 200; ++round) {
    RequestReader reader(kHeaderLimit, kBodyLimit);
    std::vector<ServerRequest> requests;
    std::string_view rest = text;
    while (!rest.empty()) {
      const auto piece = std::min<std::size_t>(1 + random() % 20, rest.size());
      reader.Append(rest.substr(0, piece));
      rest.remove_prefix(piece);
      for (Step step; (step = reader.Advance()) != Step::kNeedMore;) {
        ASSERT_EQ(step, Step::kRequest) << reader.refusal().why;
        requests.push_back(reader.Take().request);
      }
    }
    ASSERT_EQ(requests.size(), 2u);
    EXPECT_EQ(requests[0].body, "abcdefgh");
    EXPECT_EQ(requests[1].path, "/y");
  }
}

TEST_F(RequestReaderTest, ExpectContinueIsToldOnce) {
  const std::string head =
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(Feed(head), Step::kExpectContinue);
  EXPECT_EQ(reader_.Advance(), Step::kNeedMore);
  EXPECT_EQ(Feed("ab"), Step::kRequest);
  reader_.Take();
  EXPECT_EQ(Feed(head + "ab"), Step::kRequest);  // it did not wait
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\nContent-Length: 2\r\n\r\n"),
            417);
}

TEST_F(RequestReaderTest, TheHeaderLimitIsExactHoweverItIsCut) {
  for (const std::size_t over : {0U, 1U}) {
    std::string text = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
    text += std::string(kHeaderLimit + over - text.size() - 4, 'x') + "\r\n\r\n";
    for (const std::size_t piece : {1U, 7U, 100U, 5000U}) {
      RequestReader reader(kHeaderLimit, kBodyLimit);
      Step step = Step::kNeedMore;
      for (std::size_t at = 0; at < text.size() && step == Step::kNeedMore; at += piece) {
        reader.Append(std::string_view(text).substr(at, piece));
        step = reader.Advance();
      }
      EXPECT_EQ(step, over == 0 ? Step::kRequest : Step::kRefused) << over << " " << piece;
    }
  }
}

TEST_F(RequestReaderTest, LimitsAreRefused) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(kHeaderLimit, 'x')), 431);
  EXPECT_EQ(StatusOf("GET /" + std::string(2 * kHeaderLimit, 'x')), 431);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n"), 413);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: "
                     "101\r\n\r\n"),
            413);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" +
                     std::string(101, 'x')),
            413);
}

TEST_F(RequestReaderTest, MalformedRequestsAreRefused) {
  for (const std::string text : {
           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello",
           "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
           "GET\r\n\r\n",
           "GET / HTTP/1.1\nHost: h\n\n",
           "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET / HTTP/1.1\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: h\r\nA\x01: b\r\n\r\n",
           "GET x HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET http://h HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET /#f HTTP/1.1\r\nHost: h\r\n\r\n",
           "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
       }) {
    EXPECT_EQ(StatusOf(text), 400) << text;
  }
}

TEST_F(RequestReaderTest, OtherFormsOfTheTargetAreUnderstood) {
  ASSERT_EQ(Feed("GET http://host:80/p?q HTTP/1.1\r\nHost: h\r\n\r\n"), Step::kRequest);
  const auto absolute = reader_.Take();
  EXPECT_EQ(absolute.request.path, "/p");
  EXPECT_EQ(absolute.request.query, "q");
  ASSERT_EQ(Feed("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), Step::kRequest);
  EXPECT_EQ(reader_.Take().request.path, "*");
}

}  // namespace
}  // namespace paddleop::net::internal
