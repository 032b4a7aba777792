#include "controllers/paddlejob/decide.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/batch/rules.h"
#include "controllers/common/child.h"
#include "controllers/paddlejob/addresses.h"
#include "controllers/paddlejob/census.h"
#include "controllers/paddlejob/data_gate.h"
#include "controllers/paddlejob/pods.h"

namespace paddleop::controllers::paddlejob {
namespace {

using std::chrono::seconds;
namespace phase = api::job_phase;

constexpr seconds kFirstRestartDelay(1);
constexpr seconds kLongestRestartDelay(300);
constexpr seconds kRetryPorts(30);

// One pass over one job. Each method does its part of the plan; those that return bool say whether
// the pass goes on.
class Pass {
 public:
  Pass(const Settings& settings, const Observed& seen)
      : settings_(settings), seen_(seen), job_(*seen.job), census_(TakeCensus(seen)) {
    plan_.status = job_.status;
  }

  Plan Run() {
    if (job_.metadata.Deleting()) return Deleted();
    if (job_.status.Finished()) {
      CleanUp();
      return std::move(plan_);
    }
    const bool first_look = job_.status.observed_generation != job_.metadata.generation;
    plan_.status.observed_generation = job_.metadata.generation;
    plan_.status.mode = job_.spec.Mode();
    if (Accept(first_look)) {
      CountPods();
      if (!Suspend() && !MissDeadline() && !Finish() && !NextGang()) Advance();
    }
    return std::move(plan_);
  }

 private:
  // --- small things
  // -------------------------------------------------------------------------------------

  void SetCondition(const char* type, bool value, std::string reason, std::string message) {
    api::SetCondition(plan_.status.conditions,
                      {.type = type,
                       .status = std::string(value ? api::kStatusTrue : api::kStatusFalse),
                       .observed_generation = job_.metadata.generation,
                       .reason = std::move(reason),
                       .message = std::move(message)},
                      seen_.now);
  }
  void NotRunning(std::string_view new_phase, std::string reason, std::string message) {
    plan_.status.phase = new_phase;
    SetCondition(condition::kRunning, false, std::move(reason), std::move(message));
  }
  template <class T>
  static Delete DeleteOf(const T& object) {
    return {T::kType, object.metadata.name, object.metadata.uid};
  }
  static void DeletePods(const std::vector<PodPointer>& pods, Step& step) {
    for (const auto& pod : pods) {
      if (!pod->metadata.Deleting()) step.deletes.push_back(DeleteOf(*pod));
    }
  }
  bool OwnsPodGroup() const {
    return seen_.pod_group && IsControlledBy(seen_.pod_group->metadata, job_.metadata);
  }
  void AddStep(Step step) {
    if (!step.empty()) plan_.steps.push_back(std::move(step));
  }
  // A problem that only a change of the job or of the cluster solves. The event comes once per
  // message.
  void Reject(std::string reason, std::string message) {
    const api::Condition* before = api::FindCondition(job_.status.conditions, condition::kAccepted);
    if (before == nullptr || before->message != message || before->reason != reason)
      plan_.Tell(true, reason, message);
    SetCondition(condition::kAccepted, false, reason, message);
    NotRunning(plan_.status.phase.empty() ? phase::kPending : std::string_view(plan_.status.phase),
               std::move(reason), std::move(message));
  }

  // --- the end of a job
  // ---------------------------------------------------------------------------------

  Plan Deleted() {
    if (job_.metadata.HasFinalizer(kFinalizer)) {
      std::string kept;
      for (const auto& finalizer : job_.metadata.finalizers) {
        if (finalizer != kFinalizer)
          kept += fmt::format("{}\"{}\"", kept.empty() ? "" : ",", finalizer);
      }
      plan_.job_patch =
          fmt::format(R"({{"metadata":{{"resourceVersion":"{}","finalizers":[{}]}}}})",
                      job_.metadata.resource_version, kept);
    }
    if (job_.spec.elastic) plan_.elastic_np = -1;
    return std::move(plan_);
  }

