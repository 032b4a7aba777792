#pragma once

#include <memory>
#include <string>

#include "base/context.h"
#include "standalone/node/endpoint/web_socket.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {

// The protocols of `kubectl exec`: the first byte of each message is a channel.
inline const std::vector<std::string> kExecProtocols = {"v5.channel.k8s.io", "v4.channel.k8s.io"};

// Runs the command in the container and connects its streams with the client's, until it ends or
// the client goes. `input`: the client has a standard input to send.
void RunExecSession(const Context& ctx, const std::string& program, const ExecSpec& spec,
                    bool input, WebSocket& socket);

// What the error channel tells in the end: a metav1.Status.
std::string ExecStatus(int exit_code);

}  // namespace paddleop::standalone::node
