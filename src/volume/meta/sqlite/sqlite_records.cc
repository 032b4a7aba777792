// Counters, sessions, deletion, statistics and quotas.
#include "volume/format/codec.h"
#include "volume/meta/sqlite/sqlite_engine.h"

namespace paddleop::volume {
namespace {

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

Result<void> Done(Result<TxnOutcome> outcome) {
  if (!outcome) return std::unexpected(std::move(outcome).error());
  return {};
}

template <class Fn>
Result<void> ForEachRow(Statement& rows, Fn&& fn) {
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return {};
    RETURN_IF_ERROR(fn());
  }
}

}  // namespace

Result<std::uint64_t> SqliteEngine::Increment(const Context& ctx, std::string_view counter,
                                              std::uint64_t by) {
  std::uint64_t value = 0;
  RETURN_IF_ERROR(Done(Write(ctx, [&](Database& database, SqliteTxn&) -> Result<void> {
    Statement row = database.Prepare(
        "INSERT INTO jfs_counter(name, value) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET "
        "value=value+?2 RETURNING value");
    row.Text(counter).Int(Int(by));
    ASSIGN_OR_RETURN(const bool any, row.Step());
    if (!any) return Fail(Code::kInternal, "counter {} gave no value", counter);
    value = static_cast<std::uint64_t>(row.IntAt(0));
    return {};
  })));
  return value;
}

// These two hold the next free id, unlike their namesakes on Redis.
Result<std::uint64_t> SqliteEngine::AllocateInodes(const Context& ctx, std::uint64_t count) {
  ASSIGN_OR_RETURN(const std::uint64_t next, Increment(ctx, "nextInode", count));
  return next - count;
}

Result<std::uint64_t> SqliteEngine::AllocateSlices(const Context& ctx, std::uint64_t count) {
  ASSIGN_OR_RETURN(const std::uint64_t next, Increment(ctx, "nextChunk", count));
  return next - count;
}

Result<std::uint64_t> SqliteEngine::NextSession(const Context& ctx) {
  return Increment(ctx, "nextSession", 1);
}

Result<std::uint64_t> SqliteEngine::NextTrash(const Context& ctx) {
  return Increment(ctx, "nextTrash", 1);
}

Result<Usage> SqliteEngine::GetUsage(const Context& ctx) {
  Usage usage;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows = database.Prepare(
        "SELECT name='usedSpace', value FROM jfs_counter WHERE name IN ('usedSpace', "
        "'totalInodes')");
    return ForEachRow(rows, [&]() -> Result<void> {
      (rows.IntAt(0) != 0 ? usage.space : usage.inodes) = rows.IntAt(1);
      return {};
    });
  }));
  return usage;
}

Result<bool> SqliteEngine::TryLease(const Context& ctx, Lease lease, std::int64_t now,
                                    std::int64_t interval) {
  bool taken = false;
  RETURN_IF_ERROR(Done(Write(ctx, [&](Database& database, SqliteTxn&) -> Result<void> {
    RETURN_IF_ERROR(
        database
            .Prepare("INSERT INTO jfs_counter(name, value) VALUES(?1, ?2) ON CONFLICT(name) DO "
                     "UPDATE SET value=?2 WHERE value<=?3")
            .Text(CounterOf(lease))
            .Int(now)
            .Int(now - interval * 9 / 10)
            .Run());
    taken = database.Changes() > 0;
    return {};
  })));
  return taken;
}

Result<void> SqliteEngine::PutSession(const Context& ctx, std::uint64_t sid, std::int64_t expires,
                                      std::string_view info_json) {
  return Done(Write(ctx, [&](Database& database, SqliteTxn&) {
    return database
        .Prepare(
            "INSERT INTO jfs_session2(sid, expire, info) VALUES(?,?,?) ON CONFLICT(sid) DO UPDATE "
            "SET expire=excluded.expire")
        .Int(Int(sid))
        .Int(expires)
        .Blob(info_json)
        .Run();
  }));
}

