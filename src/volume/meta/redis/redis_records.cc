// Counters, sessions, deletion, statistics and quotas.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/bytes.h"
#include "volume/format/codec.h"
#include "volume/meta/redis/redis_engine.h"
#include "volume/meta/redis/redis_reads.h"

namespace paddleop::volume {
namespace {

using redis::Commands;
using redis::Reply;

std::string_view CounterOf(Lease lease) {
  switch (lease) {
    case Lease::kSessions:
      return "lastCleanupSessions";
    case Lease::kFiles:
      return "lastCleanupFiles";
    case Lease::kSlices:
      return "nextCleanupSlices";
    case Lease::kTrash:
      return "lastCleanupTrash";
  }
  return "lastCleanupFiles";
}

// Nil counts as zero: counters and statistics appear on first use.
Result<std::int64_t> IntegerOrZero(const Reply& reply) {
  if (reply.is_nil()) return 0;
  return reply.ToInteger();
}

// Scores are floating-point numbers to Redis.
Result<std::int64_t> ScoreOf(const Reply& reply) {
  const std::string_view text = reply.text();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Fail(Code::kCorrupt, "score '{}' is no number", text);
  }
  return static_cast<std::int64_t>(value);
}

std::string EncodeQuota(const DirQuota& quota) {
  std::string bytes;
  ByteWriter out(bytes);
  out.U64(static_cast<std::uint64_t>(quota.max_space));
  out.U64(static_cast<std::uint64_t>(quota.max_inodes));
  return bytes;
}

Result<DirQuota> DecodeQuota(std::string_view bytes) {
  if (bytes.size() != 16) return Fail(Code::kCorrupt, "directory quota of {} bytes", bytes.size());
  ByteReader in(bytes);
  DirQuota quota;
  // Zero and less mean no limit.
  quota.max_space = std::max<std::int64_t>(0, static_cast<std::int64_t>(in.U64()));
  quota.max_inodes = std::max<std::int64_t>(0, static_cast<std::int64_t>(in.U64()));
  return quota;
}

}  // namespace

Result<std::uint64_t> RedisEngine::Increment(const Context& ctx, std::string_view counter,
                                             std::uint64_t by) {
  if (read_only_) return Fail(Code::kPermission, "the store is open for reading only");
  ASSIGN_OR_RETURN(const Reply reply, Call(ctx, {"INCRBY", keys_.Counter(counter), by}));
  ASSIGN_OR_RETURN(const std::int64_t value, reply.ToInteger());
  return static_cast<std::uint64_t>(value);
}

// These two hold the highest id handed out, unlike their namesakes on SQL.
Result<std::uint64_t> RedisEngine::AllocateInodes(const Context& ctx, std::uint64_t count) {
  for (;;) {
    ASSIGN_OR_RETURN(const std::uint64_t last, Increment(ctx, "nextinode", count));
    if (last - count + 1 > ToInt(kRootIno)) return last - count + 1;
    // A new volume: the root's number is among them, so one more is needed.
    ASSIGN_OR_RETURN(const std::uint64_t extended, Increment(ctx, "nextinode", 1));
    if (extended == last + 1 && extended - count + 1 > ToInt(kRootIno)) return extended - count + 1;
  }
}

Result<std::uint64_t> RedisEngine::AllocateSlices(const Context& ctx, std::uint64_t count) {
  ASSIGN_OR_RETURN(const std::uint64_t last, Increment(ctx, "nextchunk", count));
  return last - count + 1;
}

Result<std::uint64_t> RedisEngine::NextSession(const Context& ctx) {
  return Increment(ctx, "nextsession", 1);
}

Result<std::uint64_t> RedisEngine::NextTrash(const Context& ctx) {
  return Increment(ctx, "nextTrash", 1);
}

Result<Usage> RedisEngine::GetUsage(const Context& ctx) {
  ASSIGN_OR_RETURN(const Reply reply,
                   Call(ctx, {"MGET", keys_.Counter("usedSpace"), keys_.Counter("totalInodes")}));
  if (reply.elements().size() != 2) return Fail(Code::kCorrupt, "usage is not two numbers");
  Usage usage;
  ASSIGN_OR_RETURN(usage.space, IntegerOrZero(reply.elements()[0]));
  ASSIGN_OR_RETURN(usage.inodes, IntegerOrZero(reply.elements()[1]));
  return usage;
}