  void CleanUp() {
    using Policy = api::PaddleJobSpec::CleanPolicy;
    const auto policy = job_.spec.Cleaning();
    const auto& status = plan_.status;
    const bool failed = status.phase == phase::kFailed;
    const bool clean = policy == Policy::kAlways || (failed && policy == Policy::kOnFailure) ||
                       (!failed && policy == Policy::kOnCompletion);
    const api::Condition* failure = api::FindCondition(status.conditions, condition::kFailed);
    const bool stop_all = failure != nullptr && failure->reason == "DeadlineExceeded";
    Step step;
    for (const auto& pod : seen_.pods) {
      if (pod->metadata.Deleting()) continue;
      if (clean || (stop_all && !pod->Finished())) step.deletes.push_back(DeleteOf(*pod));
    }
    if (clean) {
      for (const auto& service : seen_.services) {
        if (!service->metadata.Deleting()) step.deletes.push_back(DeleteOf(*service));
      }
    }
    if (OwnsPodGroup() && !seen_.pod_group->metadata.Deleting())
      step.deletes.push_back(DeleteOf(*seen_.pod_group));
    AddStep(std::move(step));
    if (job_.spec.elastic) plan_.elastic_np = -1;
    ExpireAfterTtl();
  }

  void ExpireAfterTtl() {
    const auto& ttl = job_.spec.ttl_seconds_after_finished;
    if (!ttl || !plan_.status.completion_time) return;
    const auto end = *plan_.status.completion_time + seconds(*ttl);
    if (seen_.now >= end) {
      plan_.delete_job = true;
    } else {
      plan_.RecheckAfter(end - seen_.now);
    }
  }

  void End(std::string_view end_phase, const char* type, std::string reason,
           const std::string& message) {
    plan_.status_first = true;
    plan_.status.phase = end_phase;
    plan_.status.completion_time = seen_.now;
    SetCondition(condition::kRunning, false, reason, message);
    SetCondition(type, true, std::move(reason), message);
    plan_.recheck.reset();
    CleanUp();
  }

  void Fail(std::string reason, std::string message) {
    plan_.Tell(true, reason, message);
    End(phase::kFailed, condition::kFailed, std::move(reason), message);
  }

  bool Finish() {
    if (HasSucceeded(census_, job_)) {
      Complete();
      return true;
    }
    if (census_.failed.empty()) return false;
    if (job_.spec.elastic) return ReplaceFailed();
    const std::string why = WhyFailed(*census_.failed.front().second);
    const std::int32_t limit = job_.spec.backoff_limit.value_or(0);
    if (job_.status.failures >= limit) {
      Fail("PodFailed",
           limit == 0 ? why : fmt::format("{}; backoffLimit of {} is used up", why, limit));
      return true;
    }
    ++plan_.status.failures;
    plan_.status.last_failure_time = seen_.now;
    BeginGang(phase::kRestarting, "Restarting",
              fmt::format("{}; restart {} of {}", why, plan_.status.failures, limit), true);
    return true;
  }

  void Complete() {
    const std::string message = fmt::format(
        "all {} succeeded", Replicas(job_.spec, Role::kWorker) > 0 ? "workers" : "pods");
    plan_.Tell(false, "Completed", message);
    End(phase::kCompleted, condition::kCompleted, "Completed", message);
    std::vector<std::string> running;
    for (const auto& [place, pod] : census_.members) {
      if (place.role != Role::kWorker && !pod->Finished()) running.push_back(pod->metadata.name);
    }
    const auto policy = job_.spec.Cleaning();
    using Policy = api::PaddleJobSpec::CleanPolicy;
    if (!running.empty() && (policy == Policy::kNever || policy == Policy::kOnFailure)) {
      plan_.Tell(
          false, "ServersKept",
          fmt::format(
              "{} still run: servers do not end by themselves, and cleanPodPolicy keeps them",
              JoinNames(running)));
    }
  }

