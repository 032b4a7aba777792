// Reads of single things, and scans.
#include "volume/format/codec.h"
#include "volume/meta/sqlite/sqlite_engine.h"

namespace paddleop::volume {
namespace {

// Ends the read transaction that keeps several statements on one snapshot.
class Snapshot {
 public:
  static Result<Snapshot> Begin(Database& database) {
    RETURN_IF_ERROR(database.Execute("BEGIN"));
    return Snapshot(database);
  }
  ~Snapshot() {
    if (database_ != nullptr) (void)database_->Execute("ROLLBACK");
  }
  Snapshot(Snapshot&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Snapshot& operator=(Snapshot&&) = delete;

 private:
  explicit Snapshot(Database& database) : database_(&database) {}
  Database* database_;
};

constexpr int kCheckEvery = 4096;

template <class Fn>
Result<void> ForEachRow(const Context& ctx, Statement& rows, Fn&& fn) {
  for (int n = 0;; ++n) {
    if (n % kCheckEvery == 0) RETURN_IF_ERROR(ctx.Check());
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return {};
    RETURN_IF_ERROR(fn(rows));
  }
}

Result<std::vector<Slice>> SlicesAt(const Statement& row, int column, Ino ino) {
  auto slices = DecodeSlices(row.BytesAt(column));
  if (!slices) {
    return std::unexpected(std::move(slices).error().Wrap(fmt::format("inode {}", ToInt(ino))));
  }
  return slices;
}

Result<void> ScanWhole(const Context& ctx, Database& database, const NodeSql& sql, TreeSink& sink) {
  Statement nodes = database.Prepare(sql.scan.c_str());
  RETURN_IF_ERROR(ForEachRow(ctx, nodes, [&](const Statement& row) {
    return sink.Node(InoAt(row, 0), ReadNode(row, 1));
  }));
  Statement edges = database.Prepare("SELECT parent, name, inode, type FROM jfs_edge");
  return ForEachRow(ctx, edges, [&](const Statement& row) {
    return sink.Entry(InoAt(row, 0), row.BytesAt(1),
                      {.ino = InoAt(row, 2), .type = static_cast<FileType>(row.IntAt(3))});
  });
}

// What a tree has beside names and attributes: rows of a table `t` for the inodes of one type (1 is
// a file, 2 a directory, 3 a symbolic link) below ?1.
std::string Below(int type, std::string_view columns, std::string_view table) {
  return fmt::format(
      "WITH RECURSIVE d(ino) AS (SELECT ?1 UNION SELECT e.inode FROM d JOIN jfs_edge e ON "
      "e.parent=d.ino WHERE e.type=2), f(ino) AS (SELECT ?1 UNION SELECT e.inode FROM d JOIN "
      "jfs_edge e ON e.parent=d.ino WHERE e.type={}) SELECT {} FROM f JOIN {} t ON t.inode=f.ino",
      type, columns, table);
}

constexpr const char* kAllChunks = "SELECT inode, indx, slices FROM jfs_chunk";

Result<void> ScanBelow(const Context& ctx, Database& database, const NodeSql& sql, Ino root,
                       TreeSink& sink) {
  std::optional<Attr> attr;
  RETURN_IF_ERROR(AnswerReads(database, sql, ReadSet().Attr(root, &attr)));
  if (!attr) return Fail(Code::kNotFound, "there is no inode {}", ToInt(root));
  RETURN_IF_ERROR(sink.Node(root, *attr));
  Statement rows = database.Prepare(sql.scan_subtree.c_str());
  rows.Int(Int(root));
  return ForEachRow(ctx, rows, [&](const Statement& row) -> Result<void> {
    const Edge edge{.ino = InoAt(row, 2), .type = static_cast<FileType>(row.IntAt(3))};
    RETURN_IF_ERROR(sink.Entry(InoAt(row, 0), row.BytesAt(1), edge));
    if (row.IntAt(4) == 0) return {};
    return sink.Node(edge.ino, ReadNode(row, 5));
  });
}

}  // namespace

Result<std::optional<MetaEngine::Found>> SqliteEngine::FindEntry(const Context& ctx, Ino parent,
                                                                 std::string_view name) {
  std::optional<Found> found;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql& sql) -> Result<void> {
    Statement row = database.Prepare(sql.find.c_str());
    row.Int(Int(parent)).Blob(name);
    ASSIGN_OR_RETURN(const bool any, row.Step());
    if (!any) return {};
    found.emplace();
    found->edge = {.ino = InoAt(row, 0), .type = static_cast<FileType>(row.IntAt(1))};
    if (row.IntAt(2) != 0) found->attr = ReadNode(row, 3);
    return {};
  }));
  return found;
}