Result<std::vector<SessionRecord>> SqliteEngine::ListSessions(const Context& ctx) {
  std::vector<SessionRecord> sessions;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows = database.Prepare("SELECT sid, expire, info FROM jfs_session2 ORDER BY sid");
    return ForEachRow(rows, [&]() -> Result<void> {
      sessions.push_back({.sid = static_cast<std::uint64_t>(rows.IntAt(0)),
                          .expires = rows.IntAt(1),
                          .info_json = std::string(rows.BytesAt(2))});
      return {};
    });
  }));
  return sessions;
}

Result<std::vector<Ino>> SqliteEngine::ListSustained(const Context& ctx, std::uint64_t sid) {
  std::vector<Ino> inodes;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows = database.Prepare("SELECT inode FROM jfs_sustained WHERE sid=?");
    rows.Int(Int(sid));
    return ForEachRow(rows, [&]() -> Result<void> {
      inodes.push_back(InoAt(rows, 0));
      return {};
    });
  }));
  return inodes;
}

Result<void> SqliteEngine::DeleteSession(const Context& ctx, std::uint64_t sid) {
  return Done(Write(ctx, [&](Database& database, SqliteTxn&) -> Result<void> {
    for (const char* sql :
         {"DELETE FROM jfs_flock WHERE sid=?", "DELETE FROM jfs_plock WHERE sid=?",
          "DELETE FROM jfs_session2 WHERE sid=?"}) {
      RETURN_IF_ERROR(database.Prepare(sql).Int(Int(sid)).Run());
    }
    return {};
  }));
}

Result<std::vector<DeletedFile>> SqliteEngine::ListDeletedFiles(const Context& ctx,
                                                                std::int64_t before,
                                                                std::size_t limit) {
  std::vector<DeletedFile> files;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows =
        database.Prepare("SELECT inode, length, expire FROM jfs_delfile WHERE expire<=? LIMIT ?");
    rows.Int(before).Int(Int(std::uint64_t{limit}));
    return ForEachRow(rows, [&]() -> Result<void> {
      files.push_back({.ino = InoAt(rows, 0),
                       .length = static_cast<std::uint64_t>(rows.IntAt(1)),
                       .deleted = rows.IntAt(2)});
      return {};
    });
  }));
  return files;
}

Result<std::vector<SliceKey>> SqliteEngine::ListGarbage(const Context& ctx, std::size_t limit) {
  std::vector<SliceKey> slices;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows =
        database.Prepare("SELECT chunkid, size FROM jfs_chunk_ref WHERE refs<=0 LIMIT ?");
    rows.Int(Int(std::uint64_t{limit}));
    return ForEachRow(rows, [&]() -> Result<void> {
      slices.push_back({.id = static_cast<std::uint64_t>(rows.IntAt(0)),
                        .size = static_cast<std::uint32_t>(rows.IntAt(1))});
      return {};
    });
  }));
  return slices;
}

Result<void> SqliteEngine::ForgetSlices(const Context& ctx, std::span<const SliceKey> slices) {
  if (slices.empty()) return {};
  return Done(Write(ctx, [&](Database& database, SqliteTxn&) -> Result<void> {
    for (const SliceKey& slice : slices) {
      RETURN_IF_ERROR(
          database.Prepare("DELETE FROM jfs_chunk_ref WHERE chunkid=? AND size=? AND refs<=0")
              .Int(Int(slice.id))
              .Int(slice.size)
              .Run());
    }
    return {};
  }));
}

Result<std::vector<DelayedSlices>> SqliteEngine::ListDelayedSlices(const Context& ctx,
                                                                   std::int64_t before,
                                                                   std::size_t limit) {
  std::vector<DelayedSlices> delayed;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows = database.Prepare(
        "SELECT chunkid, deleted, slices FROM jfs_delslices WHERE deleted<=? LIMIT ?");
    rows.Int(before).Int(Int(std::uint64_t{limit}));
    return ForEachRow(rows, [&]() -> Result<void> {
      ASSIGN_OR_RETURN(auto slices, DecodeSliceKeys(rows.BytesAt(2)));
      delayed.push_back({.key = std::to_string(rows.IntAt(0)),
                         .deleted = rows.IntAt(1),
                         .slices = std::move(slices)});
      return {};
    });
  }));
  return delayed;
}

