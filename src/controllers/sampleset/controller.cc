#include "controllers/sampleset/controller.h"

#include "controllers/sampleset/children.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/observe.h"
#include "controllers/sampleset/reconciler.h"

namespace paddleop::controllers::sampleset {
namespace {

kube::EventRecorderOptions EventOptions() {
  kube::EventRecorderOptions options;
  options.component = "SampleSet";
  return options;
}

}  // namespace

// In the order of construction: threads come last, so that they are gone first.
struct SetController::State {
  State(const ControllerSettings& settings, kube::ClusterClient& client, Caches& shared,
        const Logger& log, MetricsRegistry& metrics, Clock& clock, runtime::RuntimeDialer dial)
      : caches(shared),
        children(shared.ns(), client, log, metrics, clock),
        runtimes(std::move(dial)),
        pool({.name = "set-requests", .threads = settings.parallel_requests, .queue_limit = 4096}),
        events(EventOptions(), client, log, metrics, clock),
        applier(client, pool,
                [this](const api::ResourceType& type, const kube::RawObject& raw) {
                  if (type == api::Node::kType) caches.nodes().Learn(raw);
                  children.Learn(type, raw);
                }),
        observer(client, shared, children, applier, runtimes, clock),
        reconciler({.runtime_image = settings.runtime_image,
                    .mount_root = settings.mount_root,
                    .source_dirs = settings.source_dirs},
                   {.client = client,
                    .caches = shared,
                    .observer = observer,
                    .applier = applier,
                    .events = events,
                    .log = log,
                    .clock = clock}),
        controller({.name = "sampleset", .workers = settings.workers}, reconciler, log, metrics,
                   clock) {
    Connect();
  }

  void Connect() {
    const auto wake = [this](const kube::ObjectKey& key) { controller.Add(key); };
    caches.sample_sets().AddHandler(
        [wake](const kube::Change<api::SampleSet>& change) { wake(change.key); });
    children.OnChange(wake);
    caches.runtime_pods().AddHandler([wake](const kube::Change<api::Pod>& change) {
      const auto& meta = (change.after ? change.after : change.before)->metadata;
      wake({meta.ns, std::string(meta.Label(kSetLabel))});
    });
    // Only what a set waits for or follows up: a job's beginning, end and disappearance.
    caches.paddle_jobs().AddHandler([wake](const kube::Change<api::PaddleJob>& change) {
      const auto& job = change.after ? change.after : change.before;
      if (!job->spec.sample_set_ref) return;
      if (change.before && change.after &&
          change.before->status.phase == change.after->status.phase) {
        return;
      }
      wake({job->metadata.ns, job->spec.sample_set_ref->name});
    });
    caches.sample_jobs().AddHandler([wake](const kube::Change<api::SampleJob>& change) {
      const auto& job = change.after ? change.after : change.before;
      if (change.before && change.after &&
          change.before->status.phase == change.after->status.phase) {
        return;
      }
      wake({job->metadata.ns, job->spec.sample_set});
    });
    caches.nodes().AddHandler([this](const kube::Change<api::Node>& change) { OnNode(change); });
  }

  // A node that holds a partition came, went, or changed its health or its labels.
  void OnNode(const kube::Change<api::Node>& change) {
    if (change.before && change.after && change.before->ready == change.after->ready &&
        change.before->metadata.labels == change.after->metadata.labels) {
      return;
    }
    for (const auto& pod : caches.runtime_pods().List()) {
      if (pod->node_name == change.key.name)
        controller.Add({pod->metadata.ns, std::string(pod->metadata.Label(kSetLabel))});
    }
  }

  Caches& caches;
  Children children;
  RuntimePool runtimes;
  ThreadPool pool;
  kube::EventRecorder events;
  ChangeApplier applier;
  Observer observer;
  SetReconciler reconciler;
  kube::Controller controller;
};

Result<void> ControllerSettings::Validate() const {
  if (runtime_image.empty())
    return Fail(Code::kInvalid, "runtime image: RUNTIME_IMAGE must name the image of samplefs");
  if (!mount_root.starts_with('/'))
    return Fail(Code::kInvalid, "mount root \"{}\": must be an absolute path", mount_root);
  for (const auto& directory : source_dirs) {
    if (!directory.starts_with('/'))
      return Fail(Code::kInvalid, "source directory \"{}\": must be an absolute path", directory);
  }
  if (workers == 0 || parallel_requests == 0)
    return Fail(Code::kInvalid, "workers and parallel requests must be positive");
  return {};
}

Result<std::unique_ptr<SetController>> SetController::Create(const ControllerSettings& settings,
                                                             kube::ClusterClient& client,
                                                             Caches& caches, const Logger& log,
                                                             MetricsRegistry& metrics, Clock& clock,
                                                             runtime::RuntimeDialer dial) {
  RETURN_IF_ERROR(settings.Validate());
  auto state =
      std::make_unique<State>(settings, client, caches, log, metrics, clock, std::move(dial));
  return std::unique_ptr<SetController>(new SetController(std::move(state)));
}

SetController::SetController(std::unique_ptr<State> state) : state_(std::move(state)) {}
SetController::~SetController() = default;

void SetController::AddTo(kube::Manager& manager) {
  state_->children.AddTo(manager);
  manager.Add(state_->events);
  manager.Add(state_->controller);
}

}  // namespace paddleop::controllers::sampleset