  // An elastic job goes on with the others while a failed worker is replaced.
  bool ReplaceFailed() {
    const auto& limit = job_.spec.backoff_limit;
    const auto failed = static_cast<std::int32_t>(census_.failed.size());
    if (limit && job_.status.failures + failed > *limit) {
      Fail("PodFailed", fmt::format("{}; backoffLimit of {} is used up",
                                    WhyFailed(*census_.failed.front().second), *limit));
      return true;
    }
    Step step;
    for (const auto& [place, pod] : census_.failed) {
      step.deletes.push_back(DeleteOf(*pod));
      plan_.Tell(true, "Replaced", WhyFailed(*pod));
    }
    plan_.status.failures += failed;
    plan_.status.last_failure_time = seen_.now;
    AddStep(std::move(step));
    NotRunning(phase::kRestarting, "Restarting", "a failed worker is replaced");
    return true;
  }

  // --- what keeps a job from running
  // --------------------------------------------------------------------

  bool Accept(bool first_look) {
    const auto violations = api::Validate(job_);
    const auto& ref = job_.spec.sample_set_ref;
    if (!violations.empty()) {
      Reject("InvalidSpec", api::Describe(violations));
      return false;
    }
    if (ref && !ref->ns.empty() && ref->ns != job_.metadata.ns) {
      Reject("InvalidSpec", fmt::format("spec.sampleSetRef.namespace is {}, but pods can only use "
                                        "claims of their own namespace {}; "
                                        "create the SampleSet there",
                                        ref->ns, job_.metadata.ns));
      return false;
    }
    if (job_.spec.elastic && settings_.etcd_servers.empty()) {
      Reject("EtcdMissing",
             "an elastic job needs etcd: start the manager with --etcd-server=HOST:PORT "
             "(deploy/elastic/etcd.yaml has one)");
      return false;
    }
    if (first_look && !job_.spec.CleaningWordKnown()) {
      plan_.Tell(
          true, "UnknownCleanPodPolicy",
          fmt::format(
              "cleanPodPolicy \"{}\" is unknown and acts as Never; use Always, Never, OnFailure or "
              "OnCompletion",
              job_.spec.CleaningWord()));
    }
    SetCondition(condition::kAccepted, true, "Valid", "the job can be carried out");
    return true;
  }

  void CountPods() {
    for (const Role role : kRoles) {
      auto& status = RoleStatus(plan_.status, role);
      if (RoleSpec(job_.spec, role)) {
        status = CountRole(census_, job_, role);
      } else {
        status.reset();
      }
    }
  }

  bool Suspend() {
    if (!job_.spec.suspend) {
      if (api::IsConditionTrue(plan_.status.conditions, condition::kSuspended)) {
        SetCondition(condition::kSuspended, false, "Resumed", "spec.suspend is no longer set");
        plan_.Tell(false, "Resumed", "the job goes on");
      }
      return false;
    }
    if (!api::IsConditionTrue(job_.status.conditions, condition::kSuspended)) {
      // The pods of before must not be taken for those of after.
      if (!seen_.pods.empty() || seen_.config_map) ++plan_.status.gang;
      plan_.status_first = true;
      plan_.Tell(false, "Suspended", "pods are removed until spec.suspend is unset");
    }
    SetCondition(condition::kSuspended, true, "Suspended", "spec.suspend is set");
    NotRunning(phase::kSuspended, "Suspended", "spec.suspend is set");
    plan_.status.start_time.reset();
    RemoveGang(seen_.pods, true);
    return true;
  }

