#include "standalone/apiserver/collector.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/thread_pool.h"
#include "standalone/apiserver/internal/json_path.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr char kForeground[] = "foregroundDeletion";
constexpr char kOrphan[] = "orphan";
constexpr std::size_t kChanges = 512;

bool Has(const StoredObject& object, std::string_view finalizer) {
  return std::find(object.finalizers.begin(), object.finalizers.end(), finalizer) !=
         object.finalizers.end();
}

bool IsNamespace(const Kind& kind) { return kind.type.kind == "Namespace"; }

}  // namespace

Collector::Collector(Objects& objects, const Logger& log, Clock& clock,
                     std::chrono::seconds event_lifetime)
    : objects_(objects),
      log_(log),
      clock_(clock),
      event_lifetime_(event_lifetime),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Collector::~Collector() { Stop(); }

void Collector::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void Collector::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.notify_one();
}

void Collector::Run(const std::stop_token& stop) {
  SetThreadName("collector");
  Rebuild();
  while (!stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      auto wait = std::chrono::steady_clock::duration(std::chrono::hours(1));
      if (!events_.empty()) wait = std::max(wait.zero(), events_.begin()->first - clock_.Now());
      changed_.wait_for(lock, stop, wait + std::chrono::seconds(1),
                        [&]() REQUIRES(mutex_) { return woken_; });
      woken_ = false;
    }
    if (stop.stop_requested()) return;
    if (!Follow()) Rebuild();
    while (!suspects_.empty()) {
      const Uid uid = *suspects_.begin();
      suspects_.erase(suspects_.begin());
      CheckOrphan(uid);
    }
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      at = Finish(*at) ? waiting_.erase(at) : std::next(at);
    }
    ExpireEvents();
  }
}

void Collector::Rebuild() {
  live_.clear();
  dependents_.clear();
  events_.clear();
  // The revision first: a change that comes in between is then seen twice, which is harmless.
  seen_ = objects_.store().revision();
  const auto all = objects_.store().Everything();
  for (const ObjectPtr& object : all) Learn(*object);
  for (const auto& [uid, known] : live_) {
    if (std::any_of(known.owners.begin(), known.owners.end(),
                    [&](const Owner& owner) { return !live_.contains(owner.uid); })) {
      suspects_.insert(uid);
    }
  }
  Wake();
}

bool Collector::Follow() {
  while (true) {
    const auto changes = objects_.store().ChangesAfter(seen_, kChanges);
    if (!changes) return false;
    if (changes->empty()) return true;
    for (const Change& change : *changes) {
      seen_ = change.object->revision;
      if (change.type == ChangeType::kDeleted) {
        Forget(*change.object);
      } else {
        Learn(*change.object);
      }
    }
  }
}

