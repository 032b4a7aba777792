#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

// A store whose keys are exchanged while it is used. When it refuses a request (kPermission), the
// keys are looked up; if they are others now, the request is made once more with them. As long as
// they are the same, the refusal is the answer, and they are looked up once a second at most.
//
// Thread-safe. Looking up blocks, so requests that were started without a thread wait for it on one
// of this store's own.
class RenewingStore final : public ObjectStore {
 public:
  // Opens the store with the keys that hold now; null if those are the ones it gave last.
  using Reopen = std::function<Result<std::unique_ptr<ObjectStore>>(const Context&)>;

  RenewingStore(std::unique_ptr<ObjectStore> first, Reopen reopen, Clock& clock = Clock::System());
  ~RenewingStore() override;

  // From now on `reopen` is not called any more.
  void Stop();

  std::string name() const override { return Current().store->name(); }
  StoreTraits traits() const override { return traits_; }
  Result<void> Create(const Context& ctx) override;
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override;
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override;
  Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                           std::span<const std::string> keys) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override;
  // Not repeated once an entry was shown.
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override;
  Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to) override;
  Result<std::string> CreateUpload(const Context& ctx, std::string_view key,
                                   const PutOptions& options) override;
  Result<UploadedPart> UploadPart(const Context& ctx, std::string_view key,
                                  const std::string& upload, int number,
                                  std::span<const std::byte> data) override;
  Result<void> CompleteUpload(const Context& ctx, std::string_view key, const std::string& upload,
                              std::span<const UploadedPart> parts) override;
  Result<void> AbortUpload(const Context& ctx, std::string_view key,
                           const std::string& upload) override;
  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override;
  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override;
  void StartDelete(const Context& ctx, std::string_view key, Done done) override;
  std::chrono::steady_clock::duration RetryAfter() const override {
    return Current().store->RetryAfter();
  }

 private:
  // The store inside, and what each of its operations holds while it runs. Nobody but this class
  // owns the store: the last operation may end on a thread that the store has to join.
  struct Opened {
    std::unique_ptr<ObjectStore> store;
    std::shared_ptr<void> users = std::make_shared<char>();
  };
  struct Use {
    ObjectStore* store;
    std::shared_ptr<void> user;
  };

  Use Current() const;
  // Is there another store to ask than the one that refused?
  bool Renew(const Context& ctx, const Use& refused);
  template <class Operation>
  auto Call(const Context& ctx, Operation operation)
      -> decltype(operation(std::declval<ObjectStore&>()));
  template <class T, class Start>
  void CallLater(const Context& ctx, std::function<void(Result<T>)> done, const Start& start);
  bool RunLater(ThreadPool::Task task);

  const StoreTraits traits_;
  const Reopen reopen_;
  Clock& clock_;
  Mutex renewal_;  // held while the keys are looked up
  bool stopped_ GUARDED_BY(renewal_) = false;
  std::optional<std::chrono::steady_clock::time_point> next_look_ GUARDED_BY(renewal_);
  std::vector<Opened> retired_ GUARDED_BY(renewal_);  // replaced, but still in use
  mutable Mutex mutex_;
  Opened current_ GUARDED_BY(mutex_);
  std::unique_ptr<ThreadPool> pool_ GUARDED_BY(mutex_);  // made when first needed
  bool closing_ GUARDED_BY(mutex_) = false;
};

}  // namespace paddleop::volume::object
