#include "standalone/apiserver/store.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/thread_pool.h"
#include "standalone/apiserver/internal/journal.h"

namespace paddleop::standalone::apiserver {

struct Store::Pending {
  const Kind* kind = nullptr;
  api::ObjectKey key;
  ObjectPtr before;
  std::shared_ptr<StoredObject> object;  // the new version, or the last one of a deletion
  bool removes = false;
  std::string resource;
  bool finished = false;
  std::shared_ptr<const Status> failure;

  ObjectPtr latest() const { return removes ? nullptr : object; }
};

Store::Store(StoreOptions options) : options_(options) {
  objects_.resize(Kinds().size());
  pending_.resize(Kinds().size());
}

Result<std::unique_ptr<Store>> Store::Open(const std::string& path, StoreOptions options) {
  std::unique_ptr<Store> store(new Store(options));
  ASSIGN_OR_RETURN(store->journal_, Journal::Open(path));
  RETURN_IF_ERROR(store->Load());
  store->thread_ = std::jthread([s = store.get()](const std::stop_token& stop) { s->Run(stop); });
  return store;
}

Store::~Store() = default;

Result<void> Store::Load() {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(committed_, journal_->Revision());
  // Clients take version 0 for "any": the first change is 2, and a watch from 1 sees all of them.
  committed_ = std::max<std::uint64_t>(committed_, 1);
  assigned_ = committed_;
  return journal_->Load([&](const Journal::Row& row) REQUIRES(mutex_) -> Result<void> {
    const Kind* kind = FindKindByName(row.resource);
    if (kind == nullptr) {
      return Fail(Code::kNotSupported,
                  "the data directory has objects of kind {}, which this "
                  "program does not serve: use the program that wrote it",
                  row.resource);
    }
    ASSIGN_OR_RETURN(auto json, api::ParseJson(*row.json));
    auto object = MakeObject(*kind, std::move(json), row.revision);
    auto key = object->key();
    objects_[kind->id][std::move(key)] = std::move(object);
    return {};
  });
}

ObjectPtr Store::Get(const Kind& kind, const api::ObjectKey& key) const {
  MutexLock lock(mutex_);
  const auto found = objects_[kind.id].find(key);
  return found == objects_[kind.id].end() ? nullptr : found->second;
}

ObjectPtr Store::LatestLocked(const Kind& kind, const api::ObjectKey& key) const {
  const auto waiting = pending_[kind.id].find(key);
  if (waiting != pending_[kind.id].end()) return waiting->second->latest();
  const auto found = objects_[kind.id].find(key);
  return found == objects_[kind.id].end() ? nullptr : found->second;
}

ObjectPtr Store::Latest(const Kind& kind, const api::ObjectKey& key) const {
  MutexLock lock(mutex_);
  return LatestLocked(kind, key);
}

Store::Snapshot Store::List(const Kind& kind, const std::string& ns) const {
  MutexLock lock(mutex_);
  Snapshot out;
  out.revision = committed_;
  const Objects& all = objects_[kind.id];
  auto at = ns.empty() ? all.begin() : all.lower_bound({ns, ""});
  for (; at != all.end() && (ns.empty() || at->first.ns == ns); ++at) {
    out.objects.push_back(at->second);
  }
  return out;
}

std::vector<ObjectPtr> Store::Everything() const {
  MutexLock lock(mutex_);
  std::vector<ObjectPtr> out;
  for (const Objects& all : objects_) {
    for (const auto& [key, object] : all) out.push_back(object);
  }
  return out;
}

std::uint64_t Store::revision() const {
  MutexLock lock(mutex_);
  return committed_;
}

Result<ObjectPtr> Store::Put(const Kind& kind, const ObjectPtr& before, api::Json json) {
  auto pending = std::make_shared<Pending>();
  pending->kind = &kind;
  pending->object = MakeObject(kind, std::move(json), 0);
  pending->key = pending->object->key();
  pending->before = before;
  return Submit(std::move(pending));
}

Result<ObjectPtr> Store::Remove(const ObjectPtr& before) {
  auto pending = std::make_shared<Pending>();
  pending->kind = before->kind;
  pending->key = before->key();
  pending->before = before;
  pending->object = std::make_shared<StoredObject>(*before);
  pending->removes = true;
  return Submit(std::move(pending));
}

Result<ObjectPtr> Store::Submit(std::shared_ptr<Pending> pending) {
  pending->resource = pending->kind->FullName();
  MutexLock lock(mutex_);
  const ObjectPtr latest = LatestLocked(*pending->kind, pending->key);
  if (latest != pending->before) {
    return Fail(pending->before == nullptr ? Code::kAlreadyExists : Code::kConflict, "{} {}",
                pending->resource, pending->key.ToString());
  }
  if (queue_.size() >= options_.max_waiting) {
    return Fail(Code::kUnavailable, "{} writes wait for the disk", queue_.size());
  }
  SetRevision(*pending->object, ++assigned_);
  pending_[pending->kind->id][pending->key] = pending;
  queue_.push_back(pending);
  work_.notify_one();
  done_.wait(lock, [&]() REQUIRES(mutex_) { return pending->finished; });
  if (pending->failure) return std::unexpected(*pending->failure);
  return ObjectPtr(pending->object);
}

void Store::Run(const std::stop_token& stop) {
  SetThreadName("store");
  while (true) {
    std::vector<std::shared_ptr<Pending>> batch;
    {
      MutexLock lock(mutex_);
      work_.wait(lock, stop, [&]() REQUIRES(mutex_) { return !queue_.empty(); });
      if (queue_.empty()) return;  // stopped, and nobody waits
      const std::size_t count = std::min(queue_.size(), options_.max_batch);
      batch.assign(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    const auto persisted = Persist(batch);
    {
      MutexLock lock(mutex_);
      if (persisted) {
        Publish(batch);
      } else {
        FailAll(batch, persisted.error());
      }
      done_.notify_all();
    }
    if (persisted && on_commit_) on_commit_();
  }
}

Result<void> Store::Persist(const std::vector<std::shared_ptr<Pending>>& batch) {
  std::vector<Journal::Row> rows;
  rows.reserve(batch.size());
  for (const auto& pending : batch) {
    rows.push_back({pending->resource, pending->key.ns, pending->key.name,
                    pending->object->revision,
                    pending->removes ? nullptr : &pending->object->json});
  }
  return journal_->Commit(rows);
}

void Store::Publish(const std::vector<std::shared_ptr<Pending>>& batch) {
  for (const auto& pending : batch) {
    auto& waiting = pending_[pending->kind->id];
    const auto overlay = waiting.find(pending->key);
    if (overlay != waiting.end() && overlay->second == pending) waiting.erase(overlay);
    if (pending->removes) {
      objects_[pending->kind->id].erase(pending->key);
    } else {
      objects_[pending->kind->id][pending->key] = pending->object;
    }
    committed_ = pending->object->revision;
    const ChangeType type = pending->removes             ? ChangeType::kDeleted
                            : pending->before == nullptr ? ChangeType::kAdded
                                                         : ChangeType::kModified;
    window_.push_back({type, pending->object, pending->before});
    window_bytes_ += pending->object->json.size();
    pending->finished = true;
  }
  while (window_.size() > options_.window ||
         (window_bytes_ > options_.window_bytes && window_.size() > batch.size())) {
    window_bytes_ -= window_.front().object->json.size();
    window_.pop_front();
  }
}

// What waits was made from what has just failed, so it fails too; the revisions are given again.
void Store::FailAll(const std::vector<std::shared_ptr<Pending>>& batch, const Status& why) {
  const auto failure = std::make_shared<const Status>(why);
  const auto fail = [&](const std::shared_ptr<Pending>& pending) {
    pending->failure = failure;
    pending->finished = true;
  };
  std::for_each(batch.begin(), batch.end(), fail);
  std::for_each(queue_.begin(), queue_.end(), fail);
  queue_.clear();
  for (auto& waiting : pending_) waiting.clear();
  assigned_ = committed_;
}

Result<std::vector<Change>> Store::ChangesAfter(std::uint64_t revision, std::size_t limit) const {
  MutexLock lock(mutex_);
  const std::uint64_t first = committed_ - window_.size();  // the change after it is in the window
  if (revision < first || revision > committed_) {
    return Fail(Code::kExpired, "too old resource version: {} ({})", revision, first + 1);
  }
  const std::size_t skip = revision - first;
  const std::size_t count = std::min(limit, window_.size() - skip);
  const auto begin = window_.begin() + static_cast<std::ptrdiff_t>(skip);
  return std::vector<Change>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

void Store::OnCommit(std::function<void()> callback) { on_commit_ = std::move(callback); }

}  // namespace paddleop::standalone::apiserver
