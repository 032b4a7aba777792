#include "volume/object/retry_store.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/crypto.h"
#include "base/mutex.h"
#include "volume/object/forwarding_store.h"
#include "volume/object/internal/delay_queue.h"
#include "volume/object/metrics.h"

namespace paddleop::volume::object {
namespace {

using Duration = std::chrono::steady_clock::duration;

// Counts the attempts of one operation and says how long to wait before the next.
class Attempts {
 public:
  // `timeout` of one attempt; 0: what the options say of all.
  Attempts(const RetryOptions& options, const ObjectStore& store,
           std::chrono::milliseconds timeout = {})
      : options_(options),
        store_(store),
        timeout_(timeout.count() > 0 ? timeout : options.attempt_timeout) {}

  Context AttemptContext(const Context& ctx) const { return ctx.WithTimeout(timeout_); }

  // An attempt that ran into its own time limit, not into the caller's, was let down by the store.
  // When the caller's time ends in a later attempt, the cause is what made earlier ones fail.
  Status Judge(const Context& ctx, Status error) const {
    if (error.code() != Code::kDeadline) return error;
    if (ctx.Expired()) {
      if (!last_) return error;
      Status cause = last_->Wrap("no time left for another attempt");
      return error.maybe_done() ? std::move(cause).MarkMaybeDone() : cause;
    }
    return Status(Code::kUnavailable,
                  fmt::format("no answer within {} s: {}",
                              static_cast<double>(timeout_.count()) / 1000, error.message()));
  }

  // The delay before another attempt; nullopt if `error` is final.
  std::optional<Duration> DelayAfter(const Context& ctx, const Status& error) {
    if (error.code() == Code::kCorrupt) {
      if (++corrupt_ > options_.corrupt_retries) return std::nullopt;
    } else if (error.code() != Code::kUnavailable) {
      return std::nullopt;
    }
    if (options_.backoff.max_attempts > 0 && retries_ >= options_.backoff.max_attempts) {
      return std::nullopt;
    }
    Duration delay = NextDelay();
    const Duration asked = std::min<Duration>(store_.RetryAfter(), options_.max_retry_after);
    if (asked > delay && asked < ctx.Remaining()) delay = asked;
    // Sleeping into a deadline helps nobody.
    if (ctx.Stopped() || delay >= ctx.Remaining()) return std::nullopt;
    last_ = error;
    return delay;
  }

  void Reset() { retries_ = corrupt_ = 0; }

 private:
  // Operations rarely fail, so the generator behind the jitter is made only when one does.
  Duration NextDelay() {
    BackoffOptions step = options_.backoff;
    const double grown =
        static_cast<double>(step.initial.count()) * std::pow(step.factor, std::min(retries_++, 60));
    step.initial = Duration(
        static_cast<Duration::rep>(std::min(grown, static_cast<double>(step.maximum.count()))));
    return Backoff(step).NextDelay();
  }

  const RetryOptions& options_;
  const ObjectStore& store_;
  const std::chrono::milliseconds timeout_;
  int retries_ = 0;
  int corrupt_ = 0;
  std::optional<Status> last_;  // what made the previous attempt fail
};

// The etag S3 gives to an object made of these parts, or "" if the parts' etags are of another
// kind.
std::string EtagOfParts(std::span<const UploadedPart> parts) {
  std::string digests;
  for (const UploadedPart& part : parts) {
    auto digest = HexDecode(part.etag);
    if (!digest || digest->size() != 16) return "";
    digests += *digest;
  }
  return fmt::format("{}-{}", HexEncode(Md5(digests)), parts.size());
}

class RetryStore final : public ForwardingStore {
 public:
  RetryStore(std::unique_ptr<ObjectStore> inner, RetryOptions options, Clock& clock,
             MetricsRegistry* metrics)
      : ForwardingStore(std::move(inner)),
        options_(options),
        clock_(clock),
        queue_("object-retry") {
    if (metrics != nullptr) retries_ = &metrics->AddCounter(kRetriesTotal, kRetriesTotalHelp);
  }

  // Operations that wait report first, so that none of them touches the inner store while it goes.
  ~RetryStore() override {
    {
      MutexLock lock(closing_mutex_);
      closing_ = true;
    }
    queue_.Stop();
    inner_.reset();
  }

