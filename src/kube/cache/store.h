// The objects of an informer, by key and by index, without their types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "kube/wire/raw_object.h"

namespace paddleop::kube {

// An object of a type only the informer's template knows.
using AnyObject = std::shared_ptr<const void>;
// The values under which an index finds an object.
using IndexValues = std::function<std::vector<std::string>(const RawObject& raw)>;

// A change of the store. `before` is null for a new object, `after` for one that is gone.
struct AnyChange {
  ObjectKey key;
  AnyObject before;
  AnyObject after;
};

// Thread-safe. An object that is the same as, or older than, the one in the store changes nothing.
class Store {
 public:
  // Before the first object. Names are unique.
  void AddIndex(std::string name, IndexValues values);

  // Puts the object of an event or a list in. nullopt if it is nothing new.
  std::optional<AnyChange> Put(const RawObject& raw, AnyObject object);
  // Takes the object out, on a deletion event.
  std::optional<AnyChange> Remove(const RawObject& raw);
  // Puts in the answer to a write of our own, unless a watch that has come further than it knew
  // better.
  std::optional<AnyChange> Learn(const RawObject& raw, AnyObject object);
  // The watch has told everything up to this version.
  void Seen(std::string_view resource_version);

  // A list at this version begins: what Put() does not mention until EndList() is gone, except what
  // Learn() put in since. A version before what the watch has told (etcd was restored) makes the
  // list right in everything.
  void BeginList(std::string_view resource_version);
  std::vector<AnyChange> EndList();

  AnyObject Get(const ObjectKey& key) const;
  // All, or those of a namespace.
  std::vector<AnyObject> List(std::string_view ns) const;
  std::vector<std::pair<ObjectKey, AnyObject>> All() const;
  std::vector<AnyObject> ByIndex(std::string_view index, const std::string& value) const;
  std::vector<ObjectKey> KeysByIndex(std::string_view index, const std::string& value) const;
  std::size_t size() const;

 private:
  struct Entry;
  struct Index;
  using Bucket = std::pair<const std::string, std::vector<const Entry*>>;
  struct Index {
    std::string name;
    IndexValues values;
    std::unordered_map<std::string, std::vector<const Entry*>> buckets;
  };
  // Where an object stands in an index, so that it can be taken out without its JSON.
  struct Place {
    Index* index;
    Bucket* bucket;
  };
  struct Entry {
    const ObjectKey* key = nullptr;  // of the map, never moves
    AnyObject object;
    std::string resource_version;
    std::uint32_t list = 0;  // the last list that mentioned it
    std::vector<Place> places;
  };

  std::optional<AnyChange> PutLocked(const RawObject& raw, AnyObject object) REQUIRES(mutex_);
  AnyChange EraseLocked(std::unordered_map<ObjectKey, Entry>::iterator found) REQUIRES(mutex_);
  void AddToIndexes(const RawObject& raw, Entry& entry) REQUIRES(mutex_);
  void DropFromIndexes(Entry& entry) REQUIRES(mutex_);
  const Index* FindIndex(std::string_view name) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unordered_map<ObjectKey, Entry> entries_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Index>> indexes_ GUARDED_BY(mutex_);
  std::string seen_ GUARDED_BY(mutex_);
  std::uint32_t list_ GUARDED_BY(mutex_) = 0;
  std::string list_version_ GUARDED_BY(mutex_);
  bool rewound_ GUARDED_BY(mutex_) = false;  // the list is older than what we have
};

}  // namespace paddleop::kube