Result<bool> RedisEngine::TryLease(const Context& ctx, Lease lease, std::int64_t now,
                                   std::int64_t interval) {
  const std::string key = keys_.Counter(CounterOf(lease));
  bool taken = false;
  RETURN_IF_ERROR(Write(ctx, [&](redis::Txn& txn) -> Result<void> {
    taken = false;
    Commands reads;
    reads.Add({"GET", key});
    ASSIGN_OR_RETURN(const auto replies, txn.Watch({key}, reads));
    ASSIGN_OR_RETURN(const std::int64_t last, IntegerOrZero(replies[0]));
    if (last > now - interval * 9 / 10) return {};
    txn.Queue({"SET", key, now});
    taken = true;
    return {};
  }));
  return taken;
}

Result<void> RedisEngine::PutSession(const Context& ctx, std::uint64_t sid, std::int64_t expires,
                                     std::string_view info_json) {
  return WriteOnly(ctx, [&](redis::Txn& txn) -> Result<void> {
    txn.Queue({"HSETNX", keys_.SessionInfos(), sid, info_json});
    txn.Queue({"ZADD", keys_.AllSessions(), expires, sid});
    return {};
  });
}

Result<std::vector<SessionRecord>> RedisEngine::ListSessions(const Context& ctx) {
  Commands commands;
  commands.Add({"ZRANGE", keys_.AllSessions(), 0, -1, "WITHSCORES"});
  commands.Add({"HGETALL", keys_.SessionInfos()});
  ASSIGN_OR_RETURN(const auto replies, Run(ctx, commands));
  std::map<std::uint64_t, SessionRecord> sessions;
  const auto scores = replies[0].elements();
  for (std::size_t i = 0; i + 1 < scores.size(); i += 2) {
    ASSIGN_OR_RETURN(const std::uint64_t sid, ParseUnsigned(scores[i].text()));
    ASSIGN_OR_RETURN(const std::int64_t expires, ScoreOf(scores[i + 1]));
    sessions[sid] = {.sid = sid, .expires = expires, .info_json = {}};
  }
  const auto infos = replies[1].elements();
  for (std::size_t i = 0; i + 1 < infos.size(); i += 2) {
    ASSIGN_OR_RETURN(const std::uint64_t sid, ParseUnsigned(infos[i].text()));
    const auto session = sessions.find(sid);
    if (session != sessions.end()) session->second.info_json = infos[i + 1].text();
  }
  std::vector<SessionRecord> sorted;
  sorted.reserve(sessions.size());
  for (auto& [sid, session] : sessions) sorted.push_back(std::move(session));
  return sorted;
}

Result<std::vector<Ino>> RedisEngine::ListSustained(const Context& ctx, std::uint64_t sid) {
  ASSIGN_OR_RETURN(const Reply reply, Call(ctx, {"SMEMBERS", keys_.Sustained(sid)}));
  std::vector<Ino> inodes;
  for (const Reply& member : reply.elements()) {
    ASSIGN_OR_RETURN(const std::uint64_t ino, ParseUnsigned(member.text()));
    inodes.push_back(Ino{ino});
  }
  return inodes;
}

Result<void> RedisEngine::DeleteSession(const Context& ctx, std::uint64_t sid) {
  const std::string locked = keys_.LockedBy(sid);
  ASSIGN_OR_RETURN(const Reply held, Call(ctx, {"SMEMBERS", locked}));
  Commands listing;
  for (const Reply& key : held.elements()) listing.Add({"HKEYS", key.text()});
  std::vector<Reply> owners;
  if (!listing.empty()) {
    ASSIGN_OR_RETURN(owners, Run(ctx, listing));
  }
  const std::string prefix = fmt::format("{}_", sid);
  return WriteOnly(ctx, [&](redis::Txn& txn) -> Result<void> {
    for (std::size_t i = 0; i < owners.size(); ++i) {
      for (const Reply& owner : owners[i].elements()) {
        if (owner.text().starts_with(prefix)) {
          txn.Queue({"HDEL", held.elements()[i].text(), owner.text()});
        }
      }
    }
    txn.Queue({"DEL", locked});
    txn.Queue({"HDEL", keys_.SessionInfos(), sid});
    txn.Queue({"ZREM", keys_.AllSessions(), sid});
    return {};
  });
}

