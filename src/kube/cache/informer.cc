#include "kube/cache/informer.h"

#include <random>

#include "base/check.h"
#include "base/thread_pool.h"
#include "kube/cache/watch_state.h"
#include "kube/metrics.h"
#include "kube/wire/selector.h"

namespace paddleop::kube {
namespace {

// One reply within the informer's patience; a list page of a loaded server takes seconds.
constexpr std::chrono::seconds kListTimeout{60};

MetricsRegistry::Labels ResourceLabel(const GroupVersionResource& resource) {
  return {{"resource", ResourceName(resource)}};
}

}  // namespace

// One pass through the states of WatchState, with a client.
class InformerCore::Driver {
 public:
  Driver(InformerCore& informer, Context ctx)
      : informer_(informer),
        options_(informer.options_),
        ctx_(std::move(ctx)),
        state_(options_.backoff),
        random_(std::random_device{}()) {}

  void Run() {
    resynced_ = informer_.clock_.Now();
    while (!ctx_.Stopped()) {
      const WatchState::Step step = state_.Next();
      switch (step.action) {
        case WatchState::Action::kListPage:
          ListPageOnce(step.continue_token);
          break;
        case WatchState::Action::kWatch:
          WatchOnce(step.resource_version);
          break;
        case WatchState::Action::kWait:
          if (!informer_.clock_.SleepFor(ctx_, step.delay)) return;
          state_.OnWaited();
          break;
      }
    }
  }

 private:
  void ListPageOnce(const std::string& continue_token) {
    auto page =
        informer_.client_.List(ctx_.WithTimeout(kListTimeout), options_.resource, options_.ns,
                               {.label_selector = options_.label_selector,
                                .field_selector = options_.field_selector,
                                .limit = options_.page_size,
                                .continue_token = continue_token});
    if (!page) {
      if (ctx_.Stopped()) return;
      informer_.log_.Warn(ctx_, "list failed", {{"error", page.error().message()}});
      state_.OnListFailed(page.error());
      return;
    }
    if (continue_token.empty()) informer_.store_.BeginList(page->resource_version);
    for (const RawObject& raw : page->items) Take(raw);
    state_.OnPage(page->resource_version, page->continue_token);
    if (!page->continue_token.empty()) return;
    for (const AnyChange& change : informer_.store_.EndList()) informer_.Notify(change);
    informer_.lists_.Increment();
    UpdateSize();
    informer_.SetSynced();
  }

  void WatchOnce(const std::string& resource_version) {
    informer_.watches_.Increment();
    const auto started = informer_.clock_.Now();
    auto ended = informer_.client_.Watch(ctx_, options_.resource, options_.ns,
                                         {.label_selector = options_.label_selector,
                                          .field_selector = options_.field_selector,
                                          .resource_version = resource_version,
                                          .bookmarks = true,
                                          .timeout = WatchTimeout()},
                                         [this](const WatchEvent& event) {
                                           OnEvent(event);
                                           return ctx_.Check();
                                         });
    if (ctx_.Stopped()) return;
    const auto now = informer_.clock_.Now();
    if (!ended) informer_.log_.Info(ctx_, "watch ended", {{"reason", ended.error().message()}});
    state_.OnWatchEnded(ended, now - started);
    if (options_.resync.count() > 0 && now - resynced_ >= options_.resync) {
      resynced_ = now;
      informer_.Resync();
    }
  }

  // Spread, so that a hundred watches opened together do not all end together.
  std::chrono::seconds WatchTimeout() {
    std::uniform_real_distribution<double> spread(1.0, 1.5);
    std::chrono::seconds timeout(
        static_cast<long>(static_cast<double>(options_.watch_timeout.count()) * spread(random_)));
    if (options_.resync.count() > 0) timeout = std::min(timeout, options_.resync);
    return std::max(timeout, std::chrono::seconds(1));
  }

  void OnEvent(const WatchEvent& event) {
    if (event.type != WatchEventType::kBookmark) informer_.events_.Increment();
    switch (event.type) {
      case WatchEventType::kBookmark:
        break;
      case WatchEventType::kAdded:
      case WatchEventType::kModified:
        Take(event.object);
        break;
      case WatchEventType::kDeleted:
        if (const auto change = informer_.store_.Remove(event.object)) informer_.Notify(*change);
        break;
    }
    UpdateSize();
    informer_.store_.Seen(event.object.resource_version);
    state_.OnEvent(event.object.resource_version);
  }

  void Take(const RawObject& raw) {
    AnyObject object = informer_.DecodeOrTell(raw);
    const auto change =
        object ? informer_.store_.Put(raw, std::move(object)) : informer_.store_.Remove(raw);
    if (change) informer_.Notify(*change);
  }

  void UpdateSize() { informer_.objects_.Set(static_cast<double>(informer_.store_.size())); }

