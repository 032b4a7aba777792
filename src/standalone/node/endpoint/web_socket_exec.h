#pragma once

#include <memory>
#include <string>
#include <vector>

#include "standalone/node/endpoint/exec_client.h"
#include "standalone/node/endpoint/web_socket.h"

namespace paddleop::standalone::node {

// The protocols of `kubectl exec` over a WebSocket: the first byte of each message is its stream.
inline const std::vector<std::string> kExecProtocols = {"v5.channel.k8s.io", "v4.channel.k8s.io"};

class WebSocketExec final : public ExecClient {
 public:
  explicit WebSocketExec(std::shared_ptr<net::UpgradedConnection> connection)
      : socket_(std::move(connection)) {}

  Result<void> Send(ExecStream stream, std::string_view bytes) override;
  Result<Input> Receive(const Context& ctx) override;
  void Close() override { socket_.Close(); }

 private:
  WebSocket socket_;
};

}  // namespace paddleop::standalone::node