Result<std::vector<SliceKey>> SqliteEngine::ReleaseDelayedSlices(const Context& ctx,
                                                                 const DelayedSlices& delayed) {
  ASSIGN_OR_RETURN(TxnOutcome outcome,
                   Write(ctx, [&](Database& database, SqliteTxn& txn) -> Result<void> {
                     RETURN_IF_ERROR(database
                                         .Prepare("DELETE FROM jfs_delslices WHERE "
                                                  "chunkid=CAST(? AS INTEGER)")
                                         .Text(delayed.key)
                                         .Run());
                     // Another client was faster: the references are its to drop.
                     if (database.Changes() == 0) return {};
                     for (const SliceKey& slice : delayed.slices) txn.ReleaseSlice(slice);
                     return {};
                   }));
  return std::move(outcome.garbage);
}

Result<std::optional<DirUsage>> SqliteEngine::GetDirUsage(const Context& ctx, Ino ino) {
  std::optional<DirUsage> usage;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement row = database.Prepare(
        "SELECT data_length, used_space, used_inodes FROM jfs_dir_stats WHERE inode=?");
    row.Int(Int(ino));
    ASSIGN_OR_RETURN(const bool found, row.Step());
    if (found) {
      usage = {.length = row.IntAt(0), .space = row.IntAt(1), .inodes = row.IntAt(2)};
    }
    return {};
  }));
  return usage;
}

Result<DirUsage> SqliteEngine::SyncDirUsage(const Context& ctx, Ino ino) {
  RETURN_IF_ERROR(Done(
      Write(ctx, [&](Database& database, SqliteTxn&) { return RecountDirUsage(database, ino); })));
  ASSIGN_OR_RETURN(const auto usage, GetDirUsage(ctx, ino));
  return usage.value_or(DirUsage{});
}

Result<std::vector<std::pair<Ino, DirQuota>>> SqliteEngine::ListDirQuotas(const Context& ctx) {
  std::vector<std::pair<Ino, DirQuota>> quotas;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows = database.Prepare(
        "SELECT inode, max_space, max_inodes, used_space, used_inodes FROM jfs_dir_quota");
    return ForEachRow(rows, [&]() -> Result<void> {
      quotas.emplace_back(InoAt(rows, 0), DirQuota{.max_space = rows.IntAt(1),
                                                   .max_inodes = rows.IntAt(2),
                                                   .used_space = rows.IntAt(3),
                                                   .used_inodes = rows.IntAt(4)});
      return {};
    });
  }));
  return quotas;
}

Result<void> SqliteEngine::PutDirQuota(const Context& ctx, Ino ino, const DirQuota& quota) {
  return Done(Write(ctx, [&](Database& database, SqliteTxn&) {
    return database
        .Prepare(
            "INSERT INTO jfs_dir_quota(inode, max_space, max_inodes, used_space, used_inodes) "
            "VALUES(?,?,?,?,?) ON CONFLICT(inode) DO UPDATE SET max_space=excluded.max_space, "
            "max_inodes=excluded.max_inodes, used_space=excluded.used_space, "
            "used_inodes=excluded.used_inodes")
        .Int(Int(ino))
        .Int(quota.max_space)
        .Int(quota.max_inodes)
        .Int(quota.used_space)
        .Int(quota.used_inodes)
        .Run();
  }));
}

Result<void> SqliteEngine::DeleteDirQuota(const Context& ctx, Ino ino) {
  return Done(Write(ctx, [&](Database& database, SqliteTxn&) {
    return database.Prepare("DELETE FROM jfs_dir_quota WHERE inode=?").Int(Int(ino)).Run();
  }));
}

}  // namespace paddleop::volume