  InformerCore& informer_;
  const InformerOptions& options_;
  const Context ctx_;
  WatchState state_;
  std::minstd_rand random_;
  std::chrono::steady_clock::time_point resynced_{};
};

InformerCore::InformerCore(InformerOptions options, Decode decode, ClusterClient& client,
                           const Logger& log, MetricsRegistry& metrics, Clock& clock)
    : options_(std::move(options)),
      decode_(std::move(decode)),
      client_(client),
      log_(log),
      clock_(clock),
      lists_(metrics.AddCounter(metric::kInformerLists, metric::kInformerListsHelp,
                                ResourceLabel(options_.resource))),
      watches_(metrics.AddCounter(metric::kInformerWatches, metric::kInformerWatchesHelp,
                                  ResourceLabel(options_.resource))),
      events_(metrics.AddCounter(metric::kInformerEvents, metric::kInformerEventsHelp,
                                 ResourceLabel(options_.resource))),
      undecodable_(metrics.AddCounter(metric::kInformerUndecodable,
                                      metric::kInformerUndecodableHelp,
                                      ResourceLabel(options_.resource))),
      objects_(metrics.AddGauge(metric::kInformerObjects, metric::kInformerObjectsHelp,
                                ResourceLabel(options_.resource))) {}

InformerCore::~InformerCore() { Stop(); }

void InformerCore::AddHandler(Handler handler) {
  CHECK(!thread_.joinable(), "handler added after Start()");
  handlers_.push_back(std::move(handler));
}

void InformerCore::OnUndecodable(Undecodable callback) {
  CHECK(!thread_.joinable(), "callback added after Start()");
  on_undecodable_ = std::move(callback);
}

void InformerCore::Start() {
  CHECK(!thread_.joinable(), "informer started twice");
  thread_ = std::jthread([this](std::stop_token stop) {
    SetThreadName("inf-" + std::string(options_.resource.plural));
    Driver(*this, Context::Background()
                      .WithStop(std::move(stop))
                      .WithField("informer", ResourceName(options_.resource)))
        .Run();
  });
}

void InformerCore::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void InformerCore::SetSynced() {
  MutexLock lock(sync_mutex_);
  synced_.store(true, std::memory_order_release);
  sync_changed_.notify_all();
}

Result<void> InformerCore::WaitForSync(const Context& ctx) const {
  MutexLock lock(sync_mutex_);
  const auto synced = [this] { return HasSynced(); };
  const bool done = ctx.has_deadline()
                        ? sync_changed_.wait_until(lock, ctx.stop(), ctx.deadline(), synced)
                        : sync_changed_.wait(lock, ctx.stop(), synced);
  if (done) return {};
  return Fail(ctx.Stopped() ? Code::kCancelled : Code::kDeadline,
              "the first list of {} is not complete", ResourceName(options_.resource));
}

void InformerCore::Learn(const RawObject& raw) {
  // Only what our own watch would tell us of; a field selector is the server's to judge.
  if (!HasSynced() || !options_.field_selector.empty()) return;
  if (!options_.ns.empty() && raw.ns != options_.ns) return;
  if (!options_.label_selector.empty()) {
    const auto selector = Selector::Parse(options_.label_selector);
    const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
      const auto value = raw.Label(name);
      return value ? std::optional<std::string>(*value) : std::nullopt;
    };
    if (!selector || !selector->Matches(lookup)) return;
  }
  AnyObject object = DecodeOrTell(raw);
  if (!object) return;
  if (const auto change = store_.Learn(raw, std::move(object))) Notify(*change);
}

void InformerCore::Notify(const AnyChange& change) {
  for (const Handler& handler : handlers_) handler(change);
}

void InformerCore::Resync() {
  for (const auto& [key, object] : store_.All())
    Notify({.key = key, .before = object, .after = object});
}

AnyObject InformerCore::DecodeOrTell(const RawObject& raw) {
  auto object = decode_(raw);
  if (object) return *std::move(object);
  undecodable_.Increment();
  log_.Warn(Context::Background(), "object cannot be decoded",
            {{"resource", ResourceName(options_.resource)},
             {"key", raw.key().ToString()},
             {"error", object.error().message()}});
  if (on_undecodable_) on_undecodable_(raw, object.error());
  return nullptr;
}

std::vector<std::string> OwnerUids(const RawObject& raw) {
  std::vector<std::string> out;
  out.reserve(raw.owners.size());
  for (const OwnerReference& owner : raw.owners) out.push_back(owner.uid);
  return out;
}

std::vector<std::string> ControllerUid(const RawObject& raw) {
  const OwnerReference* owner = raw.Controller();
  if (owner == nullptr) return {};
  return {owner->uid};
}

IndexValues LabelValue(std::string label) {
  return [label = std::move(label)](const RawObject& raw) -> std::vector<std::string> {
    const auto value = raw.Label(label);
    if (!value) return {};
    return {std::string(*value)};
  };
}

}  // namespace paddleop::kube
