#include "kube/cache/store.h"

#include <algorithm>

#include "base/check.h"

namespace paddleop::kube {

void Store::AddIndex(std::string name, IndexValues values) {
  MutexLock lock(mutex_);
  CHECK(entries_.empty(), "index {} added to a store with objects", name);
  CHECK(FindIndex(name) == nullptr, "index {} added twice", name);
  indexes_.push_back(
      std::make_unique<Index>(Index{std::move(name), std::move(values), /*buckets=*/{}}));
}

std::optional<AnyChange> Store::Put(const RawObject& raw, AnyObject object) {
  MutexLock lock(mutex_);
  return PutLocked(raw, std::move(object));
}

std::optional<AnyChange> Store::PutLocked(const RawObject& raw, AnyObject object) {
  const auto [found, added] = entries_.try_emplace(raw.key());
  Entry& entry = found->second;
  entry.list = list_;
  if (!added) {
    if (entry.resource_version == raw.resource_version) return std::nullopt;
    if (!rewound_ && LaterVersion(entry.resource_version, raw.resource_version))
      return std::nullopt;
    DropFromIndexes(entry);
  }
  entry.key = &found->first;
  entry.resource_version = raw.resource_version;
  AnyChange change{.key = found->first, .before = std::move(entry.object), .after = object};
  entry.object = std::move(object);
  AddToIndexes(raw, entry);
  return change;
}

std::optional<AnyChange> Store::Remove(const RawObject& raw) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(raw.key());
  if (found == entries_.end()) return std::nullopt;
  // Created again, and we know it already from our own write.
  if (LaterVersion(found->second.resource_version, raw.resource_version)) return std::nullopt;
  return EraseLocked(found);
}

std::optional<AnyChange> Store::Learn(const RawObject& raw, AnyObject object) {
  MutexLock lock(mutex_);
  // Up to `seen_` the watch has the last word: this object may have been changed or deleted since.
  if (!LaterVersion(raw.resource_version, seen_)) return std::nullopt;
  return PutLocked(raw, std::move(object));
}

void Store::Seen(std::string_view resource_version) {
  if (resource_version.empty()) return;
  MutexLock lock(mutex_);
  seen_ = resource_version;
}

void Store::BeginList(std::string_view resource_version) {
  MutexLock lock(mutex_);
  ++list_;
  list_version_ = resource_version;
  rewound_ = LaterVersion(seen_, resource_version);
}

std::vector<AnyChange> Store::EndList() {
  MutexLock lock(mutex_);
  std::vector<AnyChange> gone;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    const bool newer = !rewound_ && LaterVersion(entry->second.resource_version, list_version_);
    if (entry->second.list != list_ && !newer) gone.push_back(EraseLocked(entry));
    entry = next;
  }
  seen_ = list_version_;
  rewound_ = false;
  return gone;
}

AnyChange Store::EraseLocked(std::unordered_map<ObjectKey, Entry>::iterator found) {
  DropFromIndexes(found->second);
  AnyChange change{
      .key = found->first, .before = std::move(found->second.object), .after = nullptr};
  entries_.erase(found);
  return change;
}

AnyObject Store::Get(const ObjectKey& key) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second.object;
}

std::vector<AnyObject> Store::List(std::string_view ns) const {
  MutexLock lock(mutex_);
  std::vector<AnyObject> out;
  for (const auto& [key, entry] : entries_) {
    if (ns.empty() || key.ns == ns) out.push_back(entry.object);
  }
  return out;
}

std::vector<std::pair<ObjectKey, AnyObject>> Store::All() const {
  MutexLock lock(mutex_);
  std::vector<std::pair<ObjectKey, AnyObject>> out;
  out.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) out.emplace_back(key, entry.object);
  return out;
}

std::vector<AnyObject> Store::ByIndex(std::string_view index, const std::string& value) const {
  MutexLock lock(mutex_);
  const Index* found = FindIndex(index);
  CHECK(found != nullptr, "no index {}", index);
  std::vector<AnyObject> out;
  const auto bucket = found->buckets.find(value);
  if (bucket == found->buckets.end()) return out;
  for (const Entry* entry : bucket->second) out.push_back(entry->object);
  return out;
}

std::vector<ObjectKey> Store::KeysByIndex(std::string_view index, const std::string& value) const {
  MutexLock lock(mutex_);
  const Index* found = FindIndex(index);
  CHECK(found != nullptr, "no index {}", index);
  std::vector<ObjectKey> out;
  const auto bucket = found->buckets.find(value);
  if (bucket == found->buckets.end()) return out;
  for (const Entry* entry : bucket->second) out.push_back(*entry->key);
  return out;
}

std::size_t Store::size() const {
  MutexLock lock(mutex_);
  return entries_.size();
}

void Store::AddToIndexes(const RawObject& raw, Entry& entry) {
  for (const auto& index : indexes_) {
    for (std::string& value : index->values(raw)) {
      const auto [bucket, added] = index->buckets.try_emplace(std::move(value));
      // An index may name a value twice (two owners with one UID); the object is there once.
      if (!added && !bucket->second.empty() && bucket->second.back() == &entry) continue;
      bucket->second.push_back(&entry);
      entry.places.push_back({index.get(), &*bucket});
    }
  }
  entry.places.shrink_to_fit();
}

void Store::DropFromIndexes(Entry& entry) {
  for (const Place& place : entry.places) {
    std::vector<const Entry*>& members = place.bucket->second;
    const auto found = std::ranges::find(members, &entry);
    CHECK(found != members.end(), "index {} lost {}", place.index->name, entry.key->ToString());
    *found = members.back();
    members.pop_back();
    if (members.empty()) place.index->buckets.erase(std::string(place.bucket->first));
  }
  entry.places.clear();
}

const Store::Index* Store::FindIndex(std::string_view name) const {
  const auto found = std::ranges::find_if(
      indexes_, [&](const std::unique_ptr<Index>& index) { return index->name == name; });
  return found == indexes_.end() ? nullptr : found->get();
}

}  // namespace paddleop::kube
