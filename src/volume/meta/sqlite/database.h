// A thin, safe layer over one SQLite connection: prepared statements that are kept, values bound
// and read by type, errors as Status.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paddleop::volume {

class Database;

// A statement in use, borrowed from its connection; given back, reset, at the end of the scope.
// Bind values in order, then Step or Run. A failure to prepare or bind shows in the next Step.
class Statement {
 public:
  Statement(Database& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Int(std::int64_t value);
  Statement& Blob(std::string_view bytes);
  Statement& Text(std::string_view text);

  // True if there is a row to read.
  Result<bool> Step();
  // For statements without rows.
  Result<void> Run();
  // Ready to be bound and run again.
  void Reset();

  std::int64_t IntAt(int column) const;
  // Bytes whatever the storage class; valid until the next Step.
  std::string_view BytesAt(int column) const;

 private:
  Database* database_;
  sqlite3_stmt* statement_;
  int bound_ = 0;
  bool failed_ = false;
};

// One connection, used by one thread at a time.
class Database {
 public:
  enum class Mode { kReadOnly, kReadWrite, kCreate };

  // Opens with WAL, synchronous=NORMAL and a busy timeout.
  static Result<std::unique_ptr<Database>> Open(const std::string& path, Mode mode);
  ~Database();

  // `sql` must be a literal or live as long as the connection: the pointer is the key of the cache.
  Statement Prepare(const char* sql);
  Result<void> Execute(const char* sql);
  // How long a statement waits for other processes.
  void SetBusyTimeout(std::chrono::milliseconds timeout);
  // Rows changed by the last statement.
  std::int64_t Changes() const;
  // Rows changed since the connection was opened.
  std::int64_t TotalChanges() const;
  // False also after an error that made SQLite end the transaction by itself.
  bool InTransaction() const;
  // The error of the last call on this connection.
  Status LastError(std::string_view what) const;

 private:
  friend class Statement;
  Database() = default;

  sqlite3* handle_ = nullptr;
  std::string path_;
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

}  // namespace paddleop::volume
