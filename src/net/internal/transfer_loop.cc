#include "net/internal/transfer_loop.h"

#include <algorithm>
#include <functional>
#include <stop_token>
#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "net/internal/curl_error.h"

namespace paddleop::net::internal {
namespace {

constexpr std::size_t kMaxJobs = 16'384;  // more at a time are refused with kUnavailable
constexpr std::size_t kMaxSpareHandles = 64;
constexpr std::chrono::seconds kIdleWait(60);

}  // namespace

struct TransferLoop::Job {
  std::uint64_t id = 0;
  Context ctx;
  HttpRequest request;
  Delivery delivery;
  HttpClient::Done done;
  TimePoint deadline;
  std::unique_ptr<Transfer> transfer;
  std::multimap<TimePoint, std::uint64_t>::iterator timer;
  std::uint64_t progress = 0;
  TimePoint last_progress;
  // Declared last: its destructor waits for a callback that is under way.
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
};

Result<std::unique_ptr<TransferLoop>> TransferLoop::Create(const ClientConfig& config) {
  CURLM* const multi = curl_multi_init();
  if (multi == nullptr) return Fail(Code::kInternal, "libcurl gave no handle: out of memory");
  auto events = MultiEvents::Attach(multi);
  if (!events) {
    curl_multi_cleanup(multi);
    return std::unexpected(std::move(events).error());
  }
  return std::unique_ptr<TransferLoop>(new TransferLoop(config, multi, *std::move(events)));
}

TransferLoop::TransferLoop(const ClientConfig& config, CURLM* multi,
                           std::unique_ptr<MultiEvents> events)
    : config_(config), events_(std::move(events)), multi_(multi) {
  const auto per_host = static_cast<long>(config.options.max_connections_per_host);
  curl_multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, per_host);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, per_host);
  thread_ = std::jthread([this] {
    SetThreadName("http-client");
    Run();
  });
}

TransferLoop::~TransferLoop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  events_->Wake();
  thread_.join();
  spare_.clear();
  curl_multi_cleanup(multi_);
}

void TransferLoop::Start(const Context& ctx, HttpRequest request, const Delivery& delivery,
                         HttpClient::Done done) {
  auto job = std::make_unique<Job>();
  job->ctx = ctx;
  job->request = std::move(request);
  job->delivery = delivery;
  job->done = std::move(done);
  job->last_progress = std::chrono::steady_clock::now();
  job->deadline =
      ctx.has_deadline() ? ctx.deadline() : job->last_progress + config_.options.default_timeout;
  bool awake = false;
  {
    MutexLock lock(mutex_);
    job->id = next_id_++;
    incoming_.push_back(std::move(job));
    awake = std::exchange(awake_, true);
  }
  if (!awake) events_->Wake();
}

void TransferLoop::Cancel(std::uint64_t id) {
  bool awake = false;
  {
    MutexLock lock(mutex_);
    cancelled_.push_back(id);
    awake = std::exchange(awake_, true);
  }
  if (!awake) events_->Wake();
}

void TransferLoop::StayAwake() {
  MutexLock lock(mutex_);
  awake_ = true;
}

bool TransferLoop::MayWait() {
  MutexLock lock(mutex_);
  awake_ = !incoming_.empty() || !cancelled_.empty();
  return !awake_;
}

bool TransferLoop::TakeNews(std::vector<std::unique_ptr<Job>>& incoming,
                            std::vector<std::uint64_t>& cancelled) {
  MutexLock lock(mutex_);
  incoming.swap(incoming_);
  cancelled.swap(cancelled_);
  return stopping_;
}

void TransferLoop::Run() {
  for (;;) {
    std::vector<std::unique_ptr<Job>> incoming;
    std::vector<std::uint64_t> cancelled;
    const bool stopping = TakeNews(incoming, cancelled);
    for (auto& job : incoming) Launch(std::move(job));
    for (const auto id : cancelled) {
      BreakOff(id, Status(Code::kCancelled, "stopped"));
    }
    if (stopping) break;
    const auto now = std::chrono::steady_clock::now();
    const auto until = CheckTimes(now);
    events_->Turn(MayWait() ? until : now);
    StayAwake();
    CompleteFinished();
  }
  while (!jobs_.empty()) {
    BreakOff(jobs_.begin()->first, Status(Code::kCancelled, "the client is closing"));
  }
}

