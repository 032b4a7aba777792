#include "controllers/paddlejob/controller.h"

#include <set>

#include <fmt/format.h>

#include "controllers/common/changes.h"
#include "controllers/paddlejob/children.h"
#include "controllers/paddlejob/etcd.h"
#include "controllers/paddlejob/names.h"
#include "controllers/paddlejob/ports.h"
#include "controllers/paddlejob/reconciler.h"

namespace paddleop::controllers::paddlejob {
namespace {

kube::EventRecorderOptions EventOptions() {
  kube::EventRecorderOptions options;
  options.component = "paddlejob-controller";
  return options;
}

}  // namespace

// In the order of construction: threads come last, so that they are gone first.
struct JobController::State {
  State(const ControllerSettings& settings, std::unique_ptr<Etcd> store,
        kube::ClusterClient& client, Caches& shared, const Logger& log, MetricsRegistry& metrics,
        Clock& clock)
      : caches(shared),
        children(shared.ns(), settings.volcano, client, log, metrics, clock),
        ports(settings.first_port, settings.last_port),
        etcd(std::move(store)),
        pool({.name = "job-writes", .threads = settings.parallel_writes, .queue_limit = 4096}),
        events(EventOptions(), client, log, metrics, clock),
        applier(client, pool,
                [this](const api::ResourceType& type, const kube::RawObject& raw) {
                  children.Learn(type, raw);
                }),
        reconciler({.volcano = settings.volcano, .etcd_servers = settings.etcd_servers},
                   {.client = client,
                    .caches = shared,
                    .children = children,
                    .applier = applier,
                    .ports = ports,
                    .etcd = etcd.get(),
                    .events = events,
                    .log = log,
                    .clock = clock}),
        controller({.name = "paddlejob", .workers = settings.workers}, reconciler, log, metrics,
                   clock) {
    Connect();
  }

  void Connect() {
    caches.paddle_jobs().AddHandler(
        [this](const kube::Change<api::PaddleJob>& change) { controller.Add(change.key); });
    children.OnChange([this](const kube::ObjectKey& job) { controller.Add(job); });
    caches.sample_sets().AddHandler([this](const kube::Change<api::SampleSet>& change) {
      for (const auto& job :
           caches.paddle_jobs().KeysByIndex(Caches::kBySampleSet, change.key.ToString())) {
        controller.Add(job);
      }
    });
    caches.nodes().AddHandler([this](const kube::Change<api::Node>& change) { OnNode(change); });
  }

  // A node that holds a partition came, went, or changed its health: jobs of that set may move.
  void OnNode(const kube::Change<api::Node>& change) {
    if (change.before && change.after && change.before->ready == change.after->ready &&
        change.before->unschedulable == change.after->unschedulable &&
        change.before->metadata.labels == change.after->metadata.labels) {
      return;
    }
    StringSet values;
    for (const auto& node : {change.before, change.after}) {
      if (!node) continue;
      for (const auto& [key, value] : node->metadata.labels)
        values.insert(value.substr(0, value.rfind("-runtime-")));
    }
    if (values.empty()) return;
    for (const auto& job : caches.paddle_jobs().List()) {
      const auto& ref = job->spec.sample_set_ref;
      if (ref && values.contains(ref->name)) controller.Add(job->metadata.Key());
    }
  }

  using StringSet = std::set<std::string>;

  Caches& caches;
  Children children;
  PortAllocator ports;
  std::unique_ptr<Etcd> etcd;
  ThreadPool pool;
  kube::EventRecorder events;
  ChangeApplier applier;
  JobReconciler reconciler;
  kube::Controller controller;
};

Result<void> ControllerSettings::Validate() const {
  if (first_port < 1024 || last_port > 65535 || last_port - first_port < kPortsPerPod) {
    return Fail(Code::kInvalid,
                "port range {},{}: must lie between 1024 and 65535 and hold at least {} ports",
                first_port, last_port, kPortsPerPod);
  }
  if (workers == 0 || parallel_writes == 0)
    return Fail(Code::kInvalid, "workers and parallel writes must be positive");
  return {};
}

Result<std::unique_ptr<JobController>> JobController::Create(const ControllerSettings& settings,
                                                             kube::ClusterClient& client,
                                                             Caches& caches, const Logger& log,
                                                             MetricsRegistry& metrics,
                                                             Clock& clock) {
  RETURN_IF_ERROR(settings.Validate());
  std::unique_ptr<Etcd> etcd;
  if (!settings.etcd_servers.empty()) {
    ASSIGN_OR_RETURN(etcd, Etcd::Create(settings.etcd_servers));
  }
  auto state =
      std::make_unique<State>(settings, std::move(etcd), client, caches, log, metrics, clock);
  return std::unique_ptr<JobController>(new JobController(std::move(state)));
}

JobController::JobController(std::unique_ptr<State> state) : state_(std::move(state)) {}
JobController::~JobController() = default;

void JobController::AddTo(kube::Manager& manager) {
  state_->children.AddTo(manager);
  manager.Add(state_->events);
  manager.Add(state_->controller);
}

}  // namespace paddleop::controllers::paddlejob
