#include <fmt/format.h>

#include <iostream>

#include "api_client.h"
#include "base/crypto.h"

namespace paddleop::cmd {
namespace {

Result<void> Logs(const ClientFlags& flags) {
  const Context ctx = Context::Background();
  ASSIGN_OR_RETURN(auto client, ApiClient::Connect(flags));
  std::string pod = flags.words[0];
  if (pod.starts_with("pod/")) pod.erase(0, 4);
  std::string target =
      fmt::format("/api/v1/namespaces/{}/pods/{}/log?follow={}&previous={}",
                  UrlEncode(client->ns()), UrlEncode(pod), flags.follow, flags.previous);
  if (!flags.container.empty()) target += "&container=" + UrlEncode(flags.container);
  if (flags.tail >= 0) target += fmt::format("&tailLines={}", flags.tail);
  return client->Stream(ctx, {.target = target, .accept = "*/*"},
                        [](std::string_view piece) -> Result<void> {
                          std::cout << piece << std::flush;
                          if (!std::cout)
                            return Fail(Code::kCancelled, "standard output is closed");
                          return {};
                        });
}

}  // namespace

int RunLogs(const ClientFlags& flags) {
  const auto done = Logs(flags);
  return done ? 0 : ClientFailed("logs", done.error());
}

}  // namespace paddleop::cmd
