#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"
#include "standalone/apiserver/stored_object.h"

namespace paddleop::standalone::apiserver {

class Journal;

enum class ChangeType { kAdded, kModified, kDeleted };

// One change of one object. Every change has a revision of its own, one more than the change
// before.
struct Change {
  ChangeType type = ChangeType::kAdded;
  ObjectPtr object;  // of a deletion: the last state, with the deletion's revision
  ObjectPtr before;  // null for an added one
};

struct StoreOptions {
  std::size_t window = 10'000;           // changes kept for watches
  std::size_t window_bytes = 64u << 20;  // of their texts, whichever is reached first
  std::size_t max_batch = 256;           // changes in one transaction
  std::size_t max_waiting = 4096;        // changes not yet on disk; more are refused
};

// All objects, in memory for readers and in SQLite for the next start. A write returns when it is
// on disk; writes that arrive while the disk is busy share the next transaction. Readers and
// watches see only what is on disk.
//
// Thread-safe.
class Store {
 public:
  static Result<std::unique_ptr<Store>> Open(const std::string& path, StoreOptions options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Null if there is none.
  ObjectPtr Get(const Kind& kind, const api::ObjectKey& key) const;
  // As Get, with writes that are on their way: what a writer starts from.
  ObjectPtr Latest(const Kind& kind, const api::ObjectKey& key) const;

  struct Snapshot {
    std::vector<ObjectPtr> objects;  // by namespace and name
    std::uint64_t revision = 0;
  };
  // `ns` empty: all namespaces.
  Snapshot List(const Kind& kind, const std::string& ns) const;
  std::vector<ObjectPtr> Everything() const;
  std::uint64_t revision() const;

  // Writes a new version. `before` is what it was made from, null for a new object. kConflict if
  // that is no longer the latest, kAlreadyExists if a new one is there already, kNoSpace and others
  // from the disk.
  Result<ObjectPtr> Put(const Kind& kind, const ObjectPtr& before, api::Json json);
  // The object with the revision of its deletion. kConflict as above.
  Result<ObjectPtr> Remove(const ObjectPtr& before);

  // Changes after `revision`, at most `limit`. kExpired if they are no longer, or not yet, known.
  Result<std::vector<Change>> ChangesAfter(std::uint64_t revision, std::size_t limit) const;
  // Called after each commit, from the store's thread; must not block. Set once, before use.
  void OnCommit(std::function<void()> callback);

 private:
  struct Pending;
  using Objects = std::map<api::ObjectKey, ObjectPtr>;

  explicit Store(StoreOptions options);
  Result<void> Load();
  ObjectPtr LatestLocked(const Kind& kind, const api::ObjectKey& key) const REQUIRES(mutex_);
  Result<ObjectPtr> Submit(std::shared_ptr<Pending> pending);
  void Run(const std::stop_token& stop);
  Result<void> Persist(const std::vector<std::shared_ptr<Pending>>& batch);
  void Publish(const std::vector<std::shared_ptr<Pending>>& batch) REQUIRES(mutex_);
  void FailAll(const std::vector<std::shared_ptr<Pending>>& batch, const Status& why)
      REQUIRES(mutex_);

  const StoreOptions options_;
  std::unique_ptr<Journal> journal_;
  mutable Mutex mutex_;
  CondVar work_;
  CondVar done_;
  std::vector<Objects> objects_ GUARDED_BY(mutex_);  // by kind
  std::vector<std::map<api::ObjectKey, std::shared_ptr<Pending>>> pending_ GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Pending>> queue_ GUARDED_BY(mutex_);
  std::deque<Change> window_ GUARDED_BY(mutex_);
  std::size_t window_bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t committed_ GUARDED_BY(mutex_) = 0;
  std::uint64_t assigned_ GUARDED_BY(mutex_) = 0;
  std::function<void()> on_commit_;
  std::jthread thread_;
};

}  // namespace paddleop::standalone::apiserver
