#include "volume/meta/sqlite/schema.h"

#include <algorithm>
#include <array>
#include <vector>

namespace paddleop::volume {
namespace {

struct Item {
  const char* name;
  const char* sql;
};

constexpr Item kItems[] = {
    {"jfs_setting",
     "CREATE TABLE `jfs_setting` (`name` TEXT PRIMARY KEY NOT NULL, `value` TEXT NOT NULL)"},
    {"jfs_counter",
     "CREATE TABLE `jfs_counter` (`name` TEXT PRIMARY KEY NOT NULL, `value` INTEGER NOT NULL)"},
    {"jfs_edge",
     "CREATE TABLE `jfs_edge` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `parent` INTEGER "
     "NOT NULL, "
     "`name` BLOB NOT NULL, `inode` INTEGER NOT NULL, `type` INTEGER NOT NULL)"},
    {"UQE_jfs_edge_edge",
     "CREATE UNIQUE INDEX `UQE_jfs_edge_edge` ON `jfs_edge` (`parent`,`name`)"},
    {"IDX_jfs_edge_inode", "CREATE INDEX `IDX_jfs_edge_inode` ON `jfs_edge` (`inode`)"},
    {"jfs_node",
     "CREATE TABLE `jfs_node` (`inode` INTEGER PRIMARY KEY NOT NULL, `type` INTEGER NOT NULL, "
     "`flags` INTEGER NOT NULL, "
     "`mode` INTEGER NOT NULL, `uid` INTEGER NOT NULL, `gid` INTEGER NOT NULL, `atime` INTEGER NOT "
     "NULL, "
     "`mtime` INTEGER NOT NULL, `ctime` INTEGER NOT NULL, `atimensec` INTEGER DEFAULT 0 NOT NULL, "
     "`mtimensec` INTEGER DEFAULT 0 NOT NULL, `ctimensec` INTEGER DEFAULT 0 NOT NULL, `nlink` "
     "INTEGER NOT NULL, "
     "`length` INTEGER NOT NULL, `rdev` INTEGER NULL, `parent` INTEGER NULL, `access_acl_id` "
     "INTEGER NULL, "
     "`default_acl_id` INTEGER NULL)"},
    {"jfs_symlink",
     "CREATE TABLE `jfs_symlink` (`inode` INTEGER PRIMARY KEY NOT NULL, `target` BLOB NOT NULL)"},
    {"jfs_xattr",
     "CREATE TABLE `jfs_xattr` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `inode` INTEGER "
     "NOT NULL, "
     "`name` TEXT NOT NULL, `value` BLOB NOT NULL)"},
    {"UQE_jfs_xattr_name",
     "CREATE UNIQUE INDEX `UQE_jfs_xattr_name` ON `jfs_xattr` (`inode`,`name`)"},
    {"jfs_chunk",
     "CREATE TABLE `jfs_chunk` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `inode` INTEGER "
     "NOT NULL, "
     "`indx` INTEGER NOT NULL, `slices` BLOB NOT NULL)"},
    {"UQE_jfs_chunk_chunk",
     "CREATE UNIQUE INDEX `UQE_jfs_chunk_chunk` ON `jfs_chunk` (`inode`,`indx`)"},
    {"jfs_chunk_ref",
     "CREATE TABLE `jfs_chunk_ref` (`chunkid` INTEGER PRIMARY KEY NOT NULL, `size` INTEGER NOT "
     "NULL, "
     "`refs` INTEGER NOT NULL)"},
    {"IDX_jfs_chunk_ref_refs", "CREATE INDEX `IDX_jfs_chunk_ref_refs` ON `jfs_chunk_ref` (`refs`)"},
    {"jfs_delslices",
     "CREATE TABLE `jfs_delslices` (`chunkid` INTEGER PRIMARY KEY NOT NULL, `deleted` INTEGER NOT "
     "NULL, "
     "`slices` BLOB NOT NULL)"},
    {"jfs_session2",
     "CREATE TABLE `jfs_session2` (`sid` INTEGER PRIMARY KEY NOT NULL, `expire` INTEGER NOT NULL, "
     "`info` BLOB NULL)"},
    {"jfs_sustained",
     "CREATE TABLE `jfs_sustained` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `sid` INTEGER "
     "NOT NULL, "
     "`inode` INTEGER NOT NULL)"},
    {"UQE_jfs_sustained_sustained",
     "CREATE UNIQUE INDEX `UQE_jfs_sustained_sustained` ON `jfs_sustained` (`sid`,`inode`)"},
    {"jfs_delfile",
     "CREATE TABLE `jfs_delfile` (`inode` INTEGER PRIMARY KEY NOT NULL, `length` INTEGER NOT NULL, "
     "`expire` INTEGER NOT NULL)"},
    {"jfs_flock",
     "CREATE TABLE `jfs_flock` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `inode` INTEGER "
     "NOT NULL, "
     "`sid` INTEGER NOT NULL, `owner` INTEGER NOT NULL, `ltype` INTEGER NOT NULL)"},
    {"UQE_jfs_flock_flock",
     "CREATE UNIQUE INDEX `UQE_jfs_flock_flock` ON `jfs_flock` (`inode`,`sid`,`owner`)"},
    {"jfs_plock",
     "CREATE TABLE `jfs_plock` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `inode` INTEGER "
     "NOT NULL, "
     "`sid` INTEGER NOT NULL, `owner` INTEGER NOT NULL, `records` BLOB NOT NULL)"},
    {"UQE_jfs_plock_plock",
     "CREATE UNIQUE INDEX `UQE_jfs_plock_plock` ON `jfs_plock` (`inode`,`sid`,`owner`)"},
    {"jfs_dir_quota",
     "CREATE TABLE `jfs_dir_quota` (`inode` INTEGER PRIMARY KEY NOT NULL, `max_space` INTEGER NOT "
     "NULL, "
     "`max_inodes` INTEGER NOT NULL, `used_space` INTEGER NOT NULL, `used_inodes` INTEGER NOT "
     "NULL)"},
    {"jfs_dir_stats",
     "CREATE TABLE `jfs_dir_stats` (`inode` INTEGER PRIMARY KEY NOT NULL, `data_length` INTEGER "
     "NOT NULL, "
     "`used_space` INTEGER NOT NULL, `used_inodes` INTEGER NOT NULL)"},
    {"jfs_detached_node",
     "CREATE TABLE `jfs_detached_node` (`inode` INTEGER PRIMARY KEY NOT NULL, `added` INTEGER NOT "
     "NULL)"},
    {"jfs_acl",
     "CREATE TABLE `jfs_acl` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `owner` INTEGER "
     "NULL, "
     "`group` INTEGER NULL, `mask` INTEGER NULL, `other` INTEGER NULL, `named_users` BLOB NULL, "
     "`named_groups` BLOB NULL)"},
};

// Columns later releases added to jfs_node.
constexpr Item kNodeColumns[] = {
    {"atimensec", "ALTER TABLE `jfs_node` ADD `atimensec` INTEGER DEFAULT 0 NOT NULL"},
    {"mtimensec", "ALTER TABLE `jfs_node` ADD `mtimensec` INTEGER DEFAULT 0 NOT NULL"},
    {"ctimensec", "ALTER TABLE `jfs_node` ADD `ctimensec` INTEGER DEFAULT 0 NOT NULL"},
    {"access_acl_id", "ALTER TABLE `jfs_node` ADD `access_acl_id` INTEGER NULL"},
    {"default_acl_id", "ALTER TABLE `jfs_node` ADD `default_acl_id` INTEGER NULL"},
};

using Names = std::vector<std::string>;

Result<Names> ReadNames(Database& database, const char* sql) {
  Names names;
  Statement rows = database.Prepare(sql);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return names;
    names.emplace_back(rows.BytesAt(0));
  }
}

bool Contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Result<bool> HasSchema(Database& database) {
  ASSIGN_OR_RETURN(const Names tables,
                   ReadNames(database, "SELECT name FROM sqlite_master WHERE name='jfs_setting'"));
  return !tables.empty();
}

Result<bool> CreateOrUpgradeSchema(Database& database) {
  bool changed = false;
  ASSIGN_OR_RETURN(const Names items, ReadNames(database, "SELECT name FROM sqlite_master"));
  for (const Item& item : kItems) {
    if (Contains(items, item.name)) continue;
    RETURN_IF_ERROR(database.Execute(item.sql));
    changed = true;
  }
  ASSIGN_OR_RETURN(const Names columns,
                   ReadNames(database, "SELECT name FROM pragma_table_info('jfs_node')"));
  for (const Item& column : kNodeColumns) {
    if (Contains(columns, column.name)) continue;
    RETURN_IF_ERROR(database.Execute(column.sql));
    changed = true;
  }
  return changed;
}

Result<NodeSql> DescribeNodes(Database& database) {
  ASSIGN_OR_RETURN(const Names present,
                   ReadNames(database, "SELECT name FROM pragma_table_info('jfs_node')"));
  NodeSql sql;
  for (const char* column :
       {"type", "flags", "mode", "uid", "gid", "atime", "mtime", "ctime", "atimensec", "mtimensec",
        "ctimensec", "nlink", "length", "rdev", "parent", "access_acl_id", "default_acl_id"}) {
    if (!sql.columns.empty()) sql.columns += ", ";
    sql.columns += Contains(present, column) ? fmt::format("n.{}", column) : "0";
  }
  sql.select = fmt::format("SELECT {} FROM jfs_node n WHERE n.inode=?", sql.columns);
  sql.find = fmt::format(
      "SELECT e.inode, e.type, n.inode, {} FROM jfs_edge e LEFT JOIN jfs_node n ON n.inode=e.inode "
      "WHERE e.parent=? AND e.name=?",
      sql.columns);
  sql.list = fmt::format(
      "SELECT e.name, e.inode, e.type, n.inode, {} FROM jfs_edge e LEFT JOIN jfs_node n ON "
      "n.inode=e.inode WHERE e.parent=? AND e.name>? ORDER BY e.name LIMIT ?",
      sql.columns);
  sql.scan = fmt::format("SELECT n.inode, {} FROM jfs_node n", sql.columns);
  sql.scan_subtree = fmt::format(
      "WITH RECURSIVE d(ino) AS (SELECT ?1 UNION SELECT e.inode FROM d JOIN jfs_edge e ON "
      "e.parent=d.ino "
      "WHERE e.type=2) SELECT e.parent, e.name, e.inode, e.type, n.inode, {} FROM d JOIN jfs_edge "
      "e ON "
      "e.parent=d.ino LEFT JOIN jfs_node n ON n.inode=e.inode",
      sql.columns);
  return sql;
}

}  // namespace paddleop::volume