void TransferLoop::Launch(std::unique_ptr<Job> owned) {
  Job& job = *owned;
  const bool full = jobs_.size() >= kMaxJobs;
  job.timer = timers_.emplace(job.last_progress, job.id);
  if (spare_.empty()) spare_.push_back(std::make_unique<Transfer>(config_));
  job.transfer = std::move(spare_.back());
  job.transfer->id = job.id;
  spare_.pop_back();
  const auto it = jobs_.emplace(job.id, std::move(owned)).first;
  if (auto begun = job.transfer->Begin(job.request, job.delivery); !begun) {
    return Finish(it, CURLE_OK, std::move(begun).error());
  }
  if (full) {
    return Finish(it, CURLE_OK,
                  Status(Code::kUnavailable,
                         fmt::format("{} requests are already started, sent: no", kMaxJobs)));
  }
  // Or an answer that is quick enough would come although nobody waits for it.
  if (auto alive = job.ctx.Check(); !alive) {
    return Finish(it, CURLE_OK, std::move(alive).error().Wrap("sent: no"));
  }
  const auto added = curl_multi_add_handle(multi_, job.transfer->easy());
  CHECK(added == CURLM_OK, "libcurl: {}", curl_multi_strerror(added));
  if (job.ctx.stop().stop_possible()) {
    job.on_stop.emplace(job.ctx.stop(), [this, id = job.id] { Cancel(id); });
  }
}

void TransferLoop::CompleteFinished() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const auto code = message->data.result;
    const auto it = jobs_.find(Transfer::Of(message->easy_handle).id);
    if (it != jobs_.end()) Finish(it, code, std::nullopt);
  }
}

std::optional<Status> TransferLoop::WhyOver(Job& job, TimePoint now) {
  const auto note = SentNote(job.transfer->sent());
  if (now >= job.deadline) {
    return Status(Code::kDeadline, fmt::format("no whole response before the deadline{}", note));
  }
  const auto progress = job.transfer->Progress();
  // Connecting, and waiting for a connection, have their own limits.
  if (progress != job.progress || !job.transfer->sent()) {
    job.progress = progress;
    job.last_progress = now;
  }
  const auto stall = config_.options.stall_timeout;
  if (stall > stall.zero() && now - job.last_progress >= stall) {
    return Status(Code::kUnavailable,
                  fmt::format("stalled: no byte moved for {} ms{}", stall.count(), note));
  }
  return std::nullopt;
}

TransferLoop::TimePoint TransferLoop::CheckTimes(TimePoint now) {
  const auto stall = config_.options.stall_timeout;
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const auto id = timers_.begin()->second;
    Job& job = *jobs_.at(id);
    if (auto over = WhyOver(job, now)) {
      BreakOff(id, *std::move(over));
      continue;
    }
    auto next = job.deadline;
    // Half the limit: progress is only looked at here, so a stall is seen at most half a limit
    // late.
    if (stall > stall.zero()) next = std::min(next, now + stall / 2 + std::chrono::milliseconds(1));
    timers_.erase(job.timer);
    job.timer = timers_.emplace(next, id);
  }
  return timers_.empty() ? now + kIdleWait : std::min(timers_.begin()->first, now + kIdleWait);
}

void TransferLoop::BreakOff(std::uint64_t id, Status status) {
  if (const auto it = jobs_.find(id); it != jobs_.end()) Finish(it, CURLE_OK, std::move(status));
}

void TransferLoop::Finish(Jobs::iterator it, CURLcode code, std::optional<Status> broken_off) {
  auto job = std::move(it->second);
  jobs_.erase(it);
  timers_.erase(job->timer);
  curl_multi_remove_handle(multi_, job->transfer->easy());
  auto result = job->transfer->End(code, std::move(broken_off));
  if (spare_.size() < kMaxSpareHandles) spare_.push_back(std::move(job->transfer));
  job->on_stop.reset();
  job->done(std::move(result));
}

}  // namespace paddleop::net::internal
