#include "volume/meta/sqlite/sqlite_engine.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/backoff.h"

namespace paddleop::volume {
namespace {

constexpr std::size_t kMaxReaders = 32;
constexpr std::size_t kMaxTogether = 64;
constexpr auto kBusyTimeout = std::chrono::seconds(5);

bool FileExists(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace

struct SqliteEngine::Waiting {
  const Job* job = nullptr;
  Result<TxnOutcome> result = TxnOutcome{};
  bool done = false;
};

SqliteEngine::SqliteEngine(std::string path, bool read_only)
    : path_(std::move(path)), read_only_(read_only) {}

SqliteEngine::~SqliteEngine() = default;

Result<std::string> SqliteEngine::PathOf(std::string_view url) {
  constexpr std::string_view kScheme = "sqlite3://";
  if (!url.starts_with(kScheme)) return Fail(Code::kInvalid, "'{}' is not sqlite3://PATH", url);
  url.remove_prefix(kScheme.size());
  const auto question = url.find('?');
  if (question != std::string_view::npos &&
      url.find("table_prefix=", question) != std::string_view::npos) {
    return Fail(Code::kNotSupported, "option table_prefix is not supported: use a file of its own");
  }
  std::string path(url.substr(0, question));
  if (path.empty()) return Fail(Code::kInvalid, "sqlite3:// needs the path of a file");
  return path;
}

Result<void> SqliteEngine::OpenLocked(Database::Mode mode) {
  ASSIGN_OR_RETURN(auto database, Database::Open(path_, mode));
  if (mode == Database::Mode::kCreate) {
    RETURN_IF_ERROR(database->Execute("BEGIN IMMEDIATE"));
    auto made = CreateOrUpgradeSchema(*database);
    if (!made) {
      (void)database->Execute("ROLLBACK");
      return std::unexpected(std::move(made).error());
    }
    RETURN_IF_ERROR(database->Execute("COMMIT"));
  }
  ASSIGN_OR_RETURN(const bool has_schema, HasSchema(*database));
  if (!has_schema) return Fail(Code::kNotFound, "{} holds no volume", path_);
  RETURN_IF_ERROR(DescribeLocked(*database));
  writer_ = std::move(database);
  open_ = true;
  return {};
}

Result<void> SqliteEngine::DescribeLocked(Database& database) {
  ASSIGN_OR_RETURN(NodeSql sql, DescribeNodes(database));
  sql_versions_.push_back(std::make_unique<const NodeSql>(std::move(sql)));
  sql_ = sql_versions_.back().get();
  return {};
}

Result<void> SqliteEngine::EnsureOpen() {
  MutexLock lock(open_mutex_);
  if (open_) return {};
  if (!FileExists(path_)) return Fail(Code::kNotFound, "there is no file {}", path_);
  return OpenLocked(read_only_ ? Database::Mode::kReadOnly : Database::Mode::kReadWrite);
}

Result<void> SqliteEngine::Read(const Context& ctx, const Query& query) {
  RETURN_IF_ERROR(ctx.Check());
  RETURN_IF_ERROR(EnsureOpen());
  std::unique_ptr<Database> reader;
  {
    MutexLock lock(readers_mutex_);
    while (readers_.empty() && readers_made_ >= kMaxReaders) {
      reader_free_.wait_until(
          lock, ctx.stop(), std::min(ctx.deadline(), Context::Clock::now() + std::chrono::hours(1)),
          [&]() REQUIRES(readers_mutex_) { return !readers_.empty(); });
      RETURN_IF_ERROR(ctx.Check());
    }
    if (!readers_.empty()) {
      reader = std::move(readers_.back());
      readers_.pop_back();
    } else {
      ++readers_made_;
    }
  }
  Result<void> result;
  if (!reader) {
    auto opened =
        Database::Open(path_, read_only_ ? Database::Mode::kReadOnly : Database::Mode::kReadWrite);
    if (!opened) {
      result = std::unexpected(std::move(opened).error());
    } else {
      reader = *std::move(opened);
    }
  }
  if (reader) result = query(*reader, *sql_);
  {
    MutexLock lock(readers_mutex_);
    if (reader) {
      readers_.push_back(std::move(reader));
    } else {
      --readers_made_;
    }
  }
  reader_free_.notify_one();
  return result;
}

Result<void> SqliteEngine::Begin(const Context& ctx) {
  Backoff backoff({}, Clock::System());
  for (;;) {
    writer_->SetBusyTimeout(
        std::chrono::duration_cast<std::chrono::milliseconds>(ctx.Remaining(kBusyTimeout)));
    auto begun = writer_->Prepare("BEGIN IMMEDIATE").Run();
    if (begun || begun.error().code() != Code::kConflict) return begun;
    // Another process holds the file; SQLite has waited as long as we let it.
    if (!backoff.Sleep(ctx)) {
      return Fail(Code::kUnavailable, "{} is held by another process: {}", path_,
                  begun.error().message());
    }
  }
}

Result<void> SqliteEngine::CommitTogether(const Context& ctx, std::span<Waiting* const> jobs) {
  RETURN_IF_ERROR(Begin(ctx));
  bool broken = false;
  for (Waiting* waiting : jobs) {
    SqliteTxn txn(*writer_, *sql_);
    const std::int64_t changes_before = writer_->TotalChanges();
    auto done = (*waiting->job)(*writer_, txn);
    if (done) done = txn.Finish();
    if (done) {
      waiting->result = txn.TakeOutcome();
      continue;
    }
    waiting->result = std::unexpected(std::move(done).error());
    // What a failed job has written goes only with everything else: the others start again. So they
    // do if SQLite has taken everything back by itself, as it does after some errors: what follows
    // would be committed statement by statement.
    if (writer_->TotalChanges() != changes_before || !writer_->InTransaction()) {
      broken = true;
      break;
    }
  }
  if (!broken) {
    auto committed = writer_->Prepare("COMMIT").Run();
    if (committed) return {};
    (void)writer_->Execute("ROLLBACK");
    for (Waiting* waiting : jobs) {
      if (waiting->result) waiting->result = std::unexpected(committed.error());
    }
    return {};
  }
  (void)writer_->Execute("ROLLBACK");
  if (jobs.size() == 1) return {};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    auto done = CommitTogether(ctx, jobs.subspan(i, 1));
    if (!done) jobs[i]->result = std::unexpected(std::move(done).error());
  }
  return {};
}

Result<TxnOutcome> SqliteEngine::Write(const Context& ctx, const Job& job) {
  RETURN_IF_ERROR(ctx.Check());
  if (read_only_) return Fail(Code::kPermission, "{} is open for reading only", path_);
  RETURN_IF_ERROR(EnsureOpen());
  Waiting self;
  self.job = &job;
  MutexLock lock(queue_mutex_);
  queue_.push_back(&self);
  while (!self.done) {
    if (leading_) {
      const auto ready = [&]() REQUIRES(queue_mutex_) { return self.done || !leading_; };
      if (std::find(queue_.begin(), queue_.end(), &self) == queue_.end()) {
        queue_changed_.wait(lock, ready);  // picked up: the outcome is near
        continue;
      }
      // Whoever has not been picked up yet may still leave.
      queue_changed_.wait_until(
          lock, ctx.stop(), std::min(ctx.deadline(), Context::Clock::now() + std::chrono::hours(1)),
          ready);
      const auto place = std::find(queue_.begin(), queue_.end(), &self);
      if (place != queue_.end() && (ctx.Stopped() || ctx.Expired())) {
        queue_.erase(place);
        RETURN_IF_ERROR(ctx.Check());
      }
      continue;
    }
    leading_ = true;
    std::vector<Waiting*> jobs;
    while (!queue_.empty() && jobs.size() < kMaxTogether) {
      jobs.push_back(queue_.front());
      queue_.pop_front();
    }
    lock.unlock();
    auto begun = CommitTogether(ctx, jobs);
    lock.lock();
    leading_ = false;
    queue_changed_.notify_all();
    if (!begun) {
      // Our own time is up; the others may have more.
      std::erase(jobs, &self);
      std::erase(queue_, &self);
      queue_.insert(queue_.begin(), jobs.begin(), jobs.end());
      return std::unexpected(std::move(begun).error());
    }
    for (Waiting* waiting : jobs) waiting->done = true;
  }
  return std::move(self.result);
}

Result<TxnOutcome> SqliteEngine::WithTxn(const Context& ctx, const Body& body) {
  return Write(ctx, [&](Database&, SqliteTxn& txn) { return body(txn); });
}

Result<void> SqliteEngine::ReadOnce(const Context& ctx, const ReadSet& set) {
  return Read(
      ctx, [&](Database& database, const NodeSql& sql) { return AnswerReads(database, sql, set); });
}

Result<std::optional<std::string>> SqliteEngine::LoadSetting(const Context& ctx) {
  auto opened = EnsureOpen();
  if (!opened) {
    if (IsNotFound(opened.error())) return std::optional<std::string>();
    return std::unexpected(std::move(opened).error());
  }
  std::optional<std::string> json;
  RETURN_IF_ERROR(Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    Statement row = database.Prepare("SELECT value FROM jfs_setting WHERE name='format'");
    ASSIGN_OR_RETURN(const bool found, row.Step());
    if (found) json = row.BytesAt(0);
    return {};
  }));
  return json;
}