  // The job is active from its creation, from when its data was ready, or from when it was resumed.
  bool MissDeadline() {
    const auto& deadline = job_.spec.active_deadline_seconds;
    if (!deadline || !job_.metadata.creation_timestamp) return false;
    auto since = *job_.metadata.creation_timestamp;
    for (const auto& [type, status] : {std::pair(condition::kDataReady, api::kStatusTrue),
                                       std::pair(condition::kSuspended, api::kStatusFalse)}) {
      const api::Condition* found = api::FindCondition(plan_.status.conditions, type);
      if (found != nullptr && found->status == status && found->last_transition_time) {
        since = std::max(since, *found->last_transition_time);
      }
    }
    if (job_.spec.sample_set_ref &&
        job_.spec.sample_set_ref->WaitForKind() != api::SampleSetRef::WaitFor::kNone &&
        !api::IsConditionTrue(plan_.status.conditions, condition::kDataReady)) {
      return false;
    }
    const auto end = since + seconds(*deadline);
    if (seen_.now < end) {
      plan_.RecheckAfter(end - seen_.now);
      return false;
    }
    Fail("DeadlineExceeded",
         fmt::format("the job was active longer than activeDeadlineSeconds ({})", *deadline));
    return true;
  }

  // --- gangs
  // --------------------------------------------------------------------------------------------

  // First the ConfigMap, then the pods.
  void RemoveGang(const std::vector<PodPointer>& pods, bool with_pod_group) {
    Step first;
    if (seen_.config_map && !seen_.config_map->metadata.Deleting())
      first.deletes.push_back(DeleteOf(*seen_.config_map));
    if (with_pod_group && OwnsPodGroup() && !seen_.pod_group->metadata.Deleting()) {
      first.deletes.push_back(DeleteOf(*seen_.pod_group));
    }
    AddStep(std::move(first));
    Step second;
    DeletePods(pods, second);
    AddStep(std::move(second));
  }

  void BeginGang(std::string_view new_phase, std::string reason, std::string message,
                 bool warning) {
    plan_.status_first = true;
    ++plan_.status.gang;
    plan_.status.relaxed_workers.clear();
    plan_.Tell(warning, reason, message);
    NotRunning(new_phase, std::move(reason), std::move(message));
    RemoveGang(seen_.pods, false);
    if (job_.status.last_failure_time != plan_.status.last_failure_time)
      plan_.RecheckAfter(RestartDelay());
  }

  seconds RestartDelay() const {
    const int doublings = std::min(plan_.status.failures - 1, 16);
    return std::min(kFirstRestartDelay * (1 << std::max(doublings, 0)), kLongestRestartDelay);
  }

  bool NextGang() {
    const auto& config_map = seen_.config_map;
    if (!config_map || GangOf(config_map->metadata) != job_.status.gang || job_.spec.elastic)
      return false;
    if (config_map->metadata.Annotation(kReplicasAnnotation) != ReplicasText(job_.spec)) {
      BeginGang(phase::kScaling, "Scaled",
                fmt::format(
                    "scaled from {} to {}: all pods start again with the new list of addresses",
                    config_map->metadata.Annotation(kReplicasAnnotation), ReplicasText(job_.spec)),
                false);
      return true;
    }
    // Names stay what they are when a pod is replaced; addresses do not.
    if (job_.spec.IsService()) return false;
    if (config_map->metadata.Annotation(kMembersAnnotation) == MembersDigest(census_) &&
        !AddressesMoved())
      return false;
    BeginGang(
        phase::kRestarting, "Restarting",
        fmt::format("{}: all pods start again with the new list of addresses", WhoIsMissing()),
        true);
    return true;
  }

  std::string WhoIsMissing() const {
    std::vector<std::string> names;
    for (const Role role : kRoles) {
      for (std::int32_t i = 0; i < Replicas(job_.spec, role); ++i) {
        if (!census_.members.contains({role, i}))
          names.push_back(PodName(job_.metadata.name, role, i));
      }
    }
    return names.empty() ? "a pod was replaced" : JoinNames(names) + " disappeared";
  }

  bool AddressesMoved() const {
    for (const auto& [place, pod] : census_.members) {
      if (pod->Finished()) return false;
    }
    const AddressBook book = FindAddresses(seen_, census_);
    if (!book.complete) return false;
    const auto now = SharedEnvironment(job_, book.addresses);
    for (const char* key :
         {"PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_HETER_ENDPOINTS"}) {
      const auto before = seen_.config_map->data.find(key);
      const auto after = now.find(key);
      if (before != seen_.config_map->data.end() && after != now.end() &&
          before->second != after->second)
        return true;
    }
    return false;
  }

