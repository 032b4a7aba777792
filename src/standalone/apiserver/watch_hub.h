#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/http_server.h"
#include "standalone/apiserver/store.h"

namespace paddleop::standalone::apiserver {

// What one client wants to be told.
struct WatchRequest {
  const Kind* kind = nullptr;
  std::string ns;  // empty: all
  std::function<bool(const StoredObject&)> selects;
  std::uint64_t after = 0;         // changes after this revision
  std::vector<ObjectPtr> initial;  // told first, as if they had just been added
  bool initial_bookmark = false;   // a bookmark says where the initial ones end
  bool bookmarks = false;
  std::chrono::steady_clock::time_point end;
  // The object as the client wants it: JSON text without a newline.
  std::function<std::string(const StoredObject&)> render;
};

// Tells clients of changes. One thread serves all watches: each has a place in the store's window
// of changes and gets on as fast as its connection takes bytes; one that falls out of the window is
// told so (410) and ended.
//
// Thread-safe.
class WatchHub {
 public:
  explicit WatchHub(Store& store,
                    std::chrono::milliseconds bookmark_interval = std::chrono::seconds(45));
  ~WatchHub();
  WatchHub(const WatchHub&) = delete;
  WatchHub& operator=(const WatchHub&) = delete;

  void Add(WatchRequest request, std::shared_ptr<net::ResponseStream> stream);
  std::size_t open() const;
  // There may be something new in the store.
  void Wake();
  // Ends the thread; afterwards nothing happens any more.
  void Stop();

 private:
  struct Watch;

  void Run(const std::stop_token& stop);
  // False when the watch has ended.
  bool Serve(Watch& watch);
  bool Flush(Watch& watch);
  void Collect(Watch& watch);

  Store& store_;
  const std::chrono::milliseconds bookmark_interval_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool woken_ GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Watch>> added_ GUARDED_BY(mutex_);
  std::size_t open_ GUARDED_BY(mutex_) = 0;
  std::list<std::unique_ptr<Watch>> watches_;  // the thread's own
  std::jthread thread_;
};

}  // namespace paddleop::standalone::apiserver