Result<DirPage> SqliteEngine::ReadDir(const Context& ctx, Ino ino, std::string_view cursor,
                                      std::size_t limit, bool with_attrs) {
  DirPage page;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql& sql) -> Result<void> {
    Statement rows = database.Prepare(
        with_attrs
            ? sql.list.c_str()
            : "SELECT name, inode, type FROM jfs_edge WHERE parent=? AND name>? ORDER BY name "
              "LIMIT ?");
    rows.Int(Int(ino)).Blob(cursor).Int(static_cast<std::int64_t>(limit));
    return ForEachRow(ctx, rows, [&](const Statement& row) -> Result<void> {
      DirEntry& entry = page.entries.emplace_back();
      entry.name = row.BytesAt(0);
      entry.ino = InoAt(row, 1);
      entry.type = static_cast<FileType>(row.IntAt(2));
      if (with_attrs && row.IntAt(3) != 0) entry.attr = ReadNode(row, 4);
      return {};
    });
  }));
  if (page.entries.size() == limit && limit > 0) page.next = page.entries.back().name;
  return page;
}

Result<std::optional<std::string>> SqliteEngine::ReadSymlink(const Context& ctx, Ino ino) {
  std::optional<std::string> target;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement row = database.Prepare("SELECT target FROM jfs_symlink WHERE inode=?");
    row.Int(Int(ino));
    ASSIGN_OR_RETURN(const bool found, row.Step());
    if (found) target = row.BytesAt(0);
    return {};
  }));
  return target;
}

Result<std::vector<std::string>> SqliteEngine::ListXattr(const Context& ctx, Ino ino) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows = database.Prepare("SELECT name FROM jfs_xattr WHERE inode=? ORDER BY name");
    rows.Int(Int(ino));
    return ForEachRow(ctx, rows, [&](const Statement& row) -> Result<void> {
      names.emplace_back(row.BytesAt(0));
      return {};
    });
  }));
  return names;
}

Result<void> SqliteEngine::ScanTree(const Context& ctx, Ino root, bool with_slices,
                                    TreeSink& sink) {
  return Read(ctx, [&](Database& database, const NodeSql& sql) -> Result<void> {
    ASSIGN_OR_RETURN(const auto snapshot, Snapshot::Begin(database));
    if (root == kRootIno) {
      RETURN_IF_ERROR(ScanWhole(ctx, database, sql, sink));
    } else {
      RETURN_IF_ERROR(ScanBelow(ctx, database, sql, root, sink));
    }
    if (!with_slices) return {};
    // Statements are found again by the address of their text.
    static const std::string links_below = Below(3, "t.inode, t.target", "jfs_symlink");
    static const std::string chunks_below = Below(1, "t.inode, t.indx, t.slices", "jfs_chunk");
    Statement links = database.Prepare(root == kRootIno ? "SELECT inode, target FROM jfs_symlink"
                                                        : links_below.c_str());
    if (root != kRootIno) links.Int(Int(root));
    RETURN_IF_ERROR(ForEachRow(ctx, links, [&](const Statement& row) {
      return sink.Link(InoAt(row, 0), row.BytesAt(1));
    }));
    Statement chunks = database.Prepare(root == kRootIno ? kAllChunks : chunks_below.c_str());
    if (root != kRootIno) chunks.Int(Int(root));
    return ForEachRow(ctx, chunks, [&](const Statement& row) -> Result<void> {
      ASSIGN_OR_RETURN(const auto slices, SlicesAt(row, 2, InoAt(row, 0)));
      return sink.Chunk(InoAt(row, 0), static_cast<std::uint32_t>(row.IntAt(1)), slices);
    });
  });
}

Result<void> SqliteEngine::ScanChunks(
    const Context& ctx,
    const std::function<Result<void>(Ino, std::uint32_t, std::vector<Slice>)>& fn) {
  return Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows = database.Prepare(kAllChunks);
    return ForEachRow(ctx, rows, [&](const Statement& row) -> Result<void> {
      ASSIGN_OR_RETURN(auto slices, SlicesAt(row, 2, InoAt(row, 0)));
      return fn(InoAt(row, 0), static_cast<std::uint32_t>(row.IntAt(1)), std::move(slices));
    });
  });
}

Result<void> SqliteEngine::ScanSliceRefs(
    const Context& ctx, const std::function<Result<void>(SliceKey, std::int64_t)>& fn) {
  return Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement rows = database.Prepare("SELECT chunkid, size, refs FROM jfs_chunk_ref");
    return ForEachRow(ctx, rows, [&](const Statement& row) -> Result<void> {
      return fn({.id = static_cast<std::uint64_t>(row.IntAt(0)),
                 .size = static_cast<std::uint32_t>(row.IntAt(1))},
                row.IntAt(2));
    });
  });
}

}  // namespace paddleop::volume
