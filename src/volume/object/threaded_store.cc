#include "volume/object/threaded_store.h"

#include <mutex>
#include <optional>
#include <utility>

#include "base/thread_pool.h"
#include "volume/object/forwarding_store.h"

namespace paddleop::volume::object {
namespace {

class ThreadedStore final : public ForwardingStore {
 public:
  ThreadedStore(std::unique_ptr<ObjectStore> inner, ThreadedOptions options)
      : ForwardingStore(std::move(inner)), options_(options) {}

  // What is queued still runs, but as cancelled: nobody should wait for a long queue.
  ~ThreadedStore() override {
    stopping_.request_stop();
    pool_.reset();
  }

  StoreTraits traits() const override {
    StoreTraits traits = inner_->traits();
    traits.asynchronous = true;
    return traits;
  }

  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override {
    Submit(ctx, done, [this, ctx, key = std::string(key), options, out] {
      return inner_->Get(ctx, key, options, out);
    });
  }
  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override {
    Submit(ctx, done, [this, ctx, key = std::string(key), data, options] {
      return inner_->Put(ctx, key, data, options);
    });
  }
  void StartDelete(const Context& ctx, std::string_view key, Done done) override {
    Submit(ctx, done, [this, ctx, key = std::string(key)] { return inner_->Delete(ctx, key); });
  }

 private:
  template <class DoneCallback, class Operation>
  void Submit(const Context& ctx, const DoneCallback& done, Operation operation) {
    std::call_once(made_, [this] {
      pool_.emplace(ThreadPool::Options{
          .name = "object-io", .threads = options_.threads, .queue_limit = options_.queue_limit});
    });
    const bool queued = pool_->TrySubmit([this, ctx, done, operation = std::move(operation)] {
      if (stopping_.stop_requested()) return done(Fail(Code::kCancelled, "{} was closed", name()));
      if (auto live = ctx.Check(); !live) return done(std::unexpected(live.error()));
      done(operation());
    });
    if (queued) return;
    done(Fail(Code::kUnavailable, "{}: more than {} operations are waiting for a thread", name(),
              options_.queue_limit));
  }

  const ThreadedOptions options_;
  std::stop_source stopping_;
  std::once_flag made_;
  std::optional<ThreadPool> pool_;
};

}  // namespace

std::unique_ptr<ObjectStore> WithThreads(std::unique_ptr<ObjectStore> inner,
                                         ThreadedOptions options) {
  return std::make_unique<ThreadedStore>(std::move(inner), options);
}

}  // namespace paddleop::volume::object
