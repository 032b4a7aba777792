#include "standalone/node/endpoint/web_socket_exec.h"

namespace paddleop::standalone::node {
namespace {

constexpr char kCloseStream = '\xff';  // version 5: the stream of the next byte has ended

}  // namespace

Result<void> WebSocketExec::Send(ExecStream stream, std::string_view bytes) {
  std::string message(1, static_cast<char>(stream));
  message += bytes;
  return socket_.Send(message);
}

Result<ExecClient::Input> WebSocketExec::Receive(const Context& ctx) {
  for (;;) {
    ASSIGN_OR_RETURN(const std::string message, socket_.Receive(ctx));
    if (message.empty()) continue;
    const bool ended = message[0] == kCloseStream;
    if (ended && message.size() < 2) continue;
    return Input{.stream = static_cast<ExecStream>(message[ended ? 1 : 0]),
                 .bytes = ended ? "" : message.substr(1),
                 .ended = ended};
  }
}

}  // namespace paddleop::standalone::node
