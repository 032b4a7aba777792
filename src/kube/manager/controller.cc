#include "kube/manager/controller.h"

#include <malloc.h>

#include "base/check.h"
#include "base/thread_pool.h"
#include "kube/metrics.h"

namespace paddleop::kube {
namespace {

constexpr int kBurst = 32;  // reconciles

MetricsRegistry::Labels ResultLabels(const std::string& controller, std::string result) {
  return {{"controller", controller}, {"result", std::move(result)}};
}

}  // namespace

Controller::Controller(ControllerOptions options, Reconciler& reconciler, const Logger& log,
                       MetricsRegistry& metrics, Clock& clock)
    : options_(std::move(options)),
      reconciler_(reconciler),
      log_(log),
      succeeded_(metrics.AddCounter(metric::kReconciles, metric::kReconcilesHelp,
                                    ResultLabels(options_.name, "success"))),
      requeued_(metrics.AddCounter(metric::kReconciles, metric::kReconcilesHelp,
                                   ResultLabels(options_.name, "requeue"))),
      failed_(metrics.AddCounter(metric::kReconciles, metric::kReconcilesHelp,
                                 ResultLabels(options_.name, "error"))),
      active_(metrics.AddGauge(metric::kActiveWorkers, metric::kActiveWorkersHelp,
                               {{"controller", options_.name}})),
      seconds_(metrics.AddHistogram(metric::kReconcileSeconds, metric::kReconcileSecondsHelp,
                                    {{"controller", options_.name}})),
      clock_(clock),
      queue_({.name = options_.name, .backoff = options_.backoff}, metrics, clock) {}

Controller::~Controller() { Stop(); }

void Controller::Start() {
  CHECK(workers_.empty(), "controller {} started twice", options_.name);
  const Context ctx =
      Context::Background().WithStop(stop_.get_token()).WithField("controller", options_.name);
  for (std::size_t i = 0; i < options_.workers; ++i) {
    workers_.emplace_back([this, ctx] {
      SetThreadName("rec-" + options_.name);
      Work(ctx);
    });
  }
}

void Controller::Stop() {
  stop_.request_stop();
  queue_.Shutdown();
  for (std::jthread& worker : workers_) {
    if (worker.joinable()) worker.join();
  }
}

void Controller::Work(const Context& ctx) {
  while (const auto key = queue_.Take(ctx)) {
    active_.Add(1);
    ReconcileOne(ctx.WithField("key", key->ToString()), *key);
    active_.Add(-1);
    queue_.Done(*key);
    TidyUp();
  }
}

void Controller::TidyUp() {
  if (since_tidy_.fetch_add(1) + 1 < kBurst || queue_.ready() > 0) return;
  since_tidy_ = 0;
  malloc_trim(0);
}

void Controller::ReconcileOne(const Context& ctx, const ObjectKey& key) {
  const auto started = clock_.Now();
  const auto result = reconciler_.Reconcile(ctx.WithTimeout(options_.reconcile_timeout), key);
  seconds_.Observe(std::chrono::duration<double>(clock_.Now() - started).count());
  if (result) {
    queue_.Forget(key);
    if (!result->after) return succeeded_.Increment();
    requeued_.Increment();
    return queue_.AddAfter(key, *result->after);
  }
  // Being asked to stop is no failure; whoever leads next does the rest.
  if (ctx.Stopped()) return;
  failed_.Increment();
  const auto delay = queue_.AddFailed(key);
  log_.Warn(ctx, "reconcile failed",
            {{"error", result.error().message()},
             {"retry_ms", std::chrono::duration_cast<std::chrono::milliseconds>(delay).count()}});
}

}  // namespace paddleop::kube