void Collector::Learn(const StoredObject& object) {
  Known& known = live_[object.uid];
  for (const Owner& owner : known.owners) dependents_[owner.uid].erase(object.uid);
  known = {object.kind, object.key(), object.owners};
  for (const Owner& owner : object.owners) {
    dependents_[owner.uid].insert(object.uid);
    // Objects are learnt in the order they were made, so an owner that is not known is gone.
    if (!live_.contains(owner.uid)) suspects_.insert(object.uid);
  }
  const bool ours = IsNamespace(*object.kind) || Has(object, kForeground) || Has(object, kOrphan);
  if (object.deleting && ours) waiting_.insert(object.uid);
  if (IsNamespace(*object.kind) && !object.deleting) {
    const Kind& accounts = CoreKind("ServiceAccount");
    if (objects_.store().Latest(accounts, {object.name, "default"}) == nullptr) {
      // Refused only if the namespace goes away right now.
      (void)objects_.Create(
          accounts, object.name,
          {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", {{"name", "default"}}}},
          {});
    }
  }
  if (object.kind->type.kind == "Event") {
    events_.emplace(clock_.Now() + event_lifetime_,
                    EventAge{object.key(), object.uid, object.revision});
  }
}

void Collector::Forget(const StoredObject& object) {
  for (const Owner& owner : object.owners) dependents_[owner.uid].erase(object.uid);
  live_.erase(object.uid);
  waiting_.erase(object.uid);
  if (const auto found = dependents_.find(object.uid); found != dependents_.end()) {
    suspects_.insert(found->second.begin(), found->second.end());
    dependents_.erase(found);
  }
}

void Collector::CheckOrphan(const Uid& uid) {
  const auto found = live_.find(uid);
  if (found == live_.end() || found->second.owners.empty()) return;
  const Known known = found->second;
  std::set<Uid> gone;
  for (const Owner& owner : known.owners) {
    if (!live_.contains(owner.uid)) gone.insert(owner.uid);
  }
  if (gone.empty()) return;
  if (gone.size() == known.owners.size()) {
    Delete(*known.kind, known.key, uid);
  } else {
    DropReference(known, gone);
  }
}

bool Collector::Finish(const Uid& uid) {
  const auto found = live_.find(uid);
  if (found == live_.end()) return true;
  const ObjectPtr object = objects_.store().Latest(*found->second.kind, found->second.key);
  if (object == nullptr || object->uid != uid) return true;
  if (IsNamespace(*object->kind)) return FinishNamespace(object);
  if (Has(*object, kOrphan)) return FinishOrphaning(object);
  if (Has(*object, kForeground)) return FinishForeground(object);
  return true;
}

bool Collector::FinishNamespace(const ObjectPtr& space) {
  bool empty = true;
  for (const Kind& kind : Kinds()) {
    if (!kind.type.namespaced) continue;
    for (const ObjectPtr& object : objects_.store().List(kind, space->name).objects) {
      empty = false;
      if (!object->deleting) Delete(kind, object->key(), object->uid);
    }
  }
  if (!empty) return false;
  const auto removed = objects_.RemoveNamespace(space);
  return removed.has_value();
}

bool Collector::FinishForeground(const ObjectPtr& owner) {
  bool blocked = false;
  const std::set<Uid> dependents = dependents_[owner->uid];
  for (const Uid& uid : dependents) {
    const auto found = live_.find(uid);
    if (found == live_.end()) continue;
    const ObjectPtr object = objects_.store().Latest(*found->second.kind, found->second.key);
    if (object == nullptr || object->uid != uid) continue;
    for (const Owner& reference : object->owners) {
      blocked = blocked || (reference.uid == owner->uid && reference.blocks_deletion);
    }
    if (!object->deleting) Delete(*object->kind, object->key(), uid);
  }
  if (blocked) return false;  // the end of the last one wakes us
  DropFinalizer(owner, kForeground);
  return true;
}

bool Collector::FinishOrphaning(const ObjectPtr& owner) {
  const std::set<Uid> dependents = dependents_[owner->uid];
  for (const Uid& uid : dependents) {
    const auto found = live_.find(uid);
    if (found != live_.end()) DropReference(found->second, {owner->uid});
  }
  DropFinalizer(owner, kOrphan);
  return true;
}

void Collector::DropReference(const Known& dependent, const std::set<Uid>& gone) {
  const auto changed = objects_.Change(*dependent.kind, dependent.key, [&](Json& object) {
    Json kept = Json::array();
    for (const Json& owner : ListAt(object, "metadata.ownerReferences")) {
      if (!gone.contains(TextAt(owner, "uid"))) kept.push_back(owner);
    }
    if (kept.empty()) {
      object["metadata"].erase("ownerReferences");
    } else {
      object["metadata"]["ownerReferences"] = std::move(kept);
    }
    return true;
  });
  if (!changed && changed.error().code != 404) {
    log_.Warn(Context::Background(), "an owner reference stays",
              {{"object", dependent.key.ToString()}, {"error", changed.error().message}});
  }
}

void Collector::DropFinalizer(const ObjectPtr& object, std::string_view finalizer) {
  const auto changed = objects_.Change(*object->kind, object->key(), [&](Json& json) {
    Json kept = Json::array();
    for (const Json& name : ListAt(json, "metadata.finalizers")) {
      if (name != finalizer) kept.push_back(name);
    }
    if (kept.empty()) {
      json["metadata"].erase("finalizers");
    } else {
      json["metadata"]["finalizers"] = std::move(kept);
    }
    return true;
  });
  if (!changed && changed.error().code != 404) {
    log_.Warn(Context::Background(), "a finalizer stays",
              {{"object", object->key().ToString()}, {"error", changed.error().message}});
  }
}

void Collector::Delete(const Kind& kind, const api::ObjectKey& key, const Uid& uid) {
  DeleteRequest request;
  request.uid = uid;
  request.propagation = kube::Propagation::kBackground;
  const auto deleted = objects_.Delete(kind, key, request);
  if (!deleted && deleted.error().code != 404 && deleted.error().code != 409) {
    log_.Warn(Context::Background(), "cannot delete what nobody owns any more",
              {{"kind", kind.FullName()},
               {"object", key.ToString()},
               {"error", deleted.error().message}});
  }
}

void Collector::ExpireEvents() {
  const auto now = clock_.Now();
  while (!events_.empty() && events_.begin()->first <= now) {
    const EventAge age = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    const auto object = objects_.store().Get(CoreKind("Event"), age.key);
    // One that was counted again since has a later entry.
    if (object != nullptr && object->revision == age.revision) {
      Delete(*object->kind, age.key, age.uid);
    }
  }
}

}  // namespace paddleop::standalone::apiserver
