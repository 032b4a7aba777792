#include "volume/object/renewing_store.h"

namespace paddleop::volume::object {
namespace {

constexpr auto kLookInterval = std::chrono::seconds(1);
constexpr auto kLookTimeout = std::chrono::seconds(10);
// Refused requests that wait for the keys at once; more than that are told of the refusal.
constexpr std::size_t kMaxWaiting = 1024;

}  // namespace

RenewingStore::RenewingStore(std::unique_ptr<ObjectStore> first, Reopen reopen, Clock& clock)
    : traits_(first->traits()), reopen_(std::move(reopen)), clock_(clock) {
  MutexLock lock(mutex_);
  current_.store = std::move(first);
}

RenewingStore::~RenewingStore() {
  Stop();
  std::unique_ptr<ThreadPool> pool;
  Opened last;
  {
    MutexLock lock(mutex_);
    closing_ = true;
    pool = std::move(pool_);
  }
  pool.reset();
  {
    MutexLock lock(mutex_);
    last = std::move(current_);
  }
  // What is under way reports now, without any lock held.
  last.store.reset();
  std::vector<Opened> retired;
  {
    MutexLock lock(renewal_);
    retired = std::move(retired_);
  }
}

void RenewingStore::Stop() {
  MutexLock lock(renewal_);
  stopped_ = true;
}

RenewingStore::Use RenewingStore::Current() const {
  MutexLock lock(mutex_);
  return {current_.store.get(), current_.users};
}

bool RenewingStore::Renew(const Context& ctx, const Use& refused) {
  MutexLock lock(renewal_);
  if (stopped_) return false;
  if (Current().store != refused.store) return true;
  const auto now = clock_.Now();
  if (next_look_ && now < *next_look_) return false;
  next_look_ = now + kLookInterval;
  auto opened = reopen_(ctx.WithTimeout(kLookTimeout));
  if (!opened || *opened == nullptr) return false;
  std::erase_if(retired_, [](const Opened& old) { return old.users.use_count() == 1; });
  Opened fresh{.store = *std::move(opened)};
  {
    MutexLock swap(mutex_);
    std::swap(current_, fresh);
  }
  retired_.push_back(std::move(fresh));
  return true;
}

template <class Operation>
auto RenewingStore::Call(const Context& ctx, Operation operation)
    -> decltype(operation(std::declval<ObjectStore&>())) {
  const Use first = Current();
  auto result = operation(*first.store);
  if (result || result.error().code() != Code::kPermission || !Renew(ctx, first)) return result;
  return operation(*Current().store);
}

bool RenewingStore::RunLater(ThreadPool::Task task) {
  MutexLock lock(mutex_);
  if (closing_) return false;
  if (pool_ == nullptr) {
    pool_ = std::make_unique<ThreadPool>(
        ThreadPool::Options{.name = "object-keys", .threads = 1, .queue_limit = kMaxWaiting});
  }
  return pool_->TrySubmit(std::move(task));
}

// `start` begins the operation on a store; `done` gets its result.
template <class T, class Start>
void RenewingStore::CallLater(const Context& ctx, std::function<void(Result<T>)> done,
                              const Start& start) {
  const Use first = Current();
  start(*first.store, [this, ctx, first, done = std::move(done), start](Result<T> result) {
    if (result || result.error().code() != Code::kPermission) return done(std::move(result));
    const auto refusal = std::make_shared<Result<T>>(std::move(result));
    const bool queued = RunLater([this, ctx, first, done, start, refusal] {
      if (!Renew(ctx, first)) return done(std::move(*refusal));
      const Use second = Current();
      start(*second.store, [second, done](Result<T> again) { done(std::move(again)); });
    });
    if (!queued) done(std::move(*refusal));
  });
}

Result<void> RenewingStore::Create(const Context& ctx) {
  return Call(ctx, [&](ObjectStore& store) { return store.Create(ctx); });
}

Result<GetResult> RenewingStore::Get(const Context& ctx, std::string_view key,
                                     const GetOptions& options, std::span<std::byte> out) {
  return Call(ctx, [&](ObjectStore& store) { return store.Get(ctx, key, options, out); });
}

Result<void> RenewingStore::Put(const Context& ctx, std::string_view key,
                                std::span<const std::byte> data, const PutOptions& options) {
  return Call(ctx, [&](ObjectStore& store) { return store.Put(ctx, key, data, options); });
}

Result<void> RenewingStore::Delete(const Context& ctx, std::string_view key) {
  return Call(ctx, [&](ObjectStore& store) { return store.Delete(ctx, key); });
}

Result<std::vector<KeyError>> RenewingStore::DeleteMany(const Context& ctx,
                                                        std::span<const std::string> keys) {
  return Call(ctx, [&](ObjectStore& store) { return store.DeleteMany(ctx, keys); });
}

Result<ObjectInfo> RenewingStore::Head(const Context& ctx, std::string_view key) {
  return Call(ctx, [&](ObjectStore& store) { return store.Head(ctx, key); });
}

Result<void> RenewingStore::List(const Context& ctx, const ListOptions& options,
                                 const ListVisitor& visit) {
  bool shown = false;
  const ListVisitor noting = [&](ObjectInfo& entry) {
    shown = true;
    return visit(entry);
  };
  const Use first = Current();
  auto listed = first.store->List(ctx, options, noting);
  if (listed || shown || listed.error().code() != Code::kPermission || !Renew(ctx, first))
    return listed;
  return Current().store->List(ctx, options, visit);
}

Result<void> RenewingStore::Copy(const Context& ctx, std::string_view from, std::string_view to) {
  return Call(ctx, [&](ObjectStore& store) { return store.Copy(ctx, from, to); });
}

Result<std::string> RenewingStore::CreateUpload(const Context& ctx, std::string_view key,
                                                const PutOptions& options) {
  return Call(ctx, [&](ObjectStore& store) { return store.CreateUpload(ctx, key, options); });
}

Result<UploadedPart> RenewingStore::UploadPart(const Context& ctx, std::string_view key,
                                               const std::string& upload, int number,
                                               std::span<const std::byte> data) {
  return Call(ctx,
              [&](ObjectStore& store) { return store.UploadPart(ctx, key, upload, number, data); });
}

Result<void> RenewingStore::CompleteUpload(const Context& ctx, std::string_view key,
                                           const std::string& upload,
                                           std::span<const UploadedPart> parts) {
  return Call(ctx,
              [&](ObjectStore& store) { return store.CompleteUpload(ctx, key, upload, parts); });
}

Result<void> RenewingStore::AbortUpload(const Context& ctx, std::string_view key,
                                        const std::string& upload) {
  return Call(ctx, [&](ObjectStore& store) { return store.AbortUpload(ctx, key, upload); });
}

void RenewingStore::StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                             std::span<std::byte> out, GetDone done) {
  CallLater<GetResult>(
      ctx, std::move(done),
      [ctx, key = std::string(key), options, out](ObjectStore& store, GetDone next) {
        store.StartGet(ctx, key, options, out, std::move(next));
      });
}

void RenewingStore::StartPut(const Context& ctx, std::string_view key,
                             std::span<const std::byte> data, const PutOptions& options,
                             Done done) {
  CallLater<void>(ctx, std::move(done),
                  [ctx, key = std::string(key), data, options](ObjectStore& store, Done next) {
                    store.StartPut(ctx, key, data, options, std::move(next));
                  });
}

void RenewingStore::StartDelete(const Context& ctx, std::string_view key, Done done) {
  CallLater<void>(ctx, std::move(done),
                  [ctx, key = std::string(key)](ObjectStore& store, Done next) {
                    store.StartDelete(ctx, key, std::move(next));
                  });
}

}  // namespace paddleop::volume::object
