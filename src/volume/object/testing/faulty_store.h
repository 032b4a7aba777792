#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "base/mutex.h"
#include "volume/object/forwarding_store.h"

namespace paddleop::volume::object::testing {

// What goes wrong with one operation.
struct Fault {
  enum class Kind {
    kUnavailable,  // refused, as by a 503; nothing happened
    kReset,        // the connection broke after the operation was done: nobody knows
    kShortRead,    // half of the bytes, then the connection broke
    kCorrupt,      // one byte is not what was stored
    kSlow,         // works, after `delay`
  };
  Kind kind = Kind::kUnavailable;
  std::chrono::milliseconds delay{0};
};

enum class Op { kGet, kPut, kDelete, kHead, kList, kUpload };

// A store in front of another that fails as it was told, for tests of what stands before it.
// Thread-safe.
class FaultyObjectStore final : public ForwardingStore {
 public:
  explicit FaultyObjectStore(std::unique_ptr<ObjectStore> inner, std::uint64_t seed = 1);

  // The next `times` operations of this kind fail so, after `after` that work.
  void Inject(Op op, Fault fault, int times = 1, int after = 0);
  // From now on each operation of this kind fails so with this probability.
  void InjectRandomly(Op op, Fault fault, double probability);
  void set_retry_after(std::chrono::milliseconds delay);
  // How many operations of this kind arrived.
  int calls(Op op) const;

  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override;
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override;
  // A listing that breaks does so after half of its limit, or after one entry.
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override;
  Result<void> CompleteUpload(const Context& ctx, std::string_view key, const std::string& upload,
                              std::span<const UploadedPart> parts) override;
  // NOLINTBEGIN(bugprone-parent-virtual-call): by way of the calls above, not of the store behind
  Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                           std::span<const std::string> keys) override {
    return ObjectStore::DeleteMany(ctx, keys);
  }
  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override {
    ObjectStore::StartGet(ctx, key, options, out, std::move(done));
  }
  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override {
    ObjectStore::StartPut(ctx, key, data, options, std::move(done));
  }
  void StartDelete(const Context& ctx, std::string_view key, Done done) override {
    ObjectStore::StartDelete(ctx, key, std::move(done));
  }
  // NOLINTEND(bugprone-parent-virtual-call)
  std::chrono::steady_clock::duration RetryAfter() const override;

 private:
  struct Rule {
    Op op;
    Fault fault;
    int after = 0;
    int times = 0;
    double probability = 0;
  };

  std::optional<Fault> Next(Op op);
  // Sleeps for a slow fault; the error of one that prevents the operation.
  Result<void> Before(const Context& ctx, Op op, std::optional<Fault>* fault, std::string_view key);
  static std::unexpected<Status> Reset(std::string_view key);

  mutable Mutex mutex_;
  std::list<Rule> rules_ GUARDED_BY(mutex_);
  std::mt19937_64 random_ GUARDED_BY(mutex_);
  std::array<int, 6> calls_ GUARDED_BY(mutex_){};
  std::chrono::milliseconds retry_after_ GUARDED_BY(mutex_){0};
};

}  // namespace paddleop::volume::object::testing
