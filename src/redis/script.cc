#include "redis/script.h"

#include <vector>

#include "base/crypto.h"

namespace paddleop::redis {

Script::Script(std::string source)
    : source_(std::move(source)), digest_(HexEncode(Sha1(source_))) {}

Result<Reply> Script::Run(const Context& ctx, Connection& connection,
                          std::span<const std::string_view> keys, Args args) const {
  std::vector<Arg> command = {"EVALSHA", digest_, keys.size()};
  command.insert(command.end(), keys.begin(), keys.end());
  command.insert(command.end(), args.begin(), args.end());
  ASSIGN_OR_RETURN(Reply reply, connection.CallForReply(ctx, command));
  if (reply.is_error() && reply.text().starts_with("NOSCRIPT")) {
    // EVAL also makes the server remember it.
    command[0] = "EVAL";
    command[1] = source_;
    return connection.Call(ctx, command);
  }
  if (reply.is_error()) return std::unexpected(connection.ErrorOf(reply));
  return reply;
}

Result<Reply> Script::Run(const Context& ctx, Pool& pool, std::span<const std::string_view> keys,
                          Args args, Repeat repeat) const {
  return pool.Do(
      ctx, [&](Connection& connection) { return Run(ctx, connection, keys, args); }, repeat);
}

Result<void> Script::Load(const Context& ctx, Connection& connection) const {
  RETURN_IF_ERROR(connection.Call(ctx, {"SCRIPT", "LOAD", source_}));
  return {};
}

}  // namespace paddleop::redis
