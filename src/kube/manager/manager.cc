#include "kube/manager/manager.h"

#include "base/thread_pool.h"
#include "kube/metrics.h"

namespace paddleop::kube {
namespace {

void WaitForStop(const Context& ctx) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(mutex);
  if (ctx.has_deadline()) {
    never.wait_until(lock, ctx.stop(), ctx.deadline(), [] { return false; });
  } else {
    never.wait(lock, ctx.stop(), [] { return false; });
  }
}

}  // namespace

Manager::Manager(ManagerOptions options, ClusterClient& client, const Logger& log,
                 MetricsRegistry& metrics, Clock& clock)
    : options_(std::move(options)),
      log_(log),
      metrics_(metrics),
      leading_(metrics.AddGauge(metric::kLeading, metric::kLeadingHelp)),
      health_(std::make_unique<HealthChecks>()) {
  if (options_.leader_election)
    elector_ = std::make_unique<LeaderElector>(*options_.leader_election, client, log, clock);
}

Manager::~Manager() = default;

void Manager::AddService(std::string name, std::function<void(const Context&)> run) {
  services_.push_back({std::move(name), std::move(run)});
}

void Manager::AddReadyCheck(std::string name, std::function<Result<void>()> check) {
  health_->AddReadyCheck(std::move(name), std::move(check));
}

Result<void> Manager::Run(const Context& ctx) {
  if (options_.leader_election) RETURN_IF_ERROR(options_.leader_election->Validate());
  auto result = StartServers();
  if (result) result = StartInformers(ctx);
  if (result) result = RunAsLeader(ctx);
  const bool stopped = ctx.Stopped();
  StopAll();
  // A caller who asked us to stop on the way up got what was asked for.
  if (!result && stopped && result.error().code() == Code::kCancelled) return {};
  return result;
}

Result<void> Manager::StartServers() {
  health_->AddReadyCheck("informers", [this]() -> Result<void> {
    for (const auto& informer : informers_) {
      if (!informer->HasSynced())
        return Fail(Code::kUnavailable, "{} not listed yet",
                    ResourceName(informer->options().resource));
    }
    return {};
  });
  ASSIGN_OR_RETURN(metrics_server_, ServeOn(options_.metrics_address, MetricsHandler(metrics_)));
  if (metrics_server_) metrics_port_ = metrics_server_->port();
  ASSIGN_OR_RETURN(
      health_server_,
      ServeOn(options_.health_address, [this](const Context&, const net::ServerRequest& request) {
        return health_->Answer(request);
      }));
  if (health_server_) health_port_ = health_server_->port();
  return {};
}

Result<void> Manager::StartInformers(const Context& ctx) {
  for (const auto& informer : informers_) informer->Start();
  const Context limited = ctx.WithTimeout(options_.sync_timeout);
  for (const auto& informer : informers_) RETURN_IF_ERROR(informer->WaitForSync(limited));
  log_.Info(ctx, "caches complete", {{"informers", informers_.size()}});
  return {};
}

Result<void> Manager::RunAsLeader(const Context& ctx) {
  if (elector_) RETURN_IF_ERROR(elector_->Acquire(ctx));
  working_ = true;
  leading_.Set(1);
  for (const Service& service : services_) {
    service_threads_.emplace_back([&service](std::stop_token stop) {
      SetThreadName(service.name);
      service.run(
          Context::Background().WithStop(std::move(stop)).WithField("service", service.name));
    });
  }
  for (Controller* controller : controllers_) controller->Start();
  log_.Info(ctx, "controllers started", {{"controllers", controllers_.size()}});
  if (elector_) return elector_->Hold(ctx);
  WaitForStop(ctx);
  return {};
}

void Manager::StopAll() {
  const Context ctx = Context::Background();
  // Work first. Where leadership was lost this must be over before the lease runs out: the contexts
  // of running reconciles stop, and with them their requests.
  for (Controller* controller : controllers_) controller->Stop();
  for (std::jthread& thread : service_threads_) thread.request_stop();
  service_threads_.clear();
  leading_.Set(0);
  working_ = false;
  for (EventRecorder* recorder : recorders_) recorder->Stop();
  for (const auto& informer : informers_) informer->Stop();
  for (net::HttpServer* server : {health_server_.get(), metrics_server_.get()}) {
    if (server != nullptr) server->Stop(std::chrono::seconds(1));
  }
  // Last, when nothing of ours writes any more: the next leader starts at once.
  if (!elector_) return;
  const auto released = elector_->Release(ctx.WithTimeout(options_.release_timeout));
  if (!released) log_.Warn(ctx, "lease not released", {{"error", released.error().message()}});
}

bool Manager::is_leader() const { return working_; }
std::uint16_t Manager::metrics_port() const { return metrics_port_; }
std::uint16_t Manager::health_port() const { return health_port_; }

}  // namespace paddleop::kube
