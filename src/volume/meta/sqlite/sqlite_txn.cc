#include "volume/meta/sqlite/sqlite_txn.h"

#include "volume/format/codec.h"

namespace paddleop::volume {
namespace {

// Times are microseconds with the rest of the nanoseconds in a column of their own.
std::int64_t Micros(const Timestamp& time) { return time.seconds * 1'000'000 + time.nanos / 1000; }

Timestamp FromMicros(std::int64_t micros, std::int64_t rest) {
  std::int64_t seconds = micros / 1'000'000;
  std::int64_t left = micros % 1'000'000;
  if (left < 0) {
    left += 1'000'000;
    --seconds;
  }
  return {.seconds = seconds, .nanos = static_cast<std::uint32_t>(left * 1000 + rest)};
}

Result<void> AnswerAttr(Database& database, const NodeSql& sql, const ReadSet::Request& request) {
  auto& out = *static_cast<std::optional<Attr>*>(request.target);
  Statement row = database.Prepare(sql.select.c_str());
  row.Int(Int(request.ino));
  ASSIGN_OR_RETURN(const bool found, row.Step());
  out = found ? std::optional(ReadNode(row, 0)) : std::nullopt;
  return {};
}

Result<void> AnswerEdge(Database& database, const ReadSet::Request& request) {
  auto& out = *static_cast<std::optional<Edge>*>(request.target);
  Statement row = database.Prepare("SELECT inode, type FROM jfs_edge WHERE parent=? AND name=?");
  row.Int(Int(request.ino)).Blob(request.name);
  ASSIGN_OR_RETURN(const bool found, row.Step());
  out.reset();
  if (found) {
    out = Edge{.ino = Ino{static_cast<std::uint64_t>(row.IntAt(0))},
               .type = static_cast<FileType>(row.IntAt(1))};
  }
  return {};
}

Result<void> AnswerChunk(Database& database, const ReadSet::Request& request) {
  auto& out = *static_cast<std::optional<std::vector<Slice>>*>(request.target);
  Statement row = database.Prepare("SELECT slices FROM jfs_chunk WHERE inode=? AND indx=?");
  row.Int(Int(request.ino)).Int(request.first);
  ASSIGN_OR_RETURN(const bool found, row.Step());
  out.reset();
  if (!found) return {};
  auto slices = DecodeSlices(row.BytesAt(0));
  if (!slices) {
    return std::unexpected(std::move(slices).error().Wrap(
        fmt::format("inode {} chunk {}", ToInt(request.ino), request.first)));
  }
  out = *std::move(slices);
  return {};
}

Result<void> AnswerChunkIndexes(Database& database, const ReadSet::Request& request) {
  auto& out = *static_cast<std::vector<std::uint32_t>*>(request.target);
  out.clear();
  Statement rows = database.Prepare(
      "SELECT indx FROM jfs_chunk WHERE inode=? AND indx BETWEEN ? AND ? ORDER BY indx");
  rows.Int(Int(request.ino)).Int(request.first).Int(request.last);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return {};
    out.push_back(static_cast<std::uint32_t>(rows.IntAt(0)));
  }
}

Result<void> AnswerParents(Database& database, const ReadSet::Request& request) {
  auto& out = *static_cast<std::vector<ParentCount>*>(request.target);
  out.clear();
  Statement rows =
      database.Prepare("SELECT parent, count(*) FROM jfs_edge WHERE inode=? GROUP BY parent");
  rows.Int(Int(request.ino));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return {};
    out.push_back(
        {.parent = Ino{static_cast<std::uint64_t>(rows.IntAt(0))}, .count = rows.IntAt(1)});
  }
}

Result<void> Answer(Database& database, const NodeSql& sql, const ReadSet::Request& request) {
  switch (request.kind) {
    case ReadSet::Kind::kAttr:
      return AnswerAttr(database, sql, request);
    case ReadSet::Kind::kEdge:
      return AnswerEdge(database, request);
    case ReadSet::Kind::kHasChildren: {
      Statement row = database.Prepare("SELECT 1 FROM jfs_edge WHERE parent=? LIMIT 1");
      row.Int(Int(request.ino));
      ASSIGN_OR_RETURN(*static_cast<bool*>(request.target), row.Step());
      return {};
    }
    case ReadSet::Kind::kChunk:
      return AnswerChunk(database, request);
    case ReadSet::Kind::kChunkIndexes:
      return AnswerChunkIndexes(database, request);
    case ReadSet::Kind::kXattr: {
      auto& out = *static_cast<std::optional<std::string>*>(request.target);
      Statement row = database.Prepare("SELECT value FROM jfs_xattr WHERE inode=? AND name=?");
      row.Int(Int(request.ino)).Text(request.name);
      ASSIGN_OR_RETURN(const bool found, row.Step());
      out.reset();
      if (found) out = row.BytesAt(0);
      return {};
    }
    case ReadSet::Kind::kParents:
      return AnswerParents(database, request);
  }
  return Fail(Code::kInternal, "unknown read");
}

}  // namespace