  Result<void> Create(const Context& ctx) override {
    return Retry(ctx, [&](const Context& attempt) { return inner_->Create(attempt); });
  }
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override {
    return Retry(
        ctx, [&](const Context& attempt) { return inner_->Get(attempt, key, options, out); },
        options_.get_timeout);
  }
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override {
    return Retry(
        ctx, [&](const Context& attempt) { return inner_->Put(attempt, key, data, options); },
        options_.put_timeout);
  }
  Result<void> Delete(const Context& ctx, std::string_view key) override {
    return Retry(ctx, [&](const Context& attempt) { return inner_->Delete(attempt, key); });
  }
  Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                           std::span<const std::string> keys) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override {
    return Retry(ctx, [&](const Context& attempt) { return inner_->Head(attempt, key); });
  }
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override;
  Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to) override {
    return Retry(ctx, [&](const Context& attempt) { return inner_->Copy(attempt, from, to); });
  }
  Result<std::string> CreateUpload(const Context& ctx, std::string_view key,
                                   const PutOptions& options) override {
    return Retry(
        ctx, [&](const Context& attempt) { return inner_->CreateUpload(attempt, key, options); });
  }
  Result<UploadedPart> UploadPart(const Context& ctx, std::string_view key,
                                  const std::string& upload, int number,
                                  std::span<const std::byte> data) override {
    return Retry(
        ctx,
        [&](const Context& attempt) {
          return inner_->UploadPart(attempt, key, upload, number, data);
        },
        options_.put_timeout);
  }
  Result<void> CompleteUpload(const Context& ctx, std::string_view key, const std::string& upload,
                              std::span<const UploadedPart> parts) override;
  Result<void> AbortUpload(const Context& ctx, std::string_view key,
                           const std::string& upload) override {
    return Retry(ctx,
                 [&](const Context& attempt) { return inner_->AbortUpload(attempt, key, upload); });
  }
  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override;
  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override;
  void StartDelete(const Context& ctx, std::string_view key, Done done) override;

 private:
  template <class Operation>
  auto Retry(const Context& ctx, Operation operation, std::chrono::milliseconds timeout = {})
      -> decltype(operation(ctx)) {
    Attempts attempts(options_, *inner_, timeout);
    for (;;) {
      auto result = operation(attempts.AttemptContext(ctx));
      if (result) return result;
      result.error() = attempts.Judge(ctx, std::move(result.error()));
      const auto delay = attempts.DelayAfter(ctx, result.error());
      if (!delay || !clock_.SleepFor(ctx, *delay)) return result;
      Count();
    }
  }

  // One asynchronous operation: `start` begins an attempt and `done` gets the last result.
  template <class T>
  struct Pending : std::enable_shared_from_this<Pending<T>> {
    using Callback = std::function<void(Result<T>)>;

    Pending(RetryStore& s, Context c, std::chrono::milliseconds timeout, Callback d)
        : store(s),
          ctx(std::move(c)),
          attempts(s.options_, *s.inner_, timeout),
          done(std::move(d)) {}

    void Attempt() {
      start(attempts.AttemptContext(ctx), [self = this->shared_from_this()](Result<T> result) {
        self->Finish(std::move(result));
      });
    }
    void Finish(Result<T> result) {
      const auto delay = result ? std::nullopt : store.DelayAfter(*this, result);
      if (!delay) return done(std::move(result));
      auto last = std::make_shared<Result<T>>(std::move(result));
      store.queue_.Run(ctx, *delay, [self = this->shared_from_this(), last](bool due) {
        if (!due) return self->done(std::move(*last));
        self->store.Count();
        self->Attempt();
      });
    }

    RetryStore& store;
    const Context ctx;
    Attempts attempts;
    Callback done;
    std::function<void(const Context&, Callback)> start;
  };

  // As Attempts::DelayAfter, for a callback, which may come while the store goes.
  template <class T>
  std::optional<Duration> DelayAfter(Pending<T>& pending, Result<T>& result) {
    MutexLock lock(closing_mutex_);
    if (closing_) return std::nullopt;
    result.error() = pending.attempts.Judge(pending.ctx, std::move(result.error()));
    return pending.attempts.DelayAfter(pending.ctx, result.error());
  }

  void Count() {
    if (retries_ != nullptr) retries_->Increment();
  }

  const RetryOptions options_;
  Clock& clock_;
  MetricsRegistry::Counter* retries_ = nullptr;
  internal::DelayQueue queue_;
  Mutex closing_mutex_;  // held while a callback uses inner_, which the destructor takes away
  bool closing_ GUARDED_BY(closing_mutex_) = false;
};

