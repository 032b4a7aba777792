#include "controllers/samplejob/controller.h"

#include "controllers/samplejob/reconciler.h"

namespace paddleop::controllers::samplejob {
namespace {

kube::EventRecorderOptions EventOptions() {
  kube::EventRecorderOptions options;
  options.component = "SampleJob";
  return options;
}

}  // namespace

// In the order of construction: threads come last, so that they are gone first.
struct DataJobController::State {
  State(ControllerSettings settings, kube::ClusterClient& client, Caches& shared, const Logger& log,
        MetricsRegistry& metrics, Clock& clock, runtime::RuntimeDialer dial)
      : caches(shared),
        runtimes(std::move(dial)),
        pool({.name = "data-job-writes",
              .threads = settings.parallel_requests,
              .queue_limit = 4096}),
        events(EventOptions(), client, log, metrics, clock),
        applier(client, pool,
                [this](const api::ResourceType& type, const kube::RawObject& raw) {
                  if (type == api::SampleJob::kType) caches.sample_jobs().Learn(raw);
                }),
        reconciler({.client = client,
                    .caches = shared,
                    .applier = applier,
                    .runtimes = runtimes,
                    .events = events,
                    .log = log,
                    .clock = clock}),
        controller({.name = "samplejob", .workers = settings.workers}, reconciler, log, metrics,
                   clock) {
    Connect();
  }

  void Connect() {
    caches.sample_jobs().AddHandler([this](const kube::Change<api::SampleJob>& change) {
      controller.Add(change.key);
      const auto& meta = (change.after ? change.after : change.before)->metadata;
      const api::OwnerReference* owner = meta.Controller();
      if (owner != nullptr && owner->kind == api::SampleJob::kType.kind)
        controller.Add({meta.ns, owner->name});
    });
    // Jobs wait for the phase of their set, and for its runtime 0.
    caches.sample_sets().AddHandler([this](const kube::Change<api::SampleSet>& change) {
      const bool same =
          change.before && change.after &&
          change.before->status.phase == change.after->status.phase &&
          change.before->status.runtime_status == change.after->status.runtime_status &&
          change.before->metadata.Deleting() == change.after->metadata.Deleting();
      if (!same) Wake(change.key.ToString());
    });
    caches.runtime_pods().AddHandler([this](const kube::Change<api::Pod>& change) {
      const auto& pod = change.after ? change.after : change.before;
      Wake(pod->metadata.ns + "/" + std::string(pod->metadata.Label(kSetLabel)));
    });
  }

  void Wake(const std::string& set) {
    for (const auto& job : caches.sample_jobs().ByIndex(Caches::kBySampleSet, set)) {
      if (!job->status.Finished() && job->spec.schedule.empty())
        controller.Add(job->metadata.Key());
    }
  }

  Caches& caches;
  RuntimePool runtimes;
  ThreadPool pool;
  kube::EventRecorder events;
  ChangeApplier applier;
  DataJobReconciler reconciler;
  kube::Controller controller;
};

Result<void> ControllerSettings::Validate() const {
  if (workers == 0 || parallel_requests == 0)
    return Fail(Code::kInvalid, "workers and parallel requests must be positive");
  return {};
}

Result<std::unique_ptr<DataJobController>> DataJobController::Create(
    ControllerSettings settings, kube::ClusterClient& client, Caches& caches, const Logger& log,
    MetricsRegistry& metrics, Clock& clock, runtime::RuntimeDialer dial) {
  RETURN_IF_ERROR(settings.Validate());
  auto state =
      std::make_unique<State>(settings, client, caches, log, metrics, clock, std::move(dial));
  return std::unique_ptr<DataJobController>(new DataJobController(std::move(state)));
}

DataJobController::DataJobController(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataJobController::~DataJobController() = default;

void DataJobController::AddTo(kube::Manager& manager) {
  manager.Add(state_->events);
  manager.Add(state_->controller);
}

}  // namespace paddleop::controllers::samplejob
