#include "standalone/node/endpoint/web_socket.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "standalone/node/endpoint/exec_session.h"
#include "standalone/node/endpoint/web_socket_exec.h"

namespace paddleop::standalone::node {
namespace {

TEST(WebSocket, AnswersTheExampleOfTheStandard) {
  // RFC 6455, section 1.3.
  EXPECT_EQ(WebSocketAccept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  net::ServerRequest request;
  request.headers = {{"Upgrade", "WebSocket"},
                     {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
                     {"Sec-WebSocket-Protocol", "v4.channel.k8s.io, v5.channel.k8s.io"}};
  const auto headers = AcceptWebSocket(request, kExecProtocols);
  ASSERT_TRUE(headers);
  EXPECT_EQ(headers->Get("Sec-WebSocket-Protocol"), "v5.channel.k8s.io");
  EXPECT_FALSE(AcceptWebSocket(request, {"another"}));
}

TEST(WebSocket, CutsFramesHoweverTheyFall) {
  // RFC 6455, section 5.7: a masked "Hello".
  const std::string hello = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
  WebSocketParser parser(1000);
  for (std::size_t i = 0; i + 1 < hello.size(); ++i) {
    parser.Feed(std::string_view(hello).substr(i, 1));
    const auto frame = parser.Next();
    ASSERT_OK(frame);
    EXPECT_FALSE(*frame);
  }
  parser.Feed(std::string_view(hello).substr(hello.size() - 1));
  const auto frame = parser.Next();
  ASSERT_OK(frame);
  ASSERT_TRUE(*frame);
  EXPECT_EQ((*frame)->payload, "Hello");
  EXPECT_TRUE((*frame)->last);
}

TEST(WebSocket, RefusesWhatTheStandardForbids) {
  WebSocketParser bare(1000);
  bare.Feed(EncodeFrame(WebSocketFrame::Kind::kText, "not masked"));
  EXPECT_CODE(bare.Next(), Code::kInvalid);
  WebSocketParser large(10);
  large.Feed(std::string("\x82\xfe\x10\x00\x00\x00\x00\x00", 8));
  EXPECT_CODE(large.Next(), Code::kInvalid);
}

TEST(WebSocket, EncodesAllSizes) {
  EXPECT_EQ(EncodeFrame(WebSocketFrame::Kind::kBinary, "ab"),
            "\x82\x02"
            "ab");
  EXPECT_EQ(EncodeFrame(WebSocketFrame::Kind::kBinary, std::string(300, 'x')).size(), 304u);
  EXPECT_EQ(EncodeFrame(WebSocketFrame::Kind::kBinary, std::string(70'000, 'x')).size(), 70'010u);
}

TEST(ExecStatus, CarriesTheExitCode) {
  EXPECT_NE(ExecStatus(0).find("Success"), std::string::npos);
  EXPECT_NE(ExecStatus(3).find(R"("message":"3","reason":"ExitCode")"), std::string::npos);
}

}  // namespace
}  // namespace paddleop::standalone::node
