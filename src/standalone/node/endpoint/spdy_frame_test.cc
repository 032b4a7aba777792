#include "standalone/node/endpoint/spdy_frame.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "base/testing/matchers.h"
#include "standalone/node/endpoint/spdy_dictionary.h"

namespace paddleop::standalone::node {
namespace {

using Type = SpdyFrame::Type;
using ::testing::HasSubstr;

TEST(SpdyDictionaryTest, IsTheOneOfVersion3) {
  const std::string& text = SpdyDictionary();
  EXPECT_EQ(text.size(), 1423U);
  EXPECT_EQ(
      ::adler32(1, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())),
      0xe3c6a7c2UL);
}

std::vector<SpdyFrame> ParseAll(const std::string& bytes, std::size_t piece) {
  SpdyParser parser;
  std::vector<SpdyFrame> out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    parser.Feed(std::string_view(bytes).substr(at, piece));
    for (;;) {
      auto frame = parser.Next();
      EXPECT_OK(frame);
      if (!frame || !*frame) break;
      out.push_back(**std::move(frame));
    }
  }
  return out;
}

TEST(SpdyFrameTest, FramesComeBackHoweverTheyAreCut) {
  SpdyWriter writer;
  // One after the other: each header block builds on those before it.
  std::string bytes = writer.SynStream(1, {{"streamtype", "error"}}, false);
  bytes += writer.SynStream(3, {{"streamtype", "stdin"}, {"x", std::string(3000, 'y')}}, true);
  bytes += writer.SynReply(5);
  bytes += SpdyWriter::Data(3, "some input", false) + SpdyWriter::Data(3, "", true);
  bytes += SpdyWriter::Ping(7) + SpdyWriter::RstStream(3, 5) + SpdyWriter::GoAway(3);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    const auto frames = ParseAll(bytes, piece);
    ASSERT_EQ(frames.size(), 8U);
    EXPECT_EQ(frames[0].type, Type::kSynStream);
    EXPECT_EQ(frames[0].headers.at("streamtype"), "error");
    EXPECT_FALSE(frames[0].last);
    EXPECT_EQ(frames[1].stream, 3U);
    EXPECT_EQ(frames[1].headers.at("x").size(), 3000U);
    EXPECT_TRUE(frames[1].last);
    EXPECT_EQ(frames[2].type, Type::kSynReply);
    EXPECT_TRUE(frames[2].headers.empty());
    EXPECT_EQ(frames[3].type, Type::kData);
    EXPECT_EQ(frames[3].payload, "some input");
    EXPECT_TRUE(frames[4].last);
    EXPECT_EQ(frames[5].type, Type::kPing);
    EXPECT_EQ(frames[5].stream, 7U);
    EXPECT_EQ(frames[6].type, Type::kRstStream);
    EXPECT_EQ(frames[7].type, Type::kGoAway);
  }
}

Status Refused(const std::string& bytes) {
  SpdyParser parser;
  parser.Feed(bytes);
  const auto frame = parser.Next();
  EXPECT_CODE(frame, Code::kInvalid);
  return frame ? Status(Code::kInternal, "") : frame.error();
}

TEST(SpdyFrameTest, WhatIsNoSpdyIsRefused) {
  using namespace std::string_literals;
  EXPECT_THAT(Refused("\x80\x02\0\x01\0\0\0\0"s).message(), HasSubstr("version"));
  EXPECT_THAT(Refused("\x80\x03\0\x01\0\xff\xff\xff"s).message(), HasSubstr("too long"));
  EXPECT_THAT(Refused("\0\0\0\x01\0\xff\xff\xff"s).message(), HasSubstr("too long"));
  EXPECT_THAT(Refused("\x80\x03\0\x06\0\0\0\x02\0\0"s).message(), HasSubstr("too short"));
  EXPECT_THAT(Refused("\x80\x03\0\x02\0\0\0\x08\0\0\0\x01----"s).message(),
              HasSubstr("decompressed"));
}

TEST(SpdyFrameTest, HeadersThatGrowTooLongAreRefused) {
  SpdyWriter writer;
  const std::string bytes = writer.SynStream(1, {{"x", std::string(1 << 20, 'y')}}, false);
  ASSERT_LT(bytes.size(), 10'000U);
  EXPECT_THAT(Refused(bytes).message(), HasSubstr("headers are too long"));
}

}  // namespace
}  // namespace paddleop::standalone::node
