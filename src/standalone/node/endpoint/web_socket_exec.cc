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
    // Not moved out: g++ 12 then warns of bytes that nobody reads.
    const auto message = socket_.Receive(ctx);
    if (!message) return std::unexpected(message.error());
    std::string_view rest = *message;
    const bool ended = rest.starts_with(kCloseStream);
    if (ended) rest.remove_prefix(1);
    if (rest.empty()) continue;
    return Input{.stream = static_cast<ExecStream>(rest.front()),
                 .bytes = ended ? "" : std::string(rest.substr(1)),
                 .ended = ended};
  }
}

}  // namespace paddleop::standalone::node