Result<std::vector<DeletedFile>> RedisEngine::ListDeletedFiles(const Context& ctx,
                                                               std::int64_t before,
                                                               std::size_t limit) {
  ASSIGN_OR_RETURN(const Reply reply, Call(ctx, {"ZRANGEBYSCORE", keys_.DelFiles(), "-inf", before,
                                                 "WITHSCORES", "LIMIT", 0, limit}));
  std::vector<DeletedFile> files;
  const auto pairs = reply.elements();
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    ASSIGN_OR_RETURN(const auto member, ParseDelFileMember(pairs[i].text()));
    ASSIGN_OR_RETURN(const std::int64_t deleted, ScoreOf(pairs[i + 1]));
    files.push_back({.ino = member.first, .length = member.second, .deleted = deleted});
  }
  return files;
}

Result<std::vector<SliceKey>> RedisEngine::ListGarbage(const Context& ctx, std::size_t limit) {
  std::set<SliceKey> garbage;
  RETURN_IF_ERROR(ScanSliceRefs(ctx, [&](SliceKey slice, std::int64_t references) -> Result<void> {
    if (references <= 0 && garbage.size() < limit) garbage.insert(slice);
    return {};
  }));
  return std::vector<SliceKey>(garbage.begin(), garbage.end());
}

Result<void> RedisEngine::ForgetSlices(const Context& ctx, std::span<const SliceKey> slices) {
  if (slices.empty()) return {};
  const std::string key = keys_.SliceRef();
  std::vector<std::string> fields;
  fields.reserve(slices.size());
  Commands reads;
  for (const SliceKey& slice : slices) {
    fields.push_back(SliceRefField(slice));
    reads.Add({"HGET", key, fields.back()});
  }
  ASSIGN_OR_RETURN(const auto counts, Run(ctx, reads));
  // A count below zero stays there: what nothing refers to, nothing can be copied from.
  std::vector<redis::Arg> args = {"HDEL", key};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (counts[i].is_nil()) continue;
    ASSIGN_OR_RETURN(const std::int64_t count, counts[i].ToInteger());
    if (count < 0) args.emplace_back(fields[i]);
  }
  if (args.size() == 2) return {};
  return WriteOnly(ctx, [&](redis::Txn& txn) -> Result<void> {
    txn.Queue(args);
    return {};
  });
}

Result<std::vector<DelayedSlices>> RedisEngine::ListDelayedSlices(const Context& ctx,
                                                                  std::int64_t before,
                                                                  std::size_t limit) {
  std::map<std::string, DelayedSlices> found;
  RETURN_IF_ERROR(ScanHash(
      ctx, keys_.DelSlices(), [&](std::string_view field, std::string_view value) -> Result<void> {
        const auto split = field.find('_');
        if (split == std::string_view::npos) {
          return Fail(Code::kCorrupt, "delayed slices '{}' are not <id>_<time>", field);
        }
        ASSIGN_OR_RETURN(const std::uint64_t deleted, ParseUnsigned(field.substr(split + 1)));
        if (static_cast<std::int64_t>(deleted) > before || found.size() >= limit) return {};
        DelayedSlices& delayed = found[std::string(field)];
        delayed.key = field;
        delayed.deleted = static_cast<std::int64_t>(deleted);
        ASSIGN_OR_RETURN(delayed.slices, DecodeSliceKeys(value));
        return {};
      }));
  std::vector<DelayedSlices> sorted;
  sorted.reserve(found.size());
  for (auto& [key, delayed] : found) sorted.push_back(std::move(delayed));
  return sorted;
}

