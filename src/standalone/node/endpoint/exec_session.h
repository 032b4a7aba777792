#pragma once

#include <string>

#include "base/context.h"
#include "standalone/node/endpoint/exec_client.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {

// Runs the command in the container and connects its streams with the client's, until it ends or
// the client goes. `input`: the client has a standard input to send.
void RunExecSession(const Context& ctx, const std::string& program, const ExecSpec& spec,
                    bool input, ExecClient& client);

// What the error stream tells in the end: a metav1.Status.
std::string ExecStatus(int exit_code);

}  // namespace paddleop::standalone::node
