#pragma once

#include <span>
#include <string>
#include <string_view>

#include "redis/connection.h"
#include "redis/pool.h"

namespace paddleop::redis {

// A Lua script that runs on the server, sent by its digest and in full only to a server that does
// not know it (yet, or any more: restarts and SCRIPT FLUSH forget).
//
// Immutable, so thread-safe.
class Script {
 public:
  explicit Script(std::string source);

  // The script's reply; an error it returns or raises is an error. Keys are KEYS, the rest is ARGV.
  Result<Reply> Run(const Context& ctx, Connection& connection,
                    std::span<const std::string_view> keys, Args args) const;
  // On any connection; `repeat` as for Pool::Call.
  Result<Reply> Run(const Context& ctx, Pool& pool, std::span<const std::string_view> keys,
                    Args args, Repeat repeat = Repeat::kIfNotExecuted) const;

  // Makes the server know the script, for EVALSHA in a batch or a transaction.
  Result<void> Load(const Context& ctx, Connection& connection) const;
  // Forty hexadecimal digits.
  const std::string& digest() const { return digest_; }

 private:
  std::string source_;
  std::string digest_;
};

}  // namespace paddleop::redis
