#include "volume/object/redis/redis_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "redis/error.h"
#include "redis/pool.h"
#include "redis/url.h"
#include "volume/object/internal/list_filter.h"

namespace paddleop::volume::object {
namespace {

using redis::Arg;
using redis::Commands;
using redis::Repeat;
using redis::Reply;

constexpr std::size_t kScanCount = 1000;
constexpr std::size_t kDeleteBatch = 1000;
constexpr std::size_t kMaxObject = 512 << 20;  // proto-max-bulk-len

// `prefix` followed by anything, as a glob pattern.
std::string PatternOf(std::string_view prefix) {
  std::string pattern;
  for (const char c : prefix) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\' || c == '^')
      pattern.push_back('\\');
    pattern.push_back(c);
  }
  return pattern + "*";
}

class RedisStore final : public ObjectStore {
 public:
  RedisStore(std::string name, std::unique_ptr<redis::Pool> pool)
      : name_(std::move(name)), pool_(std::move(pool)) {}

  std::string name() const override { return name_; }
  StoreTraits traits() const override { return {.copy = true, .delete_batch = kDeleteBatch}; }

  Result<void> Create(const Context& ctx) override {
    RETURN_IF_ERROR(Call(ctx, "reach", "", {"PING"}));
    return {};
  }
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override;
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override {
    RETURN_IF_ERROR(Call(ctx, "delete", key, {"UNLINK", key}));
    return {};
  }
  Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                           std::span<const std::string> keys) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override;
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override;
  Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to) override;

 private:
  Status Named(std::string_view verb, std::string_view key, Status error) const {
    return std::move(error).Wrap(fmt::format("{} {}{}", verb, name_, key));
  }
  std::unexpected<Status> Missing(std::string_view verb, std::string_view key) const {
    return Fail(Code::kNotFound, "{} {}{}: no such object", verb, name_, key);
  }
  // All that is called so may happen twice.
  Result<Reply> Call(const Context& ctx, std::string_view verb, std::string_view key,
                     std::initializer_list<Arg> args) {
    auto reply = pool_->Call(ctx, args, Repeat::kAlways);
    if (!reply) return std::unexpected(Named(verb, key, std::move(reply.error())));
    return reply;
  }
  // Replies without errors among them.
  Result<std::vector<Reply>> Run(const Context& ctx, std::string_view verb, std::string_view key,
                                 const Commands& commands);
  Result<GetResult> GetRange(const Context& ctx, std::string_view key, const ByteRange& range,
                             std::span<std::byte> out);
  Result<std::size_t> CopyOut(std::string_view key, std::string_view bytes,
                              std::span<std::byte> out) const;
  Result<std::vector<std::string>> Scan(const Context& ctx, const ListOptions& options);
  Result<bool> Show(const Context& ctx, std::span<std::string> keys, internal::ListFilter& filter);

  const std::string name_;
  const std::unique_ptr<redis::Pool> pool_;
};

Result<std::vector<Reply>> RedisStore::Run(const Context& ctx, std::string_view verb,
                                           std::string_view key, const Commands& commands) {
  auto replies = pool_->Run(ctx, commands, Repeat::kAlways);
  if (!replies) return std::unexpected(Named(verb, key, std::move(replies.error())));
  for (const Reply& reply : *replies) {
    if (reply.is_error()) {
      return std::unexpected(
          Named(verb, key, redis::StatusOfError(pool_->address(), reply.text())));
    }
  }
  return replies;
}

Result<std::size_t> RedisStore::CopyOut(std::string_view key, std::string_view bytes,
                                        std::span<std::byte> out) const {
  if (bytes.size() > out.size()) {
    return Fail(Code::kInvalid, "get {}{}: {} bytes do not fit into a buffer of {}", name_, key,
                bytes.size(), out.size());
  }
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return bytes.size();
}

