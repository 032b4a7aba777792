#include "volume/meta/redis/redis_engine.h"

#include <utility>

#include "base/posix.h"
#include "redis/url.h"
#include "volume/format/codec.h"
#include "volume/meta/redis/redis_reads.h"
#include "volume/meta/redis/redis_txn.h"

namespace paddleop::volume {
namespace {

// For callers without a deadline: others may change the same keys for ever.
constexpr std::chrono::seconds kLongestTransaction(120);
constexpr std::size_t kMaxCounted = 1 << 16;

// KEYS: the directory. ARGV: the name, and what comes before an inode in the key of its attributes.
// Numbers are doubles here, so attributes of very large inodes (the trash) are left to the caller.
constexpr const char* kFindScript = R"(
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry then return false end
if #entry ~= 9 or entry:byte(2) > 0 or entry:byte(3) > 0 then return {entry} end
local ino = 0
for i = 4, 9 do ino = ino * 256 + entry:byte(i) end
return {entry, redis.call('GET', ARGV[2] .. string.format('%.0f', ino))}
)";

// Where the official client looks for a password that neither URL nor REDIS_PASSWORD has.
Result<Secret> PasswordFromEnvironment() {
  if (std::string password = GetEnv("META_PASSWORD"); !password.empty()) {
    return Secret(std::move(password));
  }
  const std::string file = GetEnv("META_PASSWORD_FILE");
  if (file.empty()) return Secret();
  auto text = ReadFile(file);
  if (!text) return std::unexpected(std::move(text).error().Wrap("META_PASSWORD_FILE"));
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  return Secret(*std::move(text));
}

// An error of a commit, by what the contract of MetaEngine lets it mean.
Status CommitError(const Status& error) {
  if (!error.maybe_done()) return error;
  // A command that cannot work was among those executed: the volume is not what it should be.
  if (error.code() == Code::kInvalid) return AsDamage(error);
  return Status(Code::kUnavailable, error.message()).MarkMaybeDone();
}

}  // namespace

Result<std::unique_ptr<RedisEngine>> RedisEngine::Create(const std::string& url, bool read_only,
                                                         const Logger* log) {
  ASSIGN_OR_RETURN(redis::PoolOptions options, redis::ParseRedisUrl(url));
  if (options.connection.password.empty()) {
    ASSIGN_OR_RETURN(options.connection.password, PasswordFromEnvironment());
  }
  std::unique_ptr<RedisEngine> engine(new RedisEngine(read_only, log));
  ASSIGN_OR_RETURN(engine->calls_, redis::Pool::Create(options));
  ASSIGN_OR_RETURN(engine->transacting_, redis::Pool::Create(options));
  ASSIGN_OR_RETURN(engine->transactions_, redis::Transactions::Create(*engine->transacting_));
  return engine;
}

RedisEngine::RedisEngine(bool read_only, const Logger* log)
    : read_only_(read_only), log_(log), find_script_(kFindScript) {}

RedisEngine::~RedisEngine() = default;

std::string RedisEngine::FirstKey(const Body& body) {
  RedisTxn dry_run(*this, nullptr);
  // It ends at its first read, with an error that means nothing.
  (void)body(dry_run).has_value();
  return dry_run.first_key();
}

Result<TxnOutcome> RedisEngine::WithTxn(const Context& caller, const Body& body) {
  if (read_only_) return Fail(Code::kPermission, "the store is open for reading only");
  const Context ctx = caller.has_deadline() ? caller : caller.WithTimeout(kLongestTransaction);
  const std::string turn = FirstKey(body);
  for (;;) {
    RETURN_IF_ERROR(ctx.Check());
    bool refused = false;
    std::optional<RedisTxn> txn;
    auto replies = transactions_->Run(ctx, turn, [&](redis::Txn& raw) -> Result<void> {
      txn.emplace(*this, &raw);
      auto done = body(*txn);
      refused = !done;
      if (!done) return done;
      return txn->Finish();
    });
    if (!replies) {
      // Only the commit's own conflicts are worth another round; the body's are an answer.
      if (!refused && IsConflict(replies.error())) continue;
      return std::unexpected(CommitError(replies.error()));
    }
    for (const Ino dir : txn->made()) RememberCounted(dir);
    for (const Ino dir : txn->uncounted()) {
      // The change itself is done. Statistics that could not be counted now stay absent, and
      // whoever changes the directory next tries again.
      (void)SyncDirUsage(ctx, dir).has_value();
    }
    return txn->Outcome(*replies);
  }
}