Result<void> SqliteEngine::StoreSetting(const Context& ctx, std::string_view json, bool new_volume,
                                        std::span<const std::pair<Ino, Attr>> nodes) {
  if (read_only_) return Fail(Code::kPermission, "{} is open for reading only", path_);
  {
    MutexLock lock(open_mutex_);
    if (!open_) {
      RETURN_IF_ERROR(
          OpenLocked(new_volume ? Database::Mode::kCreate : Database::Mode::kReadWrite));
    }
  }
  auto done = Write(ctx, [&](Database& database, SqliteTxn& txn) -> Result<void> {
    RETURN_IF_ERROR(database
                        .Prepare("INSERT INTO jfs_setting(name, value) VALUES('format', ?) ON "
                                 "CONFLICT(name) DO UPDATE SET value=excluded.value")
                        .Text(json)
                        .Run());
    for (const auto& [ino, attr] : nodes) {
      std::optional<Attr> present;
      RETURN_IF_ERROR(txn.Read(ReadSet().Attr(ino, &present)));
      if (!present) txn.InsertNode(ino, attr);
    }
    if (!new_volume) return {};
    static constexpr std::pair<std::string_view, int> kSeeds[] = {
        {"nextInode", 2}, {"nextChunk", 1},   {"nextSession", 0},
        {"usedSpace", 0}, {"totalInodes", 0}, {"nextCleanupSlices", 0}};
    for (const auto& [name, value] : kSeeds) {
      RETURN_IF_ERROR(
          database.Prepare("INSERT OR IGNORE INTO jfs_counter(name, value) VALUES(?, ?)")
              .Text(name)
              .Int(value)
              .Run());
    }
    return {};
  });
  if (!done) return std::unexpected(std::move(done).error());
  return {};
}

Result<void> SqliteEngine::PrepareForWriting(const Context& ctx) {
  bool upgraded = false;
  auto done = Write(ctx, [&](Database& database, SqliteTxn&) -> Result<void> {
    ASSIGN_OR_RETURN(upgraded, CreateOrUpgradeSchema(database));
    return {};
  });
  if (!done) return std::unexpected(std::move(done).error());
  if (!upgraded) return {};
  return Read(ctx, [&](Database& database, const NodeSql&) -> Result<void> {
    MutexLock lock(open_mutex_);
    return DescribeLocked(database);
  });
}

}  // namespace paddleop::volume