Result<GetResult> RedisStore::Get(const Context& ctx, std::string_view key,
                                  const GetOptions& options, std::span<std::byte> out) {
  if (!options.if_match.empty()) {
    return Fail(Code::kNotSupported, "get {}{}: a Redis database has no etags", name_, key);
  }
  if (!options.range.whole()) return GetRange(ctx, key, options.range, out);
  ASSIGN_OR_RETURN(const Reply reply, Call(ctx, "get", key, {"GET", key}));
  if (reply.is_nil()) return Missing("get", key);
  GetResult got;
  ASSIGN_OR_RETURN(got.size, CopyOut(key, reply.text(), out));
  got.object_size = got.size;
  return got;
}

Result<GetResult> RedisStore::GetRange(const Context& ctx, std::string_view key,
                                       const ByteRange& range, std::span<std::byte> out) {
  // Positions behind the longest string are all the same to the server.
  const std::uint64_t first = std::min<std::uint64_t>(range.offset, kMaxObject);
  const std::uint64_t length = std::min<std::uint64_t>(range.length, kMaxObject);
  if (length == 0) return GetResult{};
  Commands commands;
  commands.Add({"EXISTS", key});
  commands.Add({"STRLEN", key});
  commands.Add({"GETRANGE", key, first, first + length - 1});
  ASSIGN_OR_RETURN(const std::vector<Reply> replies, Run(ctx, "get", key, commands));
  ASSIGN_OR_RETURN(const std::int64_t exists, replies[0].ToInteger());
  if (exists == 0) return Missing("get", key);
  ASSIGN_OR_RETURN(const std::int64_t size, replies[1].ToInteger());
  GetResult got;
  got.object_size = static_cast<std::uint64_t>(size);
  ASSIGN_OR_RETURN(got.size, CopyOut(key, replies[2].text(), out));
  return got;
}

Result<void> RedisStore::Put(const Context& ctx, std::string_view key,
                             std::span<const std::byte> data, const PutOptions&) {
  if (key.empty()) return Fail(Code::kInvalid, "put {}: an object needs a key", name_);
  if (data.size() > kMaxObject) {
    return Fail(Code::kInvalid, "put {}{}: {} bytes, more than a Redis string can have", name_, key,
                data.size());
  }
  RETURN_IF_ERROR(Call(ctx, "put", key, {"SET", key, AsText(data)}));
  return {};
}

Result<std::vector<KeyError>> RedisStore::DeleteMany(const Context& ctx,
                                                     std::span<const std::string> keys) {
  std::vector<KeyError> failed;
  while (!keys.empty()) {
    RETURN_IF_ERROR(ctx.Check());
    const auto batch = keys.first(std::min(keys.size(), kDeleteBatch));
    keys = keys.subspan(batch.size());
    std::vector<Arg> args = {"UNLINK"};
    args.insert(args.end(), batch.begin(), batch.end());
    auto reply = pool_->Call(ctx, args, Repeat::kAlways);
    if (reply) continue;
    for (const std::string& key : batch)
      failed.push_back({key, Named("delete", key, reply.error())});
  }
  return failed;
}

Result<ObjectInfo> RedisStore::Head(const Context& ctx, std::string_view key) {
  Commands commands;
  commands.Add({"EXISTS", key});
  commands.Add({"STRLEN", key});
  ASSIGN_OR_RETURN(const std::vector<Reply> replies, Run(ctx, "head", key, commands));
  ASSIGN_OR_RETURN(const std::int64_t exists, replies[0].ToInteger());
  if (exists == 0) return Missing("head", key);
  ASSIGN_OR_RETURN(const std::int64_t size, replies[1].ToInteger());
  ObjectInfo info;
  info.key = key;
  info.size = static_cast<std::uint64_t>(size);
  return info;
}

