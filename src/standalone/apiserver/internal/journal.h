#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paddleop::standalone::apiserver {

// What is on disk: the objects as they are and the revision of the last change, in one SQLite file.
//
// Not thread-safe: the store's commit thread has it for itself.
class Journal {
 public:
  struct Row {
    std::string_view resource;
    std::string_view ns;
    std::string_view name;
    std::uint64_t revision = 0;
    const std::string* json = nullptr;  // null: the object is gone
  };

  // Creates the file if there is none. kCorrupt names what to do about a damaged one; kNotSupported
  // says that a newer program wrote it.
  static Result<std::unique_ptr<Journal>> Open(const std::string& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // The revision of the last change; 0 in a new file.
  Result<std::uint64_t> Revision();
  // Every object.
  Result<void> Load(const std::function<Result<void>(const Row& row)>& each);
  // All of it, safe from a crash of the machine, or nothing.
  Result<void> Commit(const std::vector<Row>& rows);

 private:
  Journal() = default;
  Result<void> Execute(const char* sql);
  Result<sqlite3_stmt*> Prepare(const char* sql);
  Result<void> Step(sqlite3_stmt* statement);
  Result<void> Write(const std::vector<Row>& rows);
  Status LastError(std::string_view what) const;

  std::string path_;
  sqlite3* handle_ = nullptr;
  sqlite3_stmt* put_ = nullptr;
  sqlite3_stmt* remove_ = nullptr;
  sqlite3_stmt* advance_ = nullptr;
};

}  // namespace paddleop::standalone::apiserver