Result<void> RedisEngine::ReadOnce(const Context& ctx, const ReadSet& set) {
  const ReadPlan plan(keys_, set);
  if (!plan.commands().empty()) {
    ASSIGN_OR_RETURN(const auto replies, calls_->Run(ctx, plan.commands(), redis::Repeat::kAlways));
    RETURN_IF_ERROR(plan.Answer(address(), replies));
  }
  for (const ReadSet::Request& request : plan.wide()) {
    RETURN_IF_ERROR(FindChunkIndexes(ctx, request));
  }
  return {};
}

Result<std::vector<redis::Reply>> RedisEngine::Run(const Context& ctx,
                                                   const redis::Commands& commands) {
  auto replies = calls_->Run(ctx, commands, redis::Repeat::kAlways);
  if (!replies) return std::unexpected(AsDamage(std::move(replies).error()));
  RETURN_IF_ERROR(CheckReplies(address(), *replies));
  return replies;
}

Result<redis::Reply> RedisEngine::Call(const Context& ctx, std::initializer_list<redis::Arg> args) {
  auto reply = calls_->Call(ctx, args, redis::Repeat::kAlways);
  if (!reply) return std::unexpected(AsDamage(std::move(reply).error()));
  return reply;
}

Result<std::vector<redis::Reply>> RedisEngine::Write(const Context& ctx,
                                                     const redis::Transactions::Body& body,
                                                     std::string_view turn) {
  if (read_only_) return Fail(Code::kPermission, "the store is open for reading only");
  auto replies = transactions_->Run(ctx, turn, body);
  if (!replies) return std::unexpected(AsDamage(CommitError(replies.error())));
  return replies;
}

Result<void> RedisEngine::WriteOnly(const Context& ctx, const redis::Transactions::Body& body,
                                    std::string_view turn) {
  RETURN_IF_ERROR(Write(ctx, body, turn));
  return {};
}

bool RedisEngine::IsCounted(Ino dir) {
  const MutexLock lock(counted_mutex_);
  return counted_.contains(dir);
}

void RedisEngine::RememberCounted(Ino dir) {
  const MutexLock lock(counted_mutex_);
  if (counted_.size() >= kMaxCounted) counted_.clear();
  counted_.insert(dir);
}

Result<std::optional<std::string>> RedisEngine::LoadSetting(const Context& ctx) {
  {
    const MutexLock lock(counted_mutex_);
    counted_.clear();
  }
  ASSIGN_OR_RETURN(redis::Reply reply, Call(ctx, {"GET", keys_.Setting()}));
  if (reply.is_nil()) return std::optional<std::string>();
  return std::optional(std::move(reply).TakeText());
}

Result<void> RedisEngine::StoreSetting(const Context& ctx, std::string_view json, bool new_volume,
                                       std::span<const std::pair<Ino, Attr>> nodes) {
  const std::string key = keys_.Setting();
  return WriteOnly(ctx, [&](redis::Txn& txn) -> Result<void> {
    redis::Commands reads;
    reads.Add({"EXISTS", key});
    ASSIGN_OR_RETURN(const auto replies, txn.Watch({key}, reads));
    ASSIGN_OR_RETURN(const std::int64_t exists, replies[0].ToInteger());
    if (new_volume && exists > 0) {
      return Fail(Code::kAlreadyExists, "redis {} holds a volume already", address());
    }
    txn.Queue({"SET", key, json});
    for (const auto& [ino, attr] : nodes) {
      // As the official client's, whose first nodes have whole seconds here.
      Attr whole = attr;
      whole.atime.nanos = whole.mtime.nanos = whole.ctime.nanos = 0;
      txn.Queue({"SETNX", keys_.Attr(ino), EncodeAttr(whole)});
    }
    return {};
  });
}

