#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "standalone/apiserver/objects.h"

namespace paddleop::standalone::apiserver {

// Cleans up, as a cluster's garbage collector and namespace controller do: what is owned goes with
// its last owner; foreground and orphan deletions are carried out; the content of a namespace goes
// before it; events are kept for an hour. Every namespace gets its ServiceAccount `default`.
//
// One thread that follows the store's changes.
class Collector {
 public:
  Collector(Objects& objects, const Logger& log, Clock& clock,
            std::chrono::seconds event_lifetime = std::chrono::hours(1));
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // There may be something new in the store.
  void Wake();
  // Ends the thread; afterwards nothing happens any more.
  void Stop();

 private:
  struct Known {
    const Kind* kind = nullptr;
    api::ObjectKey key;
    std::vector<Owner> owners;
  };
  using Uid = std::string;

  void Run(const std::stop_token& stop);
  void Rebuild();
  // False: the changes are no longer known.
  bool Follow();
  void Learn(const StoredObject& object);
  void Forget(const StoredObject& object);
  void CheckOrphan(const Uid& uid);
  // True when nothing more is to be done for it.
  bool Finish(const Uid& uid);
  bool FinishNamespace(const ObjectPtr& space);
  bool FinishForeground(const ObjectPtr& owner);
  bool FinishOrphaning(const ObjectPtr& owner);
  void DropReference(const Known& dependent, const std::set<Uid>& gone);
  void DropFinalizer(const ObjectPtr& object, std::string_view finalizer);
  void Delete(const Kind& kind, const api::ObjectKey& key, const Uid& uid);
  void ExpireEvents();

  Objects& objects_;
  const Logger& log_;
  Clock& clock_;
  const std::chrono::seconds event_lifetime_;
  Mutex mutex_;
  CondVar changed_;
  bool woken_ GUARDED_BY(mutex_) = true;
  // The rest belongs to the thread.
  std::uint64_t seen_ = 0;
  std::unordered_map<Uid, Known> live_;
  std::unordered_map<Uid, std::set<Uid>> dependents_;  // by owner
  std::set<Uid> suspects_;                             // an owner of theirs is gone
  std::set<Uid> waiting_;                              // deleted, held by something of ours
  struct EventAge {
    api::ObjectKey key;
    Uid uid;
    std::uint64_t revision = 0;
  };
  std::multimap<std::chrono::steady_clock::time_point, EventAge> events_;
  std::jthread thread_;
};

}  // namespace paddleop::standalone::apiserver
