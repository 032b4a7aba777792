#include "volume/meta/sqlite/database.h"

#include <sqlite3.h>

#include <utility>

namespace paddleop::volume {
namespace {

constexpr int kBusyTimeoutMs = 5000;

Code CodeOf(int error) {
  switch (error & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::kConflict;
    case SQLITE_FULL:
      return Code::kNoSpace;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
      return Code::kCorrupt;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Code::kPermission;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Statement::~Statement() {
  if (statement_ != nullptr) Reset();
}

Statement& Statement::Int(std::int64_t value) {
  if (statement_ != nullptr && sqlite3_bind_int64(statement_, ++bound_, value) != SQLITE_OK) {
    failed_ = true;
  }
  return *this;
}

// Values are bound without a copy: what they point to outlives the statement's scope by the way the
// engine uses it (arguments of the calling function).
Statement& Statement::Blob(std::string_view bytes) {
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  if (statement_ != nullptr &&
      sqlite3_bind_blob64(statement_, ++bound_, data, bytes.size(), SQLITE_STATIC) != SQLITE_OK) {
    failed_ = true;
  }
  return *this;
}

Statement& Statement::Text(std::string_view text) {
  const char* data = text.data() == nullptr ? "" : text.data();
  if (statement_ != nullptr && sqlite3_bind_text64(statement_, ++bound_, data, text.size(),
                                                   SQLITE_STATIC, SQLITE_UTF8) != SQLITE_OK) {
    failed_ = true;
  }
  return *this;
}

Result<bool> Statement::Step() {
  if (statement_ == nullptr || failed_) return std::unexpected(database_->LastError("prepare"));
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return std::unexpected(database_->LastError("statement"));
}

Result<void> Statement::Run() {
  auto row = Step();
  if (!row) return std::unexpected(std::move(row).error());
  return {};
}

void Statement::Reset() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  bound_ = 0;
}

std::int64_t Statement::IntAt(int column) const { return sqlite3_column_int64(statement_, column); }

std::string_view Statement::BytesAt(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path, Mode mode) {
  std::unique_ptr<Database> database(new Database());
  database->path_ = path;
  int flags = SQLITE_OPEN_NOMUTEX;
  flags |= mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  if (sqlite3_open_v2(path.c_str(), &database->handle_, flags, nullptr) != SQLITE_OK) {
    return std::unexpected(database->LastError("open"));
  }
  sqlite3_extended_result_codes(database->handle_, 1);
  sqlite3_busy_timeout(database->handle_, kBusyTimeoutMs);
  if (mode != Mode::kReadOnly) {
    RETURN_IF_ERROR(database->Execute("PRAGMA journal_mode=WAL"));
    RETURN_IF_ERROR(database->Execute("PRAGMA synchronous=NORMAL"));
  }
  RETURN_IF_ERROR(database->Execute("PRAGMA cache_size=-16384"));
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

Statement Database::Prepare(const char* sql) {
  const auto known = statements_.find(sql);
  if (known != statements_.end()) return Statement(*this, known->second);
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
      SQLITE_OK) {
    return Statement(*this, nullptr);
  }
  statements_.emplace(sql, statement);
  return Statement(*this, statement);
}

Result<void> Database::Execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return std::unexpected(LastError(sql));
  }
  return {};
}

void Database::SetBusyTimeout(std::chrono::milliseconds timeout) {
  sqlite3_busy_timeout(handle_, static_cast<int>(timeout.count()));
}

std::int64_t Database::Changes() const { return sqlite3_changes64(handle_); }

std::int64_t Database::TotalChanges() const { return sqlite3_total_changes64(handle_); }

bool Database::InTransaction() const { return sqlite3_get_autocommit(handle_) == 0; }

Status Database::LastError(std::string_view what) const {
  const int code = sqlite3_extended_errcode(handle_);
  return Status(CodeOf(code),
                fmt::format("sqlite {}: {}: {}", path_, what, sqlite3_errmsg(handle_)));
}

}  // namespace paddleop::volume