Result<std::vector<SliceKey>> RedisEngine::ReleaseDelayedSlices(const Context& ctx,
                                                                const DelayedSlices& delayed) {
  const std::string key = keys_.DelSlices();
  std::map<SliceKey, std::int64_t> references;
  ASSIGN_OR_RETURN(const auto replies, Write(ctx, [&](redis::Txn& txn) -> Result<void> {
                     references.clear();
                     Commands reads;
                     reads.Add({"HGET", key, delayed.key});
                     ASSIGN_OR_RETURN(const auto stored, txn.Watch({key}, reads));
                     // Another client was faster: the references are its to drop.
                     if (stored[0].is_nil()) return {};
                     ASSIGN_OR_RETURN(const auto slices, DecodeSliceKeys(stored[0].text()));
                     for (const SliceKey& slice : slices) ++references[slice];
                     for (const auto& [slice, count] : references) {
                       txn.Queue({"HINCRBY", keys_.SliceRef(), SliceRefField(slice), -count});
                     }
                     txn.Queue({"HDEL", key, delayed.key});
                     return {};
                   }));
  std::vector<SliceKey> garbage;
  std::size_t next = 0;
  for (const auto& [slice, count] : references) {
    ASSIGN_OR_RETURN(const std::int64_t left, replies[next++].ToInteger());
    if (left < 0) garbage.push_back(slice);
  }
  return garbage;
}

Result<std::vector<std::pair<Ino, DirQuota>>> RedisEngine::ListDirQuotas(const Context& ctx) {
  Commands commands;
  commands.Add({"HGETALL", keys_.DirQuota()});
  commands.Add({"HGETALL", keys_.DirQuotaUsedSpace()});
  commands.Add({"HGETALL", keys_.DirQuotaUsedInodes()});
  ASSIGN_OR_RETURN(const auto replies, Run(ctx, commands));
  std::map<Ino, DirQuota> quotas;
  const auto limits = replies[0].elements();
  for (std::size_t i = 0; i + 1 < limits.size(); i += 2) {
    ASSIGN_OR_RETURN(const std::uint64_t ino, ParseUnsigned(limits[i].text()));
    ASSIGN_OR_RETURN(quotas[Ino{ino}], DecodeQuota(limits[i + 1].text()));
  }
  for (const auto& [reply, member] : {std::pair(&replies[1], &DirQuota::used_space),
                                      std::pair(&replies[2], &DirQuota::used_inodes)}) {
    const auto pairs = reply->elements();
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      ASSIGN_OR_RETURN(const std::uint64_t ino, ParseUnsigned(pairs[i].text()));
      const auto quota = quotas.find(Ino{ino});
      if (quota == quotas.end()) continue;
      ASSIGN_OR_RETURN(quota->second.*member, pairs[i + 1].ToInteger());
    }
  }
  return std::vector<std::pair<Ino, DirQuota>>(quotas.begin(), quotas.end());
}

Result<void> RedisEngine::PutDirQuota(const Context& ctx, Ino ino, const DirQuota& quota) {
  return WriteOnly(ctx, [&](redis::Txn& txn) -> Result<void> {
    txn.Queue({"HSET", keys_.DirQuota(), ToInt(ino), EncodeQuota(quota)});
    txn.Queue({"HSET", keys_.DirQuotaUsedSpace(), ToInt(ino), quota.used_space});
    txn.Queue({"HSET", keys_.DirQuotaUsedInodes(), ToInt(ino), quota.used_inodes});
    return {};
  });
}

Result<void> RedisEngine::DeleteDirQuota(const Context& ctx, Ino ino) {
  return WriteOnly(ctx, [&](redis::Txn& txn) -> Result<void> {
    txn.Queue({"HDEL", keys_.DirQuota(), ToInt(ino)});
    txn.Queue({"HDEL", keys_.DirQuotaUsedSpace(), ToInt(ino)});
    txn.Queue({"HDEL", keys_.DirQuotaUsedInodes(), ToInt(ino)});
    return {};
  });
}

}  // namespace paddleop::volume