Result<std::vector<std::string>> RedisStore::Scan(const Context& ctx, const ListOptions& options) {
  std::vector<std::string> keys;
  const std::string pattern = PatternOf(options.prefix);
  std::string cursor = "0";
  do {
    RETURN_IF_ERROR(ctx.Check());
    ASSIGN_OR_RETURN(Reply reply, Call(ctx, "list", options.prefix,
                                       {"SCAN", cursor, "MATCH", pattern, "COUNT", kScanCount}));
    std::span<Reply> parts = reply.elements();
    if (parts.size() != 2 || !parts[1].is_array()) {
      return Fail(Code::kCorrupt, "list {}{}: an answer to SCAN that is none", name_,
                  options.prefix);
    }
    cursor = parts[0].text();
    for (Reply& key : parts[1].elements()) {
      if (key.text() > options.start_after) keys.push_back(std::move(key).TakeText());
    }
  } while (cursor != "0");
  // A scan may name a key twice.
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

// Finds the sizes of some keys and shows them.
Result<bool> RedisStore::Show(const Context& ctx, std::span<std::string> keys,
                              internal::ListFilter& filter) {
  Commands commands;
  for (const std::string& key : keys) {
    commands.Add({"TYPE", key});
    commands.Add({"STRLEN", key});
  }
  auto replies = pool_->Run(ctx, commands, Repeat::kAlways);
  if (!replies) return std::unexpected(Named("list", keys.front(), std::move(replies.error())));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // Deleted meanwhile, or somebody else's list or hash.
    if ((*replies)[2 * i].text() != "string" || (*replies)[2 * i + 1].is_error()) continue;
    ObjectInfo entry;
    entry.key = std::move(keys[i]);
    ASSIGN_OR_RETURN(const std::int64_t size, (*replies)[2 * i + 1].ToInteger());
    entry.size = static_cast<std::uint64_t>(size);
    ASSIGN_OR_RETURN(const bool more, filter.Offer(entry));
    if (!more) return false;
  }
  return true;
}

Result<void> RedisStore::List(const Context& ctx, const ListOptions& options,
                              const ListVisitor& visit) {
  ASSIGN_OR_RETURN(std::vector<std::string> keys, Scan(ctx, options));
  internal::ListFilter filter(options, visit);
  for (std::size_t start = 0; start < keys.size();) {
    const std::size_t count = std::min(keys.size() - start, kScanCount);
    ASSIGN_OR_RETURN(const bool more, Show(ctx, std::span(keys).subspan(start, count), filter));
    if (!more) break;
    start += count;
  }
  return {};
}

Result<void> RedisStore::Copy(const Context& ctx, std::string_view from, std::string_view to) {
  if (to.empty()) return Fail(Code::kInvalid, "copy to {}: an object needs a key", name_);
  ASSIGN_OR_RETURN(const Reply reply, Call(ctx, "copy", from, {"COPY", from, to, "REPLACE"}));
  ASSIGN_OR_RETURN(const std::int64_t copied, reply.ToInteger());
  if (copied == 0) return Missing("copy", from);
  return {};
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> OpenRedisStore(const RedisStoreOptions& options) {
  const bool has_scheme = options.bucket.find("://") != std::string::npos;
  ASSIGN_OR_RETURN(redis::PoolOptions pool_options,
                   redis::ParseRedisUrl(has_scheme ? options.bucket : "redis://" + options.bucket));
  redis::ConnectionOptions& connection = pool_options.connection;
  if (!options.user.empty()) connection.user = options.user;
  if (!options.password.empty()) connection.password = options.password;
  // The retry decorator repeats; here only a connection that the server had closed is replaced.
  pool_options.retry.max_attempts = 1;
  pool_options.metrics = options.metrics;
  const std::string name = fmt::format("redis://{}/{}/", connection.Address(), connection.database);
  ASSIGN_OR_RETURN(auto pool, redis::Pool::Create(std::move(pool_options)));
  return std::make_unique<RedisStore>(name, std::move(pool));
}

}  // namespace paddleop::volume::object
