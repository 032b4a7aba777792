// The tables of a volume in SQLite, as the official client (1.3) makes them, to the letter: it
// compares the stored text of each table with its own when it opens a session.
#pragma once

#include <string>

#include "volume/meta/sqlite/database.h"

namespace paddleop::volume {

// Makes missing tables, columns and indexes; leaves what is there alone. True if anything was
// missing.
Result<bool> CreateOrUpgradeSchema(Database& database);
// Whether the file holds tables of a volume.
Result<bool> HasSchema(Database& database);

// Statements that read an inode, written for the columns this database has: volumes made before 1.1
// lack some.
struct NodeSql {
  std::string columns;       // "n.type, n.flags, ..." in the order ReadNode expects
  std::string select;        // by inode
  std::string find;          // edge joined with node by (parent, name)
  std::string list;          // page of a directory with nodes: (parent, after, limit)
  std::string scan;          // all nodes
  std::string scan_subtree;  // entries and nodes below an inode
};
Result<NodeSql> DescribeNodes(Database& database);

}  // namespace paddleop::volume