Result<std::vector<KeyError>> RetryStore::DeleteMany(const Context& ctx,
                                                     std::span<const std::string> keys) {
  Attempts attempts(options_, *inner_);
  std::vector<KeyError> failed;
  std::vector<std::string> left(keys.begin(), keys.end());
  for (;;) {
    auto result = inner_->DeleteMany(attempts.AttemptContext(ctx), left);
    std::optional<Duration> delay;
    if (!result) {
      result.error() = attempts.Judge(ctx, std::move(result.error()));
      delay = attempts.DelayAfter(ctx, result.error());
      if (!delay || !clock_.SleepFor(ctx, *delay)) return result;
      Count();
      continue;
    }
    // Of the keys that are still there, those worth another try go into the next round.
    left.clear();
    std::vector<KeyError> retryable;
    for (KeyError& failure : *result) {
      const bool again = failure.error.code() == Code::kUnavailable;
      (again ? retryable : failed).push_back(std::move(failure));
    }
    if (retryable.empty()) return failed;
    delay = attempts.DelayAfter(ctx, retryable.front().error);
    if (!delay || !clock_.SleepFor(ctx, *delay)) {
      std::move(retryable.begin(), retryable.end(), std::back_inserter(failed));
      return failed;
    }
    Count();
    for (KeyError& failure : retryable) left.push_back(std::move(failure.key));
  }
}

Result<void> RetryStore::List(const Context& ctx, const ListOptions& options,
                              const ListVisitor& visit) {
  ListOptions rest = options;
  bool visitor_failed = false;
  Attempts attempts(options_, *inner_);
  for (;;) {
    bool progress = false;
    const ListOptions now = rest;
    auto result = inner_->List(ctx, now, [&](ObjectInfo& entry) -> Result<bool> {
      // Stores differ in whether a rolled-up prefix comes again after itself.
      if (!rest.start_after.empty() && entry.key <= rest.start_after) return true;
      std::string key = entry.key;
      auto more = visit(entry);
      if (!more) visitor_failed = true;
      if (!more || !*more) return more;
      progress = true;
      rest.start_after = std::move(key);
      if (rest.limit == 0) return true;  // none was asked for
      --rest.limit;
      return rest.limit > 0;
    });
    if (result || visitor_failed) return result;
    // A long listing meets many small failures; only those in a row count.
    if (progress) attempts.Reset();
    const auto delay = attempts.DelayAfter(ctx, result.error());
    if (!delay || !clock_.SleepFor(ctx, *delay)) return result;
    Count();
  }
}

Result<void> RetryStore::CompleteUpload(const Context& ctx, std::string_view key,
                                        const std::string& upload,
                                        std::span<const UploadedPart> parts) {
  bool maybe_done = false;
  return Retry(ctx, [&](const Context& attempt) -> Result<void> {
    auto completed = inner_->CompleteUpload(attempt, key, upload, parts);
    if (completed) return completed;
    if (completed.error().code() != Code::kNotFound || !maybe_done) {
      maybe_done = true;
      return completed;
    }
    // The upload is gone: either somebody aborted it, or an attempt whose reply was lost had
    // worked.
    const std::string expected = EtagOfParts(parts);
    auto info = inner_->Head(attempt, key);
    if (info && !expected.empty() && info->etag == expected) return {};
    return completed;
  });
}

void RetryStore::StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                          std::span<std::byte> out, GetDone done) {
  auto pending =
      std::make_shared<Pending<GetResult>>(*this, ctx, options_.get_timeout, std::move(done));
  pending->start = [this, key = std::string(key), options, out](const Context& attempt,
                                                                GetDone next) {
    inner_->StartGet(attempt, key, options, out, std::move(next));
  };
  pending->Attempt();
}

void RetryStore::StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                          const PutOptions& options, Done done) {
  auto pending = std::make_shared<Pending<void>>(*this, ctx, options_.put_timeout, std::move(done));
  pending->start = [this, key = std::string(key), options, data](const Context& attempt,
                                                                 Done next) {
    inner_->StartPut(attempt, key, data, options, std::move(next));
  };
  pending->Attempt();
}

void RetryStore::StartDelete(const Context& ctx, std::string_view key, Done done) {
  auto pending =
      std::make_shared<Pending<void>>(*this, ctx, options_.attempt_timeout, std::move(done));
  pending->start = [this, key = std::string(key)](const Context& attempt, Done next) {
    inner_->StartDelete(attempt, key, std::move(next));
  };
  pending->Attempt();
}

}  // namespace

std::unique_ptr<ObjectStore> WithRetry(std::unique_ptr<ObjectStore> inner, RetryOptions options,
                                       Clock& clock, MetricsRegistry* metrics) {
  return std::make_unique<RetryStore>(std::move(inner), options, clock, metrics);
}

}  // namespace paddleop::volume::object
