#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "net/http_server.h"
#include "standalone/node/endpoint/exec_client.h"
#include "standalone/node/endpoint/spdy_frame.h"

namespace paddleop::standalone::node {

// The protocol of exec over SPDY: each stream of the command is one of SPDY's, and says which by
// its header "streamtype".
inline constexpr char kSpdyExecProtocol[] = "v4.channel.k8s.io";

// The headers of a 101 answer, or nullopt if the request asks for no SPDY that we speak.
std::optional<net::HttpHeaders> AcceptSpdy(const net::ServerRequest& request);

class SpdyExec final : public ExecClient {
 public:
  explicit SpdyExec(std::shared_ptr<net::UpgradedConnection> connection)
      : connection_(std::move(connection)) {}

  // Waits until the client has opened these streams, which is the first thing it does.
  Result<void> WaitFor(const Context& ctx, const std::set<ExecStream>& streams);

  // What is sent on a stream that the client has not opened is dropped.
  Result<void> Send(ExecStream stream, std::string_view bytes) override;
  Result<Input> Receive(const Context& ctx) override;
  void Close() override;

 private:
  // Reads until something has come; it may be for us alone.
  Result<void> ReadSome(const Context& ctx);
  Result<void> Take(SpdyFrame frame);
  Result<void> Open(const SpdyFrame& frame);

  std::shared_ptr<net::UpgradedConnection> connection_;
  SpdyParser parser_;
  std::deque<Input> received_;
  Mutex mutex_;
  SpdyWriter writer_ GUARDED_BY(mutex_);
  std::map<ExecStream, std::uint32_t> streams_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::standalone::node
