#include "volume/object/limit_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "volume/object/forwarding_store.h"
#include "volume/object/internal/delay_queue.h"
#include "volume/object/internal/token_bucket.h"

namespace paddleop::volume::object {
namespace {

using internal::TokenBucket;

class LimitStore final : public ForwardingStore {
 public:
  LimitStore(std::unique_ptr<ObjectStore> inner, const BandwidthLimit& limit, Clock& clock)
      : ForwardingStore(std::move(inner)), limit_(limit), clock_(clock), queue_("object-limit") {
    if (limit.upload_mbps > 0) upload_.emplace(BytesPerSecond(limit.upload_mbps), clock);
    if (limit.download_mbps > 0) download_.emplace(BytesPerSecond(limit.download_mbps), clock);
  }

  ~LimitStore() override {
    queue_.Stop();
    inner_.reset();
  }

  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override {
    const std::uint64_t expected = Expected(options, out);
    RETURN_IF_ERROR(Wait(ctx, download_, expected));
    auto got = inner_->Get(ctx, key, options, out);
    Settle(expected, got);
    return got;
  }

  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override {
    RETURN_IF_ERROR(Wait(ctx, upload_, data.size()));
    return inner_->Put(ctx, key, data, options);
  }

  Result<UploadedPart> UploadPart(const Context& ctx, std::string_view key,
                                  const std::string& upload, int number,
                                  std::span<const std::byte> data) override {
    RETURN_IF_ERROR(Wait(ctx, upload_, data.size()));
    return inner_->UploadPart(ctx, key, upload, number, data);
  }

  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override {
    if (!download_) return inner_->StartGet(ctx, key, options, out, std::move(done));
    const std::uint64_t expected = Expected(options, out);
    GetDone settle = [this, expected, done](Result<GetResult> got) {
      Settle(expected, got);
      done(std::move(got));
    };
    StartLater(ctx, *download_, expected, done,
               [this, ctx, key = std::string(key), options, out, settle] {
                 inner_->StartGet(ctx, key, options, out, settle);
               });
  }

  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override {
    if (!upload_) return inner_->StartPut(ctx, key, data, options, std::move(done));
    StartLater(ctx, *upload_, data.size(), done,
               [this, ctx, key = std::string(key), data, options, done] {
                 inner_->StartPut(ctx, key, data, options, done);
               });
  }

 private:
  static double BytesPerSecond(std::int64_t mbps) { return static_cast<double>(mbps) * 1e6 / 8; }

  static std::uint64_t Expected(const GetOptions& options, std::span<std::byte> out) {
    return std::min<std::uint64_t>(options.range.length, out.size());
  }

  std::unexpected<Status> TooSlow(const Context& ctx) const {
    if (ctx.Stopped()) return Fail(Code::kCancelled, "stopped while waiting for bandwidth");
    return Fail(Code::kDeadline,
                "the bandwidth limit ({} Mbps up, {} Mbps down; 0 is none) leaves no room for this "
                "transfer before its deadline",
                limit_.upload_mbps, limit_.download_mbps);
  }

  Result<void> Wait(const Context& ctx, std::optional<TokenBucket>& bucket, std::uint64_t bytes) {
    if (!bucket) return {};
    const auto delay = bucket->Reserve(bytes);
    if (delay == delay.zero() || clock_.SleepFor(ctx, delay)) return {};
    bucket->Return(bytes);
    return TooSlow(ctx);
  }

  template <class DoneCallback, class Start>
  void StartLater(const Context& ctx, TokenBucket& bucket, std::uint64_t bytes, DoneCallback done,
                  Start start) {
    const auto delay = bucket.Reserve(bytes);
    if (delay == delay.zero()) return start();
    if (delay >= ctx.Remaining()) {
      bucket.Return(bytes);
      return done(TooSlow(ctx));
    }
    queue_.Run(ctx, delay,
               [&bucket, bytes, done = std::move(done), start = std::move(start)](bool due) {
                 if (due) return start();
                 bucket.Return(bytes);
                 done(Fail(Code::kCancelled, "stopped while waiting for bandwidth"));
               });
  }

  // Smaller objects than the buffer used less than was reserved for them.
  void Settle(std::uint64_t expected, const Result<GetResult>& got) {
    if (!download_) return;
    const std::uint64_t used = got ? got->size : 0;
    if (used < expected) download_->Return(expected - used);
  }

  const BandwidthLimit limit_;
  Clock& clock_;
  std::optional<TokenBucket> upload_;
  std::optional<TokenBucket> download_;
  internal::DelayQueue queue_;
};

}  // namespace

std::unique_ptr<ObjectStore> WithBandwidthLimit(std::unique_ptr<ObjectStore> inner,
                                                const BandwidthLimit& limit, Clock& clock) {
  if (limit.upload_mbps <= 0 && limit.download_mbps <= 0) return inner;
  return std::make_unique<LimitStore>(std::move(inner), limit, clock);
}

}  // namespace paddleop::volume::object
