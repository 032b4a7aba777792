#include "standalone/apiserver/watch_hub.h"

#include <fmt/format.h>

#include "base/thread_pool.h"
#include "standalone/apiserver/api_error.h"

namespace paddleop::standalone::apiserver {
namespace {

constexpr std::size_t kChunk = 256u << 10;  // bytes gathered for one write
constexpr std::size_t kChanges = 512;       // looked at in one go
constexpr std::chrono::milliseconds kRetry{20};
constexpr std::chrono::milliseconds kTick{1000};

std::string Event(std::string_view type, std::string_view object) {
  return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object);
}

std::string Bookmark(const Kind& kind, std::uint64_t revision, bool ends_initial) {
  return Event(
      "BOOKMARK",
      fmt::format(R"({{"kind":"{}","apiVersion":"{}","metadata":{{)"
                  R"("resourceVersion":"{}","creationTimestamp":null{}}}}})",
                  kind.type.kind, kind.type.ApiVersion(), revision,
                  ends_initial ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : ""));
}

}  // namespace

struct WatchHub::Watch {
  WatchRequest request;
  std::shared_ptr<net::ResponseStream> stream;
  std::size_t next_initial = 0;
  std::uint64_t seen = 0;
  std::string unsent;
  bool ended = false;  // nothing follows what is unsent
  std::chrono::steady_clock::time_point last_sent;
};

WatchHub::WatchHub(Store& store, std::chrono::milliseconds bookmark_interval)
    : store_(store),
      bookmark_interval_(bookmark_interval),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

WatchHub::~WatchHub() { Stop(); }

void WatchHub::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void WatchHub::Add(WatchRequest request, std::shared_ptr<net::ResponseStream> stream) {
  auto watch = std::make_unique<Watch>();
  watch->seen = request.after;
  watch->request = std::move(request);
  watch->stream = std::move(stream);
  watch->last_sent = std::chrono::steady_clock::now();
  // The headers alone tell the client that the watch has begun; a close wakes us to forget it.
  watch->stream->OnClose([this] { Wake(); });
  MutexLock lock(mutex_);
  added_.push_back(std::move(watch));
  ++open_;
  woken_ = true;
  changed_.notify_one();
}

std::size_t WatchHub::open() const {
  MutexLock lock(mutex_);
  return open_;
}

void WatchHub::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.notify_one();
}

void WatchHub::Run(const std::stop_token& stop) {
  SetThreadName("watches");
  std::chrono::milliseconds wait = kTick;
  while (!stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      changed_.wait_for(lock, stop, watches_.empty() ? std::chrono::hours(1) : wait,
                        [&]() REQUIRES(mutex_) { return woken_; });
      woken_ = false;
      for (auto& watch : added_) watches_.push_back(std::move(watch));
      added_.clear();
    }
    wait = kTick;
    std::size_t ended = 0;
    for (auto at = watches_.begin(); at != watches_.end();) {
      if (Serve(**at)) {
        if (!(*at)->unsent.empty()) wait = kRetry;
        ++at;
      } else {
        at = watches_.erase(at);
        ++ended;
      }
    }
    MutexLock lock(mutex_);
    open_ -= ended;
  }
  for (auto& watch : watches_) watch->stream->Close();
}

bool WatchHub::Serve(Watch& watch) {
  if (watch.stream->Closed()) return false;
  const auto now = std::chrono::steady_clock::now();
  while (true) {
    if (watch.unsent.empty() && !watch.ended) Collect(watch);
    if (watch.unsent.empty()) break;
    if (!Flush(watch)) return !watch.stream->Closed();  // the client is slow: later
    watch.last_sent = now;
    if (watch.ended) break;
  }
  if (!watch.ended && now < watch.request.end) {
    if (watch.request.bookmarks && now - watch.last_sent >= bookmark_interval_) {
      watch.unsent = Bookmark(*watch.request.kind, watch.seen, false);
      watch.last_sent = now;
      Flush(watch);
    }
    return true;
  }
  watch.stream->Close();
  return false;
}

bool WatchHub::Flush(Watch& watch) {
  if (!watch.stream->TryWrite(watch.unsent)) return false;
  watch.unsent.clear();
  return true;
}

void WatchHub::Collect(Watch& watch) {
  const WatchRequest& request = watch.request;
  while (watch.next_initial < request.initial.size() && watch.unsent.size() < kChunk) {
    watch.unsent += Event("ADDED", request.render(*request.initial[watch.next_initial++]));
  }
  if (watch.next_initial < request.initial.size()) return;
  if (!request.initial.empty()) {
    watch.request.initial.clear();
    watch.next_initial = 0;
  }
  if (request.initial_bookmark) {
    watch.unsent += Bookmark(*request.kind, request.after, true);
    watch.request.initial_bookmark = false;
  }
  while (watch.unsent.size() < kChunk) {
    const auto changes = store_.ChangesAfter(watch.seen, kChanges);
    if (!changes) {
      std::string gone = Expired(changes.error().message()).error().Body();
      gone.pop_back();  // its newline
      watch.unsent += Event("ERROR", gone);
      watch.ended = true;
      return;
    }
    if (changes->empty()) return;
    for (const Change& change : *changes) {
      watch.seen = change.object->revision;
      if (change.object->kind->id != request.kind->stored_id) continue;
      if (!request.ns.empty() && change.object->ns != request.ns) continue;
      const bool now = change.type != ChangeType::kDeleted && request.selects(*change.object);
      const bool then = change.before != nullptr && request.selects(*change.before);
      if (!now && !then) continue;
      const char* type = !now ? "DELETED" : then ? "MODIFIED" : "ADDED";
      watch.unsent += Event(type, request.render(*change.object));
      if (watch.unsent.size() >= kChunk) break;
    }
  }
}

}  // namespace paddleop::standalone::apiserver
