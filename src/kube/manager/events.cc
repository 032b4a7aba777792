#include "kube/manager/events.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "api/meta/time.h"
#include "base/backoff.h"
#include "base/crypto.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "kube/manager/event_log.h"
#include "kube/metrics.h"

namespace paddleop::kube {
namespace {

using Json = nlohmann::json;

// The API server refuses longer ones.
constexpr std::size_t kMessageLimit = 1024;
constexpr std::size_t kReasonLimit = 128;
constexpr std::chrono::seconds kSendTimeout{15};

// At most `limit` bytes, cut between characters.
std::string Cut(std::string text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

std::string Stamp(WallTime time) {
  return api::FormatTime(std::chrono::floor<std::chrono::seconds>(time));
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

ObjectReference ReferenceTo(const GroupVersionResource& resource, const ObjectKey& key,
                            std::string uid) {
  return {.api_version = resource.ApiVersion(),
          .kind = std::string(resource.kind),
          .ns = key.ns,
          .name = key.name,
          .uid = std::move(uid)};
}

class EventRecorder::State {
 public:
  State(EventRecorderOptions options, ClusterClient& client, const Logger& log,
        MetricsRegistry& metrics, Clock& clock)
      : options_(std::move(options)),
        client_(client),
        log_(log),
        clock_(clock),
        recorded_(metrics.AddCounter(metric::kEventsRecorded, metric::kEventsRecordedHelp,
                                     {{"component", options_.component}})),
        dropped_(metrics.AddCounter(metric::kEventsDropped, metric::kEventsDroppedHelp,
                                    {{"component", options_.component}})),
        failed_(metrics.AddCounter(metric::kEventsFailed, metric::kEventsFailedHelp,
                                   {{"component", options_.component}})),
        queue_(options_.queue_limit),
        throttle_(options_.burst, options_.refill, options_.memory_limit),
        memory_(options_.memory_limit, options_.memory),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  void Record(PendingEvent event) {
    event.first = event.last = clock_.WallNow();
    recorded_.Increment();
    MutexLock lock(mutex_);
    if (closed_ || !throttle_.Admit(event.about, clock_.Now()) || !queue_.Push(std::move(event)))
      return dropped_.Increment();
    changed_.notify_all();
  }

  Result<void> Flush(const Context& ctx) {
    MutexLock lock(mutex_);
    const auto idle = [this]() REQUIRES(mutex_) { return queue_.empty() && !sending_; };
    const bool done = ctx.has_deadline()
                          ? changed_.wait_until(lock, ctx.stop(), ctx.deadline(), idle)
                          : changed_.wait(lock, ctx.stop(), idle);
    if (done) return {};
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "events still queued");
  }

  void Stop() {
    {
      MutexLock lock(mutex_);
      if (closed_) return;
      closed_ = true;
      changed_.notify_all();
    }
    const auto flushed = Flush(Context::Background().WithTimeout(options_.flush_timeout));
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    MutexLock lock(mutex_);
    if (!flushed)
      log_.Warn(Context::Background(), "events lost at stop", {{"count", queue_.size()}});
  }

 private:
  void Run(const std::stop_token& stop) {
    SetThreadName("events");
    const Context ctx =
        Context::Background().WithStop(stop).WithField("component", options_.component);
    MutexLock lock(mutex_);
    for (;;) {
      changed_.wait(lock, stop, [this]() REQUIRES(mutex_) { return !queue_.empty(); });
      if (stop.stop_requested()) return;
      const PendingEvent event = *queue_.Pop();
      sending_ = true;
      lock.unlock();
      Send(ctx, event);
      lock.lock();
      sending_ = false;
      changed_.notify_all();
    }
  }

  void Send(const Context& ctx, const PendingEvent& event) {
    Backoff backoff({.initial = std::chrono::milliseconds(250),
                     .maximum = std::chrono::seconds(5),
                     .max_attempts = 5},
                    clock_);
    for (;;) {
      const auto sent = TrySend(ctx.WithTimeout(kSendTimeout), event);
      if (sent || ctx.Stopped()) return;
      if (IsRetryable(sent.error()) && backoff.Sleep(ctx)) continue;
      failed_.Increment();
      log_.Warn(ctx, "event not written",
                {{"reason", event.reason},
                 {"about", event.about.ns + "/" + event.about.name},
                 {"error", sent.error().message()}});
      return;
    }
  }

  Result<void> TrySend(const Context& ctx, const PendingEvent& event) {
    const std::string identity = event.Identity();
    if (EventMemory::Written* known = memory_.Find(identity, event.last)) {
      const Json patch = {{"count", known->count + event.count},
                          {"lastTimestamp", Stamp(event.last)}};
      auto patched =
          client_.Patch(ctx, kEvents, {known->ns, known->name}, MergePatch(patch.dump()));
      if (patched) {
        EventMemory::Written written = *known;
        written.count += event.count;
        written.last = event.last;
        memory_.Remember(identity, std::move(written));
        return {};
      }
      if (!IsNotFound(patched.error())) return std::unexpected(std::move(patched).error());
      memory_.Forget(identity);
    }
    const EventMemory::Written fresh{
        .ns = event.about.ns.empty() ? "default" : event.about.ns,
        .name = fmt::format("{}.{}", Cut(event.about.name, 200), HexEncode(RandomBytes(8))),
        .count = event.count,
        .last = event.last};
    RETURN_IF_ERROR(client_.Create(ctx, kEvents, fresh.ns, Body(event, fresh)));
    memory_.Remember(identity, fresh);
    return {};
  }

  std::string Body(const PendingEvent& event, const EventMemory::Written& as) const {
    const ObjectReference& about = event.about;
    Json involved = {{"apiVersion", about.api_version}, {"kind", about.kind}, {"name", about.name}};
    if (!about.ns.empty()) involved["namespace"] = about.ns;
    if (!about.uid.empty()) involved["uid"] = about.uid;
    return Dump({{"apiVersion", "v1"},
                 {"kind", "Event"},
                 {"metadata", {{"name", as.name}, {"namespace", as.ns}}},
                 {"involvedObject", std::move(involved)},
                 {"type", event.type == EventType::kWarning ? "Warning" : "Normal"},
                 {"reason", event.reason},
                 {"message", event.message},
                 {"count", event.count},
                 {"firstTimestamp", Stamp(event.first)},
                 {"lastTimestamp", Stamp(event.last)},
                 {"source", {{"component", options_.component}}},
                 {"reportingComponent", options_.component},
                 {"reportingInstance", options_.instance}});
  }

  const EventRecorderOptions options_;
  ClusterClient& client_;
  const Logger& log_;
  Clock& clock_;
  MetricsRegistry::Counter& recorded_;
  MetricsRegistry::Counter& dropped_;
  MetricsRegistry::Counter& failed_;
  Mutex mutex_;
  CondVar changed_;
  EventQueue queue_ GUARDED_BY(mutex_);
  EventThrottle throttle_ GUARDED_BY(mutex_);
  bool sending_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  EventMemory memory_;  // of thread_ only
  std::jthread thread_;
};

EventRecorder::EventRecorder(EventRecorderOptions options, ClusterClient& client, const Logger& log,
                             MetricsRegistry& metrics, Clock& clock)
    : state_(std::make_unique<State>(std::move(options), client, log, metrics, clock)) {}

EventRecorder::~EventRecorder() { Stop(); }

void EventRecorder::Record(const ObjectReference& about, EventType type, std::string reason,
                           std::string message) {
  state_->Record({.about = about,
                  .type = type,
                  .reason = Cut(std::move(reason), kReasonLimit),
                  .message = Cut(std::move(message), kMessageLimit)});
}

void EventRecorder::Stop() { state_->Stop(); }

Result<void> EventRecorder::Flush(const Context& ctx) { return state_->Flush(ctx); }

}  // namespace paddleop::kube