  // --- going forward
  // ------------------------------------------------------------------------------------

  void Advance() {
    Step cleaning;
    DeletePods(census_.stale, cleaning);
    DeletePods(census_.surplus, cleaning);
    if (!census_.surplus.empty()) {
      std::vector<std::string> names;
      for (const auto& pod : census_.surplus) names.push_back(pod->metadata.name);
      plan_.Tell(false, "Scaled", "removed " + JoinNames(names));
    }
    if (seen_.config_map && GangOf(seen_.config_map->metadata) != job_.status.gang) {
      if (!seen_.config_map->metadata.Deleting())
        AddStep({.deletes = {DeleteOf(*seen_.config_map)}});
    }
    DropSurplusServices(cleaning);
    AddStep(std::move(cleaning));

    if (!DataIsReady(seen_, plan_)) {
      const api::Condition* data =
          api::FindCondition(plan_.status.conditions, condition::kDataReady);
      NotRunning(phase::kPending, "WaitingForData", data->message);
      return;
    }
    if (!RestartDelayOver() || !QueueAdmits()) return;
    const auto relaxed = RelaxAffinity(seen_, census_, plan_);
    if (!relaxed.empty()) {
      plan_.status_first = true;
      Step step;
      DeletePods(relaxed, step);
      AddStep(std::move(step));
    }
    if (!CreateMissing()) return;
    if (!OpenGate()) return;
    if (job_.spec.elastic) plan_.elastic_np = Replicas(job_.spec, Role::kWorker);
    Judge();
  }

  void DropSurplusServices(Step& step) {
    for (const auto& service : seen_.services) {
      const auto place = PlaceOf(job_.metadata.name, service->metadata.name);
      const bool wanted =
          place && job_.spec.IsService() && place->index < Replicas(job_.spec, place->role);
      if (!wanted && !service->metadata.Deleting()) step.deletes.push_back(DeleteOf(*service));
    }
  }

  bool RestartDelayOver() {
    if (!job_.status.last_failure_time || job_.spec.elastic) return true;
    const auto until = *job_.status.last_failure_time + RestartDelay();
    if (seen_.now >= until || census_.Complete()) return true;
    plan_.RecheckAfter(until - seen_.now);
    NotRunning(phase::kRestarting, "Restarting", "waiting before the next start");
    return false;
  }

  // With Volcano no pod is created before the whole gang may be.
  bool QueueAdmits() {
    if (!settings_.volcano || NamesOtherScheduler(job_)) return true;
    if (!seen_.pod_group || seen_.pod_group->metadata.Deleting()) {
      auto group = BuildPodGroup(job_);
      if (!group) {
        Reject("InvalidSpec", group.error().message());
        return false;
      }
      // The old one may still be on its way out; its deletion brings us back here.
      if (!seen_.pod_group) AddStep({.creates = {*std::move(group)}});
      NotRunning(phase::kPending, "WaitingForQueue", "waiting for Volcano to admit the PodGroup");
      return census_.members.empty() ? false : true;
    }
    if (OwnsPodGroup() && !seen_.pod_group->applied_by_user &&
        seen_.pod_group->min_member != MinMember(job_)) {
      AddStep({.patches = {{api::PodGroup::kType, job_.metadata.name,
                            fmt::format(R"({{"spec":{{"minMember":{}}}}})", MinMember(job_))}}});
    }
    const std::string& state = seen_.pod_group->phase;
    // Once there are pods the group's phase follows them, and must not keep their successors from
    // being made.
    if (!census_.members.empty() || state == "Running" || state == "Inqueue") return true;
    NotRunning(phase::kPending, "WaitingForQueue",
               fmt::format("waiting for Volcano to admit the PodGroup (phase {})",
                           state.empty() ? "unset" : state));
    return false;
  }

