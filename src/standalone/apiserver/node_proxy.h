#pragma once

#include <memory>
#include <string>

#include "base/context.h"
#include "base/secret.h"
#include "base/thread_pool.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/session_limit.h"
#include "standalone/apiserver/api_error.h"
#include "standalone/apiserver/store.h"

namespace paddleop::standalone::apiserver {

// Hands requests about what happens inside a pod (logs, exec, attach) on to the agent of its node,
// at the address and port that the Node's status says: /containerLogs, /exec and /attach over
// HTTPS, as a kubelet has them. Exec and attach are WebSockets, or SPDY for older clients; their
// bytes pass unread.
//
// Thread-safe.
class NodeProxy {
 public:
  // `token` is what nodes know us by.
  static Result<std::unique_ptr<NodeProxy>> Create(Store& store, Secret token);
  ~NodeProxy();

  Answer<net::ServerResponse> Logs(const Context& ctx, const net::ServerRequest& request,
                                   const StoredObject& pod);
  // `verb` is "exec" or "attach".
  Answer<net::ServerResponse> Exec(const Context& ctx, const net::ServerRequest& request,
                                   const StoredObject& pod, const std::string& verb);
  // Tells what is under way to end; the destructor waits for it.
  void Stop();

 private:
  struct Target {
    std::string host;
    std::uint16_t port = 0;
    std::string container;
  };
  struct LogCopy;
  struct Relay;

  NodeProxy(Store& store, Secret token, std::unique_ptr<net::HttpClient> client);
  Answer<Target> Find(const StoredObject& pod, const std::string& container) const;

  Store& store_;
  const Secret token_;
  std::unique_ptr<net::HttpClient> client_;
  std::stop_source stop_;
  const net::SessionLimit limit_;
  ThreadPool pool_;
};

}  // namespace paddleop::standalone::apiserver
