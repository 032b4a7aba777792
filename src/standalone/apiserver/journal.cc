#include "standalone/apiserver/internal/journal.h"

#include <sqlite3.h>

#include <utility>

namespace paddleop::standalone::apiserver {
namespace {

constexpr int kLayout = 1;

Code CodeOf(int extended) {
  switch (extended & 0xff) {
    case SQLITE_FULL:
      return Code::kNoSpace;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::kCorrupt;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return Code::kPermission;
    default:
      return Code::kUnavailable;
  }
}

void BindText(sqlite3_stmt* statement, int index, std::string_view text) {
  sqlite3_bind_text64(statement, index, text.data() == nullptr ? "" : text.data(), text.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}

std::string_view ColumnText(sqlite3_stmt* statement, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  const int size = sqlite3_column_bytes(statement, column);
  return text == nullptr ? std::string_view() : std::string_view(text, static_cast<size_t>(size));
}

}  // namespace

Result<std::unique_ptr<Journal>> Journal::Open(const std::string& path) {
  std::unique_ptr<Journal> journal(new Journal());
  journal->path_ = path;
  if (sqlite3_open_v2(path.c_str(), &journal->handle_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK) {
    return std::unexpected(journal->LastError("open"));
  }
  sqlite3_extended_result_codes(journal->handle_, 1);
  sqlite3_busy_timeout(journal->handle_, 2000);
  for (const char* sql :
       {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA cache_size=-2048",
        "CREATE TABLE IF NOT EXISTS state (id INTEGER PRIMARY KEY CHECK (id = 1), layout INTEGER "
        "NOT NULL, revision INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS object (resource TEXT NOT NULL, ns TEXT NOT NULL, name TEXT "
        "NOT NULL, revision INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (resource, ns, "
        "name)) "
        "WITHOUT ROWID",
        "INSERT OR IGNORE INTO state VALUES (1, 1, 0)"}) {
    RETURN_IF_ERROR(journal->Execute(sql));
  }
  ASSIGN_OR_RETURN(sqlite3_stmt* const layout, journal->Prepare("SELECT layout FROM state"));
  const bool row = sqlite3_step(layout) == SQLITE_ROW;
  const int found = row ? sqlite3_column_int(layout, 0) : 0;
  sqlite3_finalize(layout);
  if (found != kLayout) {
    return Fail(Code::kNotSupported,
                "{} has layout {}, this program knows {}: use the program "
                "that made it, or another data directory",
                path, found, kLayout);
  }
  ASSIGN_OR_RETURN(journal->put_,
                   journal->Prepare("INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?)"));
  ASSIGN_OR_RETURN(
      journal->remove_,
      journal->Prepare("DELETE FROM object WHERE resource = ? AND ns = ? AND name = ?"));
  ASSIGN_OR_RETURN(journal->advance_, journal->Prepare("UPDATE state SET revision = ?"));
  return journal;
}

Journal::~Journal() {
  for (sqlite3_stmt* statement : {put_, remove_, advance_}) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

Result<std::uint64_t> Journal::Revision() {
  ASSIGN_OR_RETURN(sqlite3_stmt* const statement, Prepare("SELECT revision FROM state"));
  std::uint64_t revision = 0;
  if (sqlite3_step(statement) == SQLITE_ROW) {
    revision = static_cast<std::uint64_t>(sqlite3_column_int64(statement, 0));
  }
  sqlite3_finalize(statement);
  return revision;
}

Result<void> Journal::Load(const std::function<Result<void>(const Row&)>& each) {
  ASSIGN_OR_RETURN(sqlite3_stmt* const statement,
                   Prepare("SELECT resource, ns, name, revision, json FROM object"));
  Result<void> done;
  int code = SQLITE_ROW;
  while (done && (code = sqlite3_step(statement)) == SQLITE_ROW) {
    const std::string json(ColumnText(statement, 4));
    done = each({ColumnText(statement, 0), ColumnText(statement, 1), ColumnText(statement, 2),
                 static_cast<std::uint64_t>(sqlite3_column_int64(statement, 3)), &json});
  }
  if (done && code != SQLITE_DONE) done = std::unexpected(LastError("read"));
  sqlite3_finalize(statement);
  return done;
}

Result<void> Journal::Commit(const std::vector<Row>& rows) {
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  auto written = Write(rows);
  if (written) written = Execute("COMMIT");
  if (!written && sqlite3_get_autocommit(handle_) == 0) {
    sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return written;
}

Result<void> Journal::Write(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    sqlite3_stmt* const statement = row.json != nullptr ? put_ : remove_;
    BindText(statement, 1, row.resource);
    BindText(statement, 2, row.ns);
    BindText(statement, 3, row.name);
    if (row.json != nullptr) {
      sqlite3_bind_int64(statement, 4, static_cast<sqlite3_int64>(row.revision));
      BindText(statement, 5, *row.json);
    }
    RETURN_IF_ERROR(Step(statement));
  }
  if (rows.empty()) return {};
  sqlite3_bind_int64(advance_, 1, static_cast<sqlite3_int64>(rows.back().revision));
  return Step(advance_);
}

Result<void> Journal::Execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return std::unexpected(LastError(sql));
  }
  return {};
}

Result<sqlite3_stmt*> Journal::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr) != SQLITE_OK) {
    return std::unexpected(LastError("prepare"));
  }
  return statement;
}

Result<void> Journal::Step(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  Result<void> done;
  if (code != SQLITE_DONE) done = std::unexpected(LastError("write"));
  sqlite3_reset(statement);
  return done;
}

Status Journal::LastError(std::string_view what) const {
  const Code code = CodeOf(sqlite3_extended_errcode(handle_));
  const char* advice = "";
  if (code == Code::kCorrupt)
    advice = "; the file is damaged: restore it, or use another data directory";
  if (code == Code::kNoSpace) advice = "; free some space on that disk";
  return Status(code, fmt::format("{}: {}: {}{}", path_, what, sqlite3_errmsg(handle_), advice));
}

}  // namespace paddleop::standalone::apiserver
