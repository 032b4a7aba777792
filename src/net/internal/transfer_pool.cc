#include "net/internal/transfer_pool.h"

#include <algorithm>
#include <atomic>
#include <stop_token>

#include "base/check.h"
#include "net/internal/curl_error.h"

namespace paddleop::net::internal {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// Longer than servers keep idle connections is of no use; see also CURLOPT_MAXAGE_CONN.
constexpr std::chrono::seconds kMaxIdle(90);
constexpr std::chrono::seconds kPruneInterval(10);

// "http://host:port", which is what connections are shared by.
std::string OriginOf(std::string_view url) {
  const auto scheme = url.find("://");
  const auto start = scheme == std::string_view::npos ? 0 : scheme + 3;
  return std::string(url.substr(0, url.find_first_of("/?#", start)));
}

int PollMilliseconds(TimePoint now, TimePoint end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

}  // namespace

// One transfer and the multi handle that owns its connection.
class TransferPool::Slot {
 public:
  explicit Slot(const ClientConfig& config)
      : config_(config), multi_(curl_multi_init()), transfer_(config) {
    CHECK(multi_ != nullptr, "libcurl gave no handle: out of memory");
  }
  ~Slot() { curl_multi_cleanup(multi_); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  Result<HttpResponse> Run(const Context& ctx, const HttpRequest& request,
                           const Delivery& delivery) {
    if (auto begun = transfer_.Begin(request, delivery); !begun) {
      return transfer_.End(CURLE_OK, std::move(begun).error());
    }
    const auto added = curl_multi_add_handle(multi_, transfer_.easy());
    CHECK(added == CURLM_OK, "libcurl: {}", curl_multi_strerror(added));
    CURLcode code = CURLE_OK;
    auto broken_off = Drive(ctx, code);
    // Closes the connection if the response is not complete, else keeps it.
    curl_multi_remove_handle(multi_, transfer_.easy());
    auto result = transfer_.End(code, std::move(broken_off));
    last_used_ = std::chrono::steady_clock::now();
    return result;
  }

  // From any thread: the call in flight returns kCancelled.
  void Close() {
    closing_ = true;
    curl_multi_wakeup(multi_);
  }

  TimePoint last_used() const { return last_used_; }

 private:
  // Lets libcurl work until the transfer is done, or says why it must not go on.
  std::optional<Status> Drive(const Context& ctx, CURLcode& code) {
    const auto start = std::chrono::steady_clock::now();
    const auto deadline =
        ctx.has_deadline() ? ctx.deadline() : start + config_.options.default_timeout;
    const auto wake = [this] { curl_multi_wakeup(multi_); };
    std::optional<std::stop_callback<decltype(wake)>> on_stop;
    if (ctx.stop().stop_possible()) on_stop.emplace(ctx.stop(), wake);

    auto last_progress = start;
    int active = 0;  // sockets that were ready after the last wait
    for (;;) {
      int running = 0;
      if (const auto rc = curl_multi_perform(multi_, &running); rc != CURLM_OK) {
        return Status(Code::kInternal, fmt::format("libcurl: {}", curl_multi_strerror(rc)));
      }
      if (running == 0) break;
      const auto now = std::chrono::steady_clock::now();
      // Taken after the work: a sink that takes its time is no stall. Connecting has its own limit.
      if (active > 0 || !transfer_.sent()) last_progress = now;
      if (auto over = WhyOver(ctx, now, deadline, last_progress)) return over;
      auto wait_until = deadline;
      if (StallTimeout() > StallTimeout().zero()) {
        wait_until = std::min(wait_until, last_progress + StallTimeout());
      }
      active = 0;
      curl_multi_poll(multi_, nullptr, 0, PollMilliseconds(now, wait_until), &active);
    }
    int left = 0;
    const CURLMsg* message = curl_multi_info_read(multi_, &left);
    code = message != nullptr ? message->data.result : CURLE_RECV_ERROR;
    return std::nullopt;
  }

  std::optional<Status> WhyOver(const Context& ctx, TimePoint now, TimePoint deadline,
                                TimePoint last_progress) const {
    const auto note = SentNote(transfer_.sent());
    if (ctx.Stopped() || closing_) {
      return Status(Code::kCancelled,
                    fmt::format("{}{}", closing_ ? "the client is closing" : "stopped", note));
    }
    if (now >= deadline) {
      return Status(Code::kDeadline, fmt::format("no whole response before the deadline{}", note));
    }
    if (StallTimeout() > StallTimeout().zero() && now - last_progress >= StallTimeout()) {
      return Status(Code::kUnavailable, fmt::format("stalled: no byte moved for {} ms{}",
                                                    StallTimeout().count(), note));
    }
    return std::nullopt;
  }

  std::chrono::milliseconds StallTimeout() const { return config_.options.stall_timeout; }

  const ClientConfig& config_;
  CURLM* multi_;
  Transfer transfer_;
  TimePoint last_used_;
  std::atomic<bool> closing_ = false;
};

TransferPool::TransferPool(const ClientConfig& config) : config_(config) {}

TransferPool::~TransferPool() {
  MutexLock lock(mutex_);
  closing_ = true;
  for (Slot* slot : busy_) slot->Close();
  for (auto& [origin, host] : hosts_) host.freed.notify_all();
  drained_.wait(lock, [&]() REQUIRES(mutex_) { return callers_ == 0; });
}

Result<HttpResponse> TransferPool::Run(const Context& ctx, const HttpRequest& request,
                                       const Delivery& delivery) {
  if (auto alive = ctx.Check(); !alive) {
    return std::unexpected(std::move(alive).error().Wrap(
        fmt::format("{} {}, sent: no", request.method, RedactUrl(request.url))));
  }
  const std::string origin = OriginOf(request.url);
  auto slot = Acquire(ctx, origin);
  if (!slot) {
    return std::unexpected(std::move(slot).error().Wrap(
        fmt::format("{} {}, sent: no", request.method, RedactUrl(request.url))));
  }
  auto result = (*slot)->Run(ctx, request, delivery);
  Release(origin, *std::move(slot));
  return result;
}

Result<std::unique_ptr<TransferPool::Slot>> TransferPool::Acquire(const Context& ctx,
                                                                  const std::string& origin) {
  MutexLock lock(mutex_);
  Host& host = hosts_[origin];
  const auto limit = config_.options.max_connections_per_host;
  ++callers_;
  if (host.busy >= limit && !closing_) {
    const auto deadline = ctx.has_deadline()
                              ? ctx.deadline()
                              : std::chrono::steady_clock::now() + config_.options.default_timeout;
    ++host.waiting;
    host.freed.wait_until(lock, ctx.stop(), deadline,
                          [&]() REQUIRES(mutex_) { return closing_ || host.busy < limit; });
    --host.waiting;
  }
  std::optional<Status> failure;
  if (closing_) {
    failure = Status(Code::kCancelled, "the client is closing");
  } else if (host.busy >= limit) {
    failure = ctx.Stopped()
                  ? Status(Code::kCancelled, "stopped while waiting for a connection")
                  : Status(Code::kDeadline,
                           fmt::format("all {} connections to the host stayed busy", limit));
  }
  if (failure) {
    if (--callers_ == 0) drained_.notify_all();
    return std::unexpected(*std::move(failure));
  }
  ++host.busy;
  std::unique_ptr<Slot> slot;
  if (!host.idle.empty()) {
    slot = std::move(host.idle.back());
    host.idle.pop_back();
  } else {
    slot = std::make_unique<Slot>(config_);
  }
  busy_.insert(slot.get());
  return slot;
}

void TransferPool::Release(const std::string& origin, std::unique_ptr<Slot> slot) {
  std::vector<std::unique_ptr<Slot>> old;
  MutexLock lock(mutex_);
  busy_.erase(slot.get());
  Host& host = hosts_.find(origin)->second;
  --host.busy;
  host.idle.push_back(std::move(slot));
  if (host.waiting > 0) host.freed.notify_one();
  Prune(old);
  if (--callers_ == 0 && closing_) drained_.notify_all();
  lock.unlock();
}

void TransferPool::Prune(std::vector<std::unique_ptr<Slot>>& old) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_prune_) return;
  next_prune_ = now + kPruneInterval;
  for (auto it = hosts_.begin(); it != hosts_.end();) {
    auto& idle = it->second.idle;
    const auto fresh = std::ranges::find_if(
        idle, [&](const auto& slot) { return now - slot->last_used() < kMaxIdle; });
    std::move(idle.begin(), fresh, std::back_inserter(old));
    idle.erase(idle.begin(), fresh);
    const bool unused = idle.empty() && it->second.busy == 0 && it->second.waiting == 0;
    it = unused ? hosts_.erase(it) : std::next(it);
  }
}

}  // namespace paddleop::net::internal
