#pragma once

#include <map>
#include <string>
#include <vector>

#include "volume/meta/internal/txn.h"
#include "volume/meta/sqlite/database.h"
#include "volume/meta/sqlite/schema.h"

namespace paddleop::volume {

// As columns hold them.
inline std::int64_t Int(Ino ino) { return static_cast<std::int64_t>(ToInt(ino)); }
inline std::int64_t Int(std::uint64_t value) { return static_cast<std::int64_t>(value); }
inline Ino InoAt(const Statement& row, int column) {
  return Ino{static_cast<std::uint64_t>(row.IntAt(column))};
}

// Reads `attr` from the node columns of a row, starting at `column`.
Attr ReadNode(const Statement& row, int column);
// Answers a read set on a connection, inside or outside a transaction.
Result<void> AnswerReads(Database& database, const NodeSql& sql, const ReadSet& reads);

// Writes statement by statement into the connection's open transaction; the first failure is kept
// and fails Finish.
class SqliteTxn final : public MetaTxn {
 public:
  SqliteTxn(Database& database, const NodeSql& sql) : database_(database), sql_(sql) {}

  Result<void> Read(const ReadSet& reads) override { return AnswerReads(database_, sql_, reads); }

  void InsertNode(Ino ino, const Attr& attr) override;
  void UpdateNode(Ino ino, const Attr& attr) override;
  void DeleteNode(Ino ino) override;
  void PutEdge(Ino parent, std::string_view name, const Edge& edge) override;
  void DeleteEdge(Ino parent, std::string_view name) override;
  // The index over edges finds parents.
  void AddParent(Ino, Ino, std::int64_t) override {}
  void DeleteParents(Ino) override {}
  void PutSymlink(Ino ino, std::string_view target) override;
  void DeleteSymlink(Ino ino) override;
  void PutXattr(Ino ino, std::string_view name, std::string_view value) override;
  void DeleteXattr(Ino ino, std::string_view name) override;
  void DeleteXattrs(Ino ino) override;
  void AppendSlices(Ino ino, std::uint32_t index, std::span<const Slice> slices) override;
  void DeleteChunk(Ino ino, std::uint32_t index) override;
  void NewSlice(const SliceKey& slice, std::int64_t references) override;
  void RetainSlice(const SliceKey& slice, std::int64_t references) override;
  void ReleaseSlice(const SliceKey& slice) override;
  void AddUsage(std::int64_t space, std::int64_t inodes) override;
  void InitDirUsage(Ino ino) override;
  void AddDirUsage(Ino ino, const DirUsage& delta) override;
  void DeleteDirUsage(Ino ino) override;
  void AddQuotaUsage(Ino ino, std::int64_t space, std::int64_t inodes) override;
  void QueueDeletion(Ino ino, std::uint64_t length, std::int64_t now) override;
  void ForgetDeletion(Ino ino, std::uint64_t length) override;
  void Sustain(std::uint64_t sid, Ino ino) override;
  void Unsustain(std::uint64_t sid, Ino ino) override;

  // Writes the sums that were kept back; to be called once, before the commit.
  Result<void> Finish();
  TxnOutcome TakeOutcome() { return std::move(outcome_); }

 private:
  void Keep(Result<void> result) {
    if (!result && !error_) error_ = std::move(result).error();
  }

  Database& database_;
  const NodeSql& sql_;
  std::optional<Status> error_;
  std::int64_t space_ = 0;
  std::int64_t inodes_ = 0;
  std::map<Ino, DirUsage> dir_usage_;
  TxnOutcome outcome_;
};

// Counts the direct children of a directory and stores the result.
Result<void> RecountDirUsage(Database& database, Ino ino);

}  // namespace paddleop::volume