  bool CreateMissing() {
    Step step;
    std::vector<std::string> names;
    std::vector<std::string> relaxed;
    std::set<std::string> services;
    for (const auto& service : seen_.services) services.insert(service->metadata.name);
    for (const Role role : kRoles) {
      for (std::int32_t i = 0; i < Replicas(job_.spec, role); ++i) {
        const Place place{role, i};
        const std::string name = PodName(job_.metadata.name, role, i);
        if (job_.spec.IsService() && !services.contains(name))
          step.creates.push_back(BuildService(job_, place));
        if (census_.taken.contains(place)) continue;
        const DataPlacement data = role == Role::kWorker ? PlaceWorker(seen_, i) : DataPlacement{};
        auto pod = BuildPod(settings_, job_, place, job_.status.gang, data);
        if (!pod) {
          Reject("InvalidSpec", pod.error().message());
          return false;
        }
        if (data.affinity == Affinity::kPreferred &&
            job_.spec.sample_set_ref->AffinityKind() == api::SampleSetRef::Affinity::kRequired) {
          relaxed.push_back(name);
        }
        step.creates.push_back(*std::move(pod));
        names.push_back(name);
      }
    }
    if (!names.empty())
      plan_.Tell(false, "Created", fmt::format("created pods {}", JoinNames(names)));
    if (!relaxed.empty()) {
      plan_.Tell(
          true, "AffinityRelaxed",
          fmt::format(
              "{}: the node that caches the partition is not available; preferred affinity is used",
              JoinNames(relaxed)));
    }
    AddStep(std::move(step));
    return true;
  }

  // The ConfigMap is what the containers of all pods wait for.
  bool OpenGate() {
    if (job_.spec.elastic || !census_.Complete()) return true;
    if (seen_.config_map) return true;
    const AddressBook book = FindAddresses(seen_, census_);
    if (!book.problem.empty()) {
      Reject("NoAddresses", book.problem);
      if (job_.spec.IsHost()) plan_.RecheckAfter(kRetryPorts);
      return false;
    }
    if (!book.complete) return true;
    if (job_.spec.IsHost()) StorePorts();
    AddStep(
        {.creates = {BuildConfigMap(job_, job_.status.gang, SharedEnvironment(job_, book.addresses),
                                    MembersDigest(census_))}});
    return true;
  }

  void StorePorts() {
    if (StoredPortBlocks(job_.metadata) == seen_.port_blocks) return;
    const std::string all = fmt::format("{}", fmt::join(seen_.port_blocks, ","));
    plan_.job_patch =
        fmt::format(R"({{"metadata":{{"annotations":{{"{}":"{}","{}":"{}"}}}}}})",
                    kHostPortAnnotation, seen_.port_blocks.front(), kHostPortsAnnotation, all);
  }

  void Judge() {
    auto& status = plan_.status;
    // Until the pods of the last gang are gone there is nothing to say about this one.
    const bool leaving = !census_.stale.empty() ||
                         census_.taken.size() > census_.members.size() + census_.surplus.size();
    if (leaving && (status.phase == phase::kRestarting || status.phase == phase::kScaling)) {
      SetCondition(condition::kRunning, false, "Restarting",
                   "pods of the last start are going away");
      return;
    }
    status.phase = ActivePhase(job_, status, status.phase);
    if (status.phase == phase::kRunning) {
      if (!status.start_time) status.start_time = seen_.now;
      SetCondition(condition::kRunning, true, "PodsRunning", "all pods run");
    } else {
      SetCondition(
          condition::kRunning, false, "WaitingForPods",
          status.phase == phase::kStarting ? "containers are starting" : "pods are pending");
    }
  }

  const Settings& settings_;
  const Observed& seen_;
  const api::PaddleJob& job_;
  const Census census_;
  Plan plan_;
};

}  // namespace

Plan Decide(const Settings& settings, const Observed& seen) { return Pass(settings, seen).Run(); }

}  // namespace paddleop::controllers::paddlejob
