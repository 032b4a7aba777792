#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "kube/cache/store.h"
#include "kube/client/cluster_client.h"

namespace paddleop::kube {

struct InformerOptions {
  GroupVersionResource resource;
  std::string ns;  // empty: the whole cluster
  std::string label_selector;
  std::string field_selector;
  std::size_t page_size = 500;
  std::chrono::seconds watch_timeout{360};
  // Tell every handler about every object again, this often; zero: never. A controller whose
  // handlers enqueue what they depend on needs none.
  std::chrono::seconds resync{0};
  BackoffOptions backoff{.initial = std::chrono::milliseconds(200),
                         .maximum = std::chrono::seconds(30)};
};

// What a typed informer hides from its users: one thread that lists, watches, resumes and lists
// again, and keeps a Store.
class InformerCore {
 public:
  using Decode = std::function<Result<AnyObject>(const RawObject& raw)>;
  using Handler = std::function<void(const AnyChange& change)>;
  using Undecodable = std::function<void(const RawObject& raw, const Status& why)>;

  InformerCore(InformerOptions options, Decode decode, ClusterClient& client, const Logger& log,
               MetricsRegistry& metrics, Clock& clock);
  ~InformerCore();
  InformerCore(const InformerCore&) = delete;
  InformerCore& operator=(const InformerCore&) = delete;

  void AddHandler(Handler handler);
  void OnUndecodable(Undecodable callback);
  void Start();
  void Stop();
  bool HasSynced() const { return synced_.load(std::memory_order_acquire); }
  Result<void> WaitForSync(const Context& ctx) const;
  void Learn(const RawObject& raw);

  Store& store() { return store_; }
  const Store& store() const { return store_; }
  const InformerOptions& options() const { return options_; }

 private:
  class Driver;
  void SetSynced();
  void Notify(const AnyChange& change);
  void Resync();
  // Null after telling why.
  AnyObject DecodeOrTell(const RawObject& raw);

  const InformerOptions options_;
  const Decode decode_;
  ClusterClient& client_;
  const Logger& log_;
  Clock& clock_;
  MetricsRegistry::Counter& lists_;
  MetricsRegistry::Counter& watches_;
  MetricsRegistry::Counter& events_;
  MetricsRegistry::Counter& undecodable_;
  MetricsRegistry::Gauge& objects_;
  std::vector<Handler> handlers_;
  Undecodable on_undecodable_;
  Store store_;
  std::atomic<bool> synced_ = false;
  mutable Mutex sync_mutex_;
  mutable CondVar sync_changed_;
  std::jthread thread_;
};

// A change as a handler sees it. `before` is null for a new object, `after` for one that is gone.
template <class T>
struct Change {
  const ObjectKey& key;
  std::shared_ptr<const T> before;
  std::shared_ptr<const T> after;
};

// A local copy of the objects of one resource (of one namespace, or matching a selector), kept up
// to date by a watch, found by key or by index. T is whatever small struct the decode function
// makes of an object; JSON is not kept.
//
//   Informer<Pod> pods({.resource = kPods}, DecodePod, client, log, metrics);
//   pods.AddIndex("job", [](const RawObject& raw) { return OwnerUids(raw); });
//   pods.AddHandler([&](const Change<Pod>& change) { queue.Add(JobOf(*(change.after ? ... )); });
//   pods.Start();
//
// Indexes and handlers are added before Start(). After it, everything is thread-safe. What it
// returns is shared and immutable: nobody edits the cache. Objects may lag behind the server;
// writes of our own that went through Learn() do not.
//
// Handlers run on the informer's thread (and on that of a caller of Learn), must not block, and
// learn of every object at least once; two changes of one object that follow quickly may be told in
// either order, so a handler enqueues a key and the reconciler reads the cache.
template <class T>
class Informer {
 public:
  using Pointer = std::shared_ptr<const T>;
  using Decode = std::function<Result<T>(std::string_view json)>;

  Informer(InformerOptions options, Decode decode, ClusterClient& client, const Logger& log,
           MetricsRegistry& metrics, Clock& clock = Clock::System())
      : core_(std::make_shared<InformerCore>(std::move(options), Erase(std::move(decode)), client,
                                             log, metrics, clock)) {}

  // `values` says under which values the index finds an object.
  void AddIndex(std::string name, IndexValues values) {
    core_->store().AddIndex(std::move(name), std::move(values));
  }
  void AddHandler(std::function<void(const Change<T>&)> handler) {
    core_->AddHandler([handler = std::move(handler)](const AnyChange& change) {
      handler(Change<T>{change.key, Cast(change.before), Cast(change.after)});
    });
  }
  // An object that `decode` refuses is logged, counted and left out (its former state too); this is
  // how a controller can tell its owner.
  void OnUndecodable(InformerCore::Undecodable callback) {
    core_->OnUndecodable(std::move(callback));
  }

  void Start() { core_->Start(); }
  // Joins the thread; the objects stay readable.
  void Stop() { core_->Stop(); }
  // The first list is complete.
  bool HasSynced() const { return core_->HasSynced(); }
  Result<void> WaitForSync(const Context& ctx) const { return core_->WaitForSync(ctx); }

  // The object, or null.
  Pointer Get(const ObjectKey& key) const { return Cast(core_->store().Get(key)); }
  std::vector<Pointer> List(std::string_view ns = "") const {
    return Cast(core_->store().List(ns));
  }
  std::vector<Pointer> ByIndex(std::string_view index, const std::string& value) const {
    return Cast(core_->store().ByIndex(index, value));
  }
  std::vector<ObjectKey> KeysByIndex(std::string_view index, const std::string& value) const {
    return core_->store().KeysByIndex(index, value);
  }
  std::size_t size() const { return core_->store().size(); }

  // Takes in the server's answer to a Create, Update or Patch, so that the next reconcile sees it
  // without waiting for the watch. An answer older than what the watch has told is ignored.
  void Learn(const RawObject& raw) { core_->Learn(raw); }

  // For Manager, which starts and stops informers of all types.
  std::shared_ptr<InformerCore> core() const { return core_; }

 private:
  static Pointer Cast(const AnyObject& object) { return std::static_pointer_cast<const T>(object); }
  static std::vector<Pointer> Cast(const std::vector<AnyObject>& objects) {
    std::vector<Pointer> out;
    out.reserve(objects.size());
    for (const AnyObject& object : objects) out.push_back(Cast(object));
    return out;
  }
  static InformerCore::Decode Erase(Decode decode) {
    return [decode = std::move(decode)](const RawObject& raw) -> Result<AnyObject> {
      auto object = decode(raw.json);
      if (!object) return std::unexpected(std::move(object).error());
      return AnyObject(std::make_shared<const T>(*std::move(object)));
    };
  }

  std::shared_ptr<InformerCore> core_;
};

// Ready-made index values: the UIDs of all owners; of the managing owner only; of one label's
// value.
std::vector<std::string> OwnerUids(const RawObject& raw);
std::vector<std::string> ControllerUid(const RawObject& raw);
IndexValues LabelValue(std::string label);

}  // namespace paddleop::kube