Attr ReadNode(const Statement& row, int column) {
  auto at = [&](int i) { return row.IntAt(column + i); };
  Attr attr;
  attr.type = static_cast<FileType>(at(0));
  attr.flags = static_cast<std::uint8_t>(at(1));
  attr.mode = static_cast<std::uint16_t>(at(2) & 0xFFF);
  attr.uid = static_cast<std::uint32_t>(at(3));
  attr.gid = static_cast<std::uint32_t>(at(4));
  attr.atime = FromMicros(at(5), at(8));
  attr.mtime = FromMicros(at(6), at(9));
  attr.ctime = FromMicros(at(7), at(10));
  attr.nlink = static_cast<std::uint32_t>(at(11));
  attr.length = static_cast<std::uint64_t>(at(12));
  attr.rdev = static_cast<std::uint32_t>(at(13));
  attr.parent = Ino{static_cast<std::uint64_t>(at(14))};
  attr.access_acl = static_cast<std::uint32_t>(at(15));
  attr.default_acl = static_cast<std::uint32_t>(at(16));
  return attr;
}

Result<void> AnswerReads(Database& database, const NodeSql& sql, const ReadSet& reads) {
  for (const ReadSet::Request& request : reads.requests()) {
    RETURN_IF_ERROR(Answer(database, sql, request));
  }
  return {};
}

