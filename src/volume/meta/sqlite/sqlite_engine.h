#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "volume/meta/internal/engine.h"
#include "volume/meta/sqlite/database.h"
#include "volume/meta/sqlite/schema.h"
#include "volume/meta/sqlite/sqlite_txn.h"

namespace paddleop::volume {

// A volume in one SQLite file. Readers work in parallel, each on a connection of its own. Writers
// queue: the first one commits for all that wait, because in SQLite a commit costs more than what
// it commits.
class SqliteEngine final : public MetaEngine {
 public:
  // The file is opened on first use; it is made by StoreSetting on a new volume only.
  SqliteEngine(std::string path, bool read_only);
  ~SqliteEngine() override;

  // Takes the path out of sqlite3://PATH[?options]; kInvalid or kNotSupported says what is wrong.
  static Result<std::string> PathOf(std::string_view url);

  Result<TxnOutcome> WithTxn(const Context& ctx, const Body& body) override;
  Result<void> ReadOnce(const Context& ctx, const ReadSet& set) override;

  Result<std::optional<std::string>> LoadSetting(const Context& ctx) override;
  Result<void> StoreSetting(const Context& ctx, std::string_view json, bool new_volume,
                            std::span<const std::pair<Ino, Attr>> nodes) override;
  Result<void> PrepareForWriting(const Context& ctx) override;

  Result<std::optional<Found>> FindEntry(const Context& ctx, Ino parent,
                                         std::string_view name) override;
  Result<DirPage> ReadDir(const Context& ctx, Ino ino, std::string_view cursor, std::size_t limit,
                          bool with_attrs) override;
  Result<std::optional<std::string>> ReadSymlink(const Context& ctx, Ino ino) override;
  Result<std::vector<std::string>> ListXattr(const Context& ctx, Ino ino) override;

  Result<std::uint64_t> AllocateInodes(const Context& ctx, std::uint64_t count) override;
  Result<std::uint64_t> AllocateSlices(const Context& ctx, std::uint64_t count) override;
  Result<std::uint64_t> NextSession(const Context& ctx) override;
  Result<std::uint64_t> NextTrash(const Context& ctx) override;
  Result<Usage> GetUsage(const Context& ctx) override;
  Result<bool> TryLease(const Context& ctx, Lease lease, std::int64_t now,
                        std::int64_t interval) override;

  Result<void> PutSession(const Context& ctx, std::uint64_t sid, std::int64_t expires,
                          std::string_view info_json) override;
  Result<std::vector<SessionRecord>> ListSessions(const Context& ctx) override;
  Result<std::vector<Ino>> ListSustained(const Context& ctx, std::uint64_t sid) override;
  Result<void> DeleteSession(const Context& ctx, std::uint64_t sid) override;

  Result<std::vector<DeletedFile>> ListDeletedFiles(const Context& ctx, std::int64_t before,
                                                    std::size_t limit) override;
  Result<std::vector<SliceKey>> ListGarbage(const Context& ctx, std::size_t limit) override;
  Result<void> ForgetSlices(const Context& ctx, std::span<const SliceKey> slices) override;
  Result<std::vector<DelayedSlices>> ListDelayedSlices(const Context& ctx, std::int64_t before,
                                                       std::size_t limit) override;
  Result<std::vector<SliceKey>> ReleaseDelayedSlices(const Context& ctx,
                                                     const DelayedSlices& delayed) override;

  Result<std::optional<DirUsage>> GetDirUsage(const Context& ctx, Ino ino) override;
  Result<DirUsage> SyncDirUsage(const Context& ctx, Ino ino) override;
  Result<std::vector<std::pair<Ino, DirQuota>>> ListDirQuotas(const Context& ctx) override;
  Result<void> PutDirQuota(const Context& ctx, Ino ino, const DirQuota& quota) override;
  Result<void> DeleteDirQuota(const Context& ctx, Ino ino) override;

  std::size_t BatchSize() const override { return 2000; }
  bool FindsChunks() const override { return true; }
  Result<void> ScanTree(const Context& ctx, Ino root, bool with_slices, TreeSink& sink) override;
  Result<void> ScanChunks(
      const Context& ctx,
      const std::function<Result<void>(Ino, std::uint32_t, std::vector<Slice>)>& fn) override;
  Result<void> ScanSliceRefs(
      const Context& ctx, const std::function<Result<void>(SliceKey, std::int64_t)>& fn) override;

 private:
  using Job = std::function<Result<void>(Database& database, SqliteTxn& txn)>;
  using Query = std::function<Result<void>(Database& database, const NodeSql& sql)>;
  struct Waiting;

  // Opens the file if that was not done yet. kNotFound if there is none, or no tables in it.
  Result<void> EnsureOpen() EXCLUDES(open_mutex_);
  Result<void> OpenLocked(Database::Mode mode) REQUIRES(open_mutex_);
  // Writes the statements for the columns that are there now.
  Result<void> DescribeLocked(Database& database) REQUIRES(open_mutex_);
  // Runs `job` inside a write transaction, together with the jobs of other threads.
  Result<TxnOutcome> Write(const Context& ctx, const Job& job);
  // Runs `query` on a reader's connection.
  Result<void> Read(const Context& ctx, const Query& query);
  // Commits jobs together, each with a result of its own. Fails, with none of them done, if `ctx`
  // ends while another process holds the file.
  Result<void> CommitTogether(const Context& ctx, std::span<Waiting* const> jobs);
  Result<void> Begin(const Context& ctx);
  Result<std::uint64_t> Increment(const Context& ctx, std::string_view counter, std::uint64_t by);

  const std::string path_;
  const bool read_only_;

  Mutex open_mutex_;
  bool open_ GUARDED_BY(open_mutex_) = false;
  // Kept to the end: their text is the key of statements that connections keep.
  std::vector<std::unique_ptr<const NodeSql>> sql_versions_ GUARDED_BY(open_mutex_);
  std::atomic<const NodeSql*> sql_ = nullptr;  // the latest; set before open_
  std::unique_ptr<Database> writer_;           // used by the leader only

  Mutex readers_mutex_;
  CondVar reader_free_;
  std::vector<std::unique_ptr<Database>> readers_ GUARDED_BY(readers_mutex_);
  std::size_t readers_made_ GUARDED_BY(readers_mutex_) = 0;

  Mutex queue_mutex_;
  CondVar queue_changed_;
  std::deque<Waiting*> queue_ GUARDED_BY(queue_mutex_);
  bool leading_ GUARDED_BY(queue_mutex_) = false;
};

}  // namespace paddleop::volume
