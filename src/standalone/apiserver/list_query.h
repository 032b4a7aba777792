#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "net/http_server.h"
#include "standalone/apiserver/api_error.h"
#include "standalone/apiserver/stored_object.h"

namespace paddleop::standalone::apiserver {

// What a list or a watch asks for.
struct ListQuery {
  std::function<bool(const StoredObject&)> selects;
  bool selective = false;  // selects less than everything
  std::size_t limit = 0;
  std::string continue_token;
  std::string resource_version;
  bool watch = false;
  bool bookmarks = false;
  bool initial_events = false;
  std::optional<std::int64_t> timeout_seconds;
};

// 400 names the parameter that is wrong, or the field that cannot be selected by.
Answer<ListQuery> ReadListQuery(const net::ServerRequest& request, const Kind& kind,
                                const std::string& name);

// Lists that are read in pages: the rest of each, as it was when the first page was read.
//
// Thread-safe.
class Pages {
 public:
  struct Page {
    std::vector<ObjectPtr> objects;
    std::uint64_t revision = 0;
    std::string continue_token;
    std::size_t remaining = 0;
  };

  Page First(std::vector<ObjectPtr> objects, std::uint64_t revision, std::size_t limit);
  // 410 if the list is forgotten: after five minutes, or when too many others were begun since.
  Answer<Page> Next(const std::string& token, std::size_t limit);

 private:
  struct Kept {
    std::vector<ObjectPtr> objects;
    std::uint64_t revision = 0;
    std::chrono::steady_clock::time_point end;
  };

  static Page Cut(const std::string& id, const Kept& kept, std::size_t from, std::size_t limit);

  Mutex mutex_;
  std::uint64_t next_ GUARDED_BY(mutex_) = 1;
  std::map<std::uint64_t, std::shared_ptr<const Kept>> kept_ GUARDED_BY(mutex_);
};

// How the client wants the answer.
enum class View { kObject, kTable, kMetadata };
View ViewOf(const net::ServerRequest& request);

}  // namespace paddleop::standalone::apiserver