void SqliteTxn::InsertNode(Ino ino, const Attr& attr) {
  Keep(database_
           .Prepare("INSERT INTO jfs_node(inode, type, flags, mode, uid, gid, atime, mtime, ctime, "
                    "atimensec, mtimensec, ctimensec, nlink, length, rdev, parent, access_acl_id, "
                    "default_acl_id) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
           .Int(Int(ino))
           .Int(static_cast<int>(attr.type))
           .Int(attr.flags)
           .Int(attr.mode)
           .Int(attr.uid)
           .Int(attr.gid)
           .Int(Micros(attr.atime))
           .Int(Micros(attr.mtime))
           .Int(Micros(attr.ctime))
           .Int(attr.atime.nanos % 1000)
           .Int(attr.mtime.nanos % 1000)
           .Int(attr.ctime.nanos % 1000)
           .Int(attr.nlink)
           .Int(static_cast<std::int64_t>(attr.length))
           .Int(attr.rdev)
           .Int(Int(attr.parent))
           .Int(attr.access_acl)
           .Int(attr.default_acl)
           .Run());
}

// Leaves type, device, ACL and tier columns as they are: nothing of ours changes them.
void SqliteTxn::UpdateNode(Ino ino, const Attr& attr) {
  Keep(database_
           .Prepare(
               "UPDATE jfs_node SET flags=?, mode=?, uid=?, gid=?, atime=?, mtime=?, ctime=?, "
               "atimensec=?, mtimensec=?, ctimensec=?, nlink=?, length=?, parent=? WHERE inode=?")
           .Int(attr.flags)
           .Int(attr.mode)
           .Int(attr.uid)
           .Int(attr.gid)
           .Int(Micros(attr.atime))
           .Int(Micros(attr.mtime))
           .Int(Micros(attr.ctime))
           .Int(attr.atime.nanos % 1000)
           .Int(attr.mtime.nanos % 1000)
           .Int(attr.ctime.nanos % 1000)
           .Int(attr.nlink)
           .Int(static_cast<std::int64_t>(attr.length))
           .Int(Int(attr.parent))
           .Int(Int(ino))
           .Run());
}

void SqliteTxn::DeleteNode(Ino ino) {
  Keep(database_.Prepare("DELETE FROM jfs_node WHERE inode=?").Int(Int(ino)).Run());
}

void SqliteTxn::PutEdge(Ino parent, std::string_view name, const Edge& edge) {
  Keep(database_
           .Prepare("INSERT INTO jfs_edge(parent, name, inode, type) VALUES(?,?,?,?) ON "
                    "CONFLICT(parent, name) DO UPDATE SET inode=excluded.inode, type=excluded.type")
           .Int(Int(parent))
           .Blob(name)
           .Int(Int(edge.ino))
           .Int(static_cast<int>(edge.type))
           .Run());
}

void SqliteTxn::DeleteEdge(Ino parent, std::string_view name) {
  Keep(database_.Prepare("DELETE FROM jfs_edge WHERE parent=? AND name=?")
           .Int(Int(parent))
           .Blob(name)
           .Run());
}

void SqliteTxn::PutSymlink(Ino ino, std::string_view target) {
  Keep(database_.Prepare("INSERT INTO jfs_symlink(inode, target) VALUES(?,?)")
           .Int(Int(ino))
           .Blob(target)
           .Run());
}

void SqliteTxn::DeleteSymlink(Ino ino) {
  Keep(database_.Prepare("DELETE FROM jfs_symlink WHERE inode=?").Int(Int(ino)).Run());
}

void SqliteTxn::PutXattr(Ino ino, std::string_view name, std::string_view value) {
  Keep(database_
           .Prepare(
               "INSERT INTO jfs_xattr(inode, name, value) VALUES(?,?,?) ON CONFLICT(inode, name) "
               "DO UPDATE SET value=excluded.value")
           .Int(Int(ino))
           .Text(name)
           .Blob(value)
           .Run());
}

void SqliteTxn::DeleteXattr(Ino ino, std::string_view name) {
  Keep(database_.Prepare("DELETE FROM jfs_xattr WHERE inode=? AND name=?")
           .Int(Int(ino))
           .Text(name)
           .Run());
}

void SqliteTxn::DeleteXattrs(Ino ino) {
  Keep(database_.Prepare("DELETE FROM jfs_xattr WHERE inode=?").Int(Int(ino)).Run());
}

void SqliteTxn::AppendSlices(Ino ino, std::uint32_t index, std::span<const Slice> slices) {
  const std::string bytes = EncodeSlices(slices);
  Keep(database_
           .Prepare(
               "INSERT INTO jfs_chunk(inode, indx, slices) VALUES(?,?,?) ON CONFLICT(inode, indx) "
               "DO UPDATE SET slices=CAST(slices || excluded.slices AS BLOB)")
           .Int(Int(ino))
           .Int(index)
           .Blob(bytes)
           .Run());
}

void SqliteTxn::DeleteChunk(Ino ino, std::uint32_t index) {
  Keep(database_.Prepare("DELETE FROM jfs_chunk WHERE inode=? AND indx=?")
           .Int(Int(ino))
           .Int(index)
           .Run());
}

void SqliteTxn::NewSlice(const SliceKey& slice, std::int64_t references) {
  Keep(database_.Prepare("INSERT INTO jfs_chunk_ref(chunkid, size, refs) VALUES(?,?,?)")
           .Int(static_cast<std::int64_t>(slice.id))
           .Int(slice.size)
           .Int(references)
           .Run());
}

void SqliteTxn::RetainSlice(const SliceKey& slice, std::int64_t references) {
  Keep(database_.Prepare("UPDATE jfs_chunk_ref SET refs=refs+? WHERE chunkid=? AND size=?")
           .Int(references)
           .Int(static_cast<std::int64_t>(slice.id))
           .Int(slice.size)
           .Run());
  if (!error_ && database_.Changes() != 1) {
    Keep(Fail(Code::kCorrupt, "slice {} of {} bytes has no reference count", slice.id, slice.size));
  }
}

void SqliteTxn::ReleaseSlice(const SliceKey& slice) {
  Statement row = database_.Prepare(
      "UPDATE jfs_chunk_ref SET refs=refs-1 WHERE chunkid=? AND size=? RETURNING refs");
  row.Int(static_cast<std::int64_t>(slice.id)).Int(slice.size);
  auto found = row.Step();
  if (!found) {
    Keep(std::unexpected(std::move(found).error()));
    return;
  }
  if (*found && row.IntAt(0) <= 0) outcome_.garbage.push_back(slice);
}

void SqliteTxn::AddUsage(std::int64_t space, std::int64_t inodes) {
  space_ += space;
  inodes_ += inodes;
}

void SqliteTxn::InitDirUsage(Ino ino) {
  Keep(database_
           .Prepare("INSERT INTO jfs_dir_stats(inode, data_length, used_space, used_inodes) "
                    "VALUES(?,0,0,0) ON CONFLICT(inode) DO UPDATE SET data_length=0, used_space=0, "
                    "used_inodes=0")
           .Int(Int(ino))
           .Run());
}

void SqliteTxn::AddDirUsage(Ino ino, const DirUsage& delta) { dir_usage_[ino] += delta; }

void SqliteTxn::DeleteDirUsage(Ino ino) {
  Keep(database_.Prepare("DELETE FROM jfs_dir_stats WHERE inode=?").Int(Int(ino)).Run());
  Keep(database_.Prepare("DELETE FROM jfs_dir_quota WHERE inode=?").Int(Int(ino)).Run());
}

void SqliteTxn::AddQuotaUsage(Ino ino, std::int64_t space, std::int64_t inodes) {
  Keep(database_
           .Prepare(
               "UPDATE jfs_dir_quota SET used_space=used_space+?, used_inodes=used_inodes+? WHERE "
               "inode=?")
           .Int(space)
           .Int(inodes)
           .Int(Int(ino))
           .Run());
}

void SqliteTxn::QueueDeletion(Ino ino, std::uint64_t length, std::int64_t now) {
  Keep(database_
           .Prepare(
               "INSERT INTO jfs_delfile(inode, length, expire) VALUES(?,?,?) ON CONFLICT(inode) DO "
               "UPDATE SET length=excluded.length, expire=excluded.expire")
           .Int(Int(ino))
           .Int(static_cast<std::int64_t>(length))
           .Int(now)
           .Run());
}

void SqliteTxn::ForgetDeletion(Ino ino, std::uint64_t) {
  Keep(database_.Prepare("DELETE FROM jfs_delfile WHERE inode=?").Int(Int(ino)).Run());
}

void SqliteTxn::Sustain(std::uint64_t sid, Ino ino) {
  Keep(database_.Prepare("INSERT OR IGNORE INTO jfs_sustained(sid, inode) VALUES(?,?)")
           .Int(static_cast<std::int64_t>(sid))
           .Int(Int(ino))
           .Run());
}

void SqliteTxn::Unsustain(std::uint64_t sid, Ino ino) {
  Keep(database_.Prepare("DELETE FROM jfs_sustained WHERE sid=? AND inode=?")
           .Int(static_cast<std::int64_t>(sid))
           .Int(Int(ino))
           .Run());
}

Result<void> RecountDirUsage(Database& database, Ino ino) {
  return database
      .Prepare(
          "INSERT INTO jfs_dir_stats(inode, data_length, used_space, used_inodes) SELECT ?1, "
          "ifnull(sum(CASE n.type WHEN 1 THEN n.length ELSE 0 END), 0), "
          "ifnull(sum(CASE n.type WHEN 1 THEN max(4096, (n.length+4095)/4096*4096) ELSE 4096 END), "
          "0), "
          "count(*) FROM jfs_edge e JOIN jfs_node n ON n.inode=e.inode WHERE e.parent=?1 "
          "ON CONFLICT(inode) DO UPDATE SET data_length=excluded.data_length, "
          "used_space=excluded.used_space, used_inodes=excluded.used_inodes")
      .Int(Int(ino))
      .Run();
}

Result<void> SqliteTxn::Finish() {
  if (error_) return std::unexpected(*std::move(error_));
  if (space_ != 0 || inodes_ != 0) {
    RETURN_IF_ERROR(
        database_
            .Prepare("UPDATE jfs_counter SET value=value+CASE name WHEN 'usedSpace' THEN ? "
                     "ELSE ? END WHERE name IN ('usedSpace', 'totalInodes')")
            .Int(space_)
            .Int(inodes_)
            .Run());
  }
  for (const auto& [ino, delta] : dir_usage_) {
    RETURN_IF_ERROR(database_
                        .Prepare("UPDATE jfs_dir_stats SET data_length=data_length+?, "
                                 "used_space=used_space+?, used_inodes=used_inodes+? WHERE inode=?")
                        .Int(delta.length)
                        .Int(delta.space)
                        .Int(delta.inodes)
                        .Int(Int(ino))
                        .Run());
    // The official client makes no record for the root when it formats.
    if (database_.Changes() == 0) RETURN_IF_ERROR(RecountDirUsage(database_, ino));
  }
  return {};
}

}  // namespace paddleop::volume
