#include "redis/error.h"

#include <array>

namespace paddleop::redis {
namespace {

struct Known {
  std::string_view prefix;
  Code code;
  bool reconnect;
  std::string_view advice;
};

constexpr std::string_view kCluster =
    "Redis Cluster is not supported yet; use a standalone primary";

// The error codes of Redis 7 that a client can meet; the first match counts.
constexpr std::array kKnown = std::to_array<Known>({
    {"LOADING", Code::kUnavailable, true, "it has just started; try again later"},
    {"READONLY", Code::kUnavailable, true, "it is a replica; connect to the primary"},
    {"MASTERDOWN", Code::kUnavailable, true, "it is a replica that has lost its primary"},
    {"NOREPLICAS", Code::kUnavailable, false, "it has too few replicas to accept writes"},
    {"BUSY ", Code::kUnavailable, false, "a script has been running there for too long"},
    {"MISCONF", Code::kUnavailable, false, "it cannot save its data; see its log and its disk"},
    {"UNBLOCKED", Code::kUnavailable, true, ""},
    {"ERR max number of clients reached", Code::kUnavailable, true,
     "raise its maxclients or use fewer connections"},
    {"OOM", Code::kNoSpace, false, "raise its maxmemory or delete data"},
    {"NOAUTH", Code::kPermission, false, "it wants a password and none was given"},
    {"WRONGPASS", Code::kPermission, false, "check the user and the password"},
    {"ERR invalid password", Code::kPermission, false, "check the password"},
    {"NOPERM", Code::kPermission, false, "grant the user this command and these keys"},
    {"DENIED", Code::kPermission, false,
     "it is in protected mode: give it a password or a bind address"},
    {"MOVED", Code::kNotSupported, false, kCluster},
    {"ASK ", Code::kNotSupported, false, kCluster},
    {"CROSSSLOT", Code::kNotSupported, false, kCluster},
    {"CLUSTERDOWN", Code::kNotSupported, false, kCluster},
    {"TRYAGAIN", Code::kNotSupported, false, kCluster},
    {"NOSCRIPT", Code::kNotFound, false, ""},
    {"ERR unknown command", Code::kNotSupported, false,
     "a newer server is needed, or the command has been disabled"},
    {"ERR unknown subcommand", Code::kNotSupported, false, "a newer server is needed"},
});

// An EXEC that is refused itself, not for a command before it, has the reason behind this.
constexpr std::string_view kExecRefused = "EXECABORT Transaction discarded because of: ";

const Known* Find(std::string_view text) {
  if (text.starts_with(kExecRefused)) text.remove_prefix(kExecRefused.size());
  for (const Known& known : kKnown) {
    if (text.starts_with(known.prefix)) return &known;
  }
  return nullptr;
}

// Error replies may quote arguments of any length.
constexpr std::size_t kMaxQuoted = 400;

}  // namespace

Status StatusOfError(std::string_view address, std::string_view text) {
  const Known* const known = Find(text);
  std::string message = fmt::format("redis {}: {}", address, text.substr(0, kMaxQuoted));
  if (text.size() > kMaxQuoted) message += "...";
  if (known == nullptr) return Status(Code::kInvalid, std::move(message));
  if (!known->advice.empty()) message += fmt::format(" ({})", known->advice);
  return Status(known->code, std::move(message));
}

bool AsksForAnotherConnection(std::string_view text) {
  const Known* const known = Find(text);
  return known != nullptr && known->reconnect;
}

}  // namespace paddleop::redis
