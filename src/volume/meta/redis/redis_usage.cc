// Statistics of directories.
#include "volume/format/codec.h"
#include "volume/meta/redis/redis_engine.h"
#include "volume/meta/redis/redis_reads.h"

namespace paddleop::volume {
namespace {

using redis::Commands;
using redis::Reply;

constexpr int kScanCount = 2000;
// How often changes that others make meanwhile let a count start again.
constexpr int kMaxCounts = 10;

void AddUsageReads(Commands& commands, const RedisKeys& keys, Ino ino) {
  commands.Add({"HGET", keys.DirDataLength(), ToInt(ino)});
  commands.Add({"HGET", keys.DirUsedSpace(), ToInt(ino)});
  commands.Add({"HGET", keys.DirUsedInodes(), ToInt(ino)});
}

// From the replies to AddUsageReads.
Result<std::optional<DirUsage>> UsageFrom(std::span<const Reply> replies) {
  if (replies[1].is_nil()) return std::optional<DirUsage>();
  DirUsage usage;
  std::int64_t* const fields[] = {&usage.length, &usage.space, &usage.inodes};
  for (std::size_t i = 0; i < 3; ++i) {
    if (replies[i].is_nil()) continue;
    ASSIGN_OR_RETURN(*fields[i], replies[i].ToInteger());
  }
  return std::optional(usage);
}

Result<std::optional<DirUsage>> ReadUsage(redis::Txn& txn, const RedisKeys& keys, Ino ino) {
  Commands reads;
  AddUsageReads(reads, keys, ino);
  ASSIGN_OR_RETURN(const auto replies, txn.Run(reads));
  return UsageFrom(replies);
}

// Replaces what is on record by `counted`. As a difference, so that changes between the count and
// the commit are kept.
void QueueUsage(redis::Txn& txn, const RedisKeys& keys, Ino ino,
                const std::optional<DirUsage>& recorded, const DirUsage& counted) {
  const DirUsage before = recorded.value_or(DirUsage{});
  const std::pair<std::string, std::int64_t> changes[] = {
      {keys.DirDataLength(), counted.length - before.length},
      {keys.DirUsedSpace(), counted.space - before.space},
      {keys.DirUsedInodes(), counted.inodes - before.inodes}};
  const std::int64_t values[] = {counted.length, counted.space, counted.inodes};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!recorded) {
      txn.Queue({"HSET", changes[i].first, ToInt(ino), values[i]});
    } else if (changes[i].second != 0) {
      txn.Queue({"HINCRBY", changes[i].first, ToInt(ino), changes[i].second});
    }
  }
}

}  // namespace

Result<std::optional<DirUsage>> RedisEngine::GetDirUsage(const Context& ctx, Ino ino) {
  Commands commands;
  AddUsageReads(commands, keys_, ino);
  ASSIGN_OR_RETURN(const auto replies, Run(ctx, commands));
  return UsageFrom(replies);
}

Result<DirUsage> RedisEngine::CountChildren(redis::Txn& txn, Ino ino) {
  const std::string key = keys_.Dir(ino);
  std::unordered_set<std::string> seen;  // a scan may return a field twice
  DirUsage usage;
  std::string cursor = "0";
  do {
    ASSIGN_OR_RETURN(const Reply page, txn.Call({"HSCAN", key, cursor, "COUNT", kScanCount}));
    if (page.elements().size() != 2) return Fail(Code::kCorrupt, "HSCAN answered no page");
    cursor = page.elements()[0].text();
    const auto pairs = page.elements()[1].elements();
    std::vector<std::string> names;
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (!seen.emplace(pairs[i].text()).second) continue;
      ASSIGN_OR_RETURN(const Edge edge, DecodeEdge(pairs[i + 1].text()));
      names.push_back(keys_.Attr(edge.ino));
    }
    if (names.empty()) continue;
    std::vector<redis::Arg> args = {"MGET"};
    args.insert(args.end(), names.begin(), names.end());
    ASSIGN_OR_RETURN(const Reply attrs, txn.Call(args));
    for (const Reply& bytes : attrs.elements()) {
      if (bytes.is_nil()) continue;  // an entry that points nowhere
      ASSIGN_OR_RETURN(const Attr attr, DecodeAttr(bytes.text()));
      usage += UsageOf(attr);
    }
  } while (cursor != "0");
  return usage;
}

Result<DirUsage> RedisEngine::Recount(redis::Txn& txn, Ino ino) {
  const std::string attr_key = keys_.Attr(ino);
  const std::string dir_key = keys_.Dir(ino);
  Commands reads;
  reads.Add({"GET", attr_key});
  AddUsageReads(reads, keys_, ino);
  ASSIGN_OR_RETURN(const auto replies, txn.Watch({attr_key, dir_key}, reads));
  if (replies[0].is_nil()) return Fail(Code::kNotFound, "there is no inode {}", ToInt(ino));
  ASSIGN_OR_RETURN(auto recorded, UsageFrom(std::span(replies).subspan(1)));
  // Names are watched, lengths are not: when the record moves while we count, somebody has written
  // to a file of this directory, and the count may have seen that or not.
  DirUsage counted;
  for (int attempt = 0; attempt < kMaxCounts; ++attempt) {
    ASSIGN_OR_RETURN(counted, CountChildren(txn, ino));
    const auto before = recorded;
    ASSIGN_OR_RETURN(recorded, ReadUsage(txn, keys_, ino));
    if (recorded == before) break;
  }
  QueueUsage(txn, keys_, ino, recorded, counted);
  // The same bytes again: whoever has found no record, or counts too, watches this key and must not
  // go on from what it read.
  txn.Queue({"SET", attr_key, replies[0].text()});
  return counted;
}

Result<DirUsage> RedisEngine::SyncDirUsage(const Context& ctx, Ino ino) {
  DirUsage counted;
  RETURN_IF_ERROR(WriteOnly(
      ctx,
      [&](redis::Txn& txn) -> Result<void> {
        auto count = Recount(txn, ino);
        if (!count) return std::unexpected(std::move(count).error());
        counted = *count;
        return {};
      },
      keys_.Attr(ino)));
  RememberCounted(ino);
  return counted;
}

}  // namespace paddleop::volume