Result<void> RedisEngine::PrepareForWriting(const Context& ctx) {
  auto policy = calls_->Call(ctx, {"CONFIG", "GET", "maxmemory-policy"}, redis::Repeat::kAlways);
  if (!policy) {
    // Managed servers hide CONFIG; then it is their administrator who knows.
    if (policy.error().code() == Code::kUnavailable) {
      return std::unexpected(std::move(policy).error());
    }
    return {};
  }
  if (policy->elements().size() < 2 || policy->elements()[1].text() == "noeviction") return {};
  auto set = calls_->Call(ctx, {"CONFIG", "SET", "maxmemory-policy", "noeviction"},
                          redis::Repeat::kAlways);
  if (log_ == nullptr) return {};
  if (set) {
    log_->Info(ctx, "redis evicted keys under memory pressure; set to noeviction",
               {{"redis", address()}, {"policy", policy->elements()[1].text()}});
  } else {
    log_->Warn(ctx, "redis may drop parts of the volume: set maxmemory-policy to noeviction",
               {{"redis", address()},
                {"policy", policy->elements()[1].text()},
                {"error", set.error().message()}});
  }
  return {};
}

Result<std::optional<MetaEngine::Found>> RedisEngine::FindEntry(const Context& ctx, Ino parent,
                                                                std::string_view name) {
  if (scripts_refused_.load(std::memory_order_relaxed)) return FindInTwoCalls(ctx, parent, name);
  const std::string dir = keys_.Dir(parent);
  const std::string attr_prefix = keys_.prefix() + "i";
  const std::string_view key = dir;
  const redis::Arg args[] = {name, attr_prefix};
  auto reply = find_script_.Run(ctx, *calls_, std::span(&key, 1), args, redis::Repeat::kAlways);
  if (!reply) {
    const Code code = reply.error().code();
    if (code == Code::kPermission || code == Code::kNotSupported) {
      scripts_refused_.store(true, std::memory_order_relaxed);
      return FindInTwoCalls(ctx, parent, name);
    }
    return std::unexpected(AsDamage(std::move(reply).error()));
  }
  if (reply->is_nil()) return std::optional<Found>();
  const auto parts = reply->elements();
  if (parts.empty()) return Fail(Code::kCorrupt, "redis {}: lookup answered nothing", address());
  if (parts.size() == 1) return FindInTwoCalls(ctx, parent, name);
  Found found;
  ASSIGN_OR_RETURN(found.edge, DecodeEdge(parts[0].text()));
  if (!parts[1].is_nil()) {
    ASSIGN_OR_RETURN(found.attr, DecodeAttrReply(found.edge.ino, parts[1]));
  }
  return std::optional(std::move(found));
}

Result<std::optional<MetaEngine::Found>> RedisEngine::FindInTwoCalls(const Context& ctx, Ino parent,
                                                                     std::string_view name) {
  std::optional<Edge> edge;
  RETURN_IF_ERROR(ReadOnce(ctx, ReadSet().Edge(parent, name, &edge)));
  if (!edge) return std::optional<Found>();
  Found found{.edge = *edge, .attr = {}};
  RETURN_IF_ERROR(ReadOnce(ctx, ReadSet().Attr(edge->ino, &found.attr)));
  return std::optional(std::move(found));
}

Result<std::optional<std::string>> RedisEngine::ReadSymlink(const Context& ctx, Ino ino) {
  ASSIGN_OR_RETURN(redis::Reply reply, Call(ctx, {"GET", keys_.Symlink(ino)}));
  if (reply.is_nil()) return std::optional<std::string>();
  return std::optional(std::move(reply).TakeText());
}

}  // namespace paddleop::volume
