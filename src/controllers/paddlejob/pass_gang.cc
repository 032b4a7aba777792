#include "controllers/paddlejob/pass.h"

#include <fmt/format.h>

#include <algorithm>

#include "controllers/common/child.h"
#include "controllers/paddlejob/addresses.h"
#include "controllers/paddlejob/environment.h"
#include "controllers/paddlejob/names.h"
#include "controllers/paddlejob/pods.h"

namespace paddleop::controllers::paddlejob {
namespace {

using std::chrono::seconds;
namespace phase = api::job_phase;

constexpr seconds kFirstRestartDelay(1);
constexpr seconds kLongestRestartDelay(300);

}  // namespace

void Pass::RemoveGang(const std::vector<PodPointer>& pods, bool with_pod_group) {
  ChangeStep first;
  if (seen_.config_map && !seen_.config_map->metadata.Deleting())
    first.deletes.push_back(DeleteOf(*seen_.config_map));
  if (with_pod_group && OwnsPodGroup() && !seen_.pod_group->metadata.Deleting()) {
    first.deletes.push_back(DeleteOf(*seen_.pod_group));
  }
  AddStep(std::move(first));
  ChangeStep second;
  DeletePods(pods, second);
  AddStep(std::move(second));
}

void Pass::BeginGang(std::string_view new_phase, std::string reason, std::string message,
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

seconds Pass::RestartDelay() const {
  const int doublings = std::min(plan_.status.failures - 1, 16);
  return std::min(kFirstRestartDelay * (1 << std::max(doublings, 0)), kLongestRestartDelay);
}

bool Pass::NextGang() {
  const auto& config_map = seen_.config_map;
  if (!config_map || GangOf(config_map->metadata) != job_.status.gang || job_.spec.elastic)
    return false;
  if (config_map->metadata.Annotation(kReplicasAnnotation) != ReplicasText(job_.spec)) {
    BeginGang(
        phase::kScaling, "Scaled",
        fmt::format("scaled from {} to {}: all pods start again with the new list of addresses",
                    config_map->metadata.Annotation(kReplicasAnnotation), ReplicasText(job_.spec)),
        false);
    return true;
  }
  // Names stay what they are when a pod is replaced; addresses do not.
  if (job_.spec.IsService()) return false;
  if (config_map->metadata.Annotation(kMembersAnnotation) == MembersDigest(census_) &&
      !AddressesMoved())
    return false;
  BeginGang(phase::kRestarting, "Restarting",
            fmt::format("{}: all pods start again with the new list of addresses", WhoIsMissing()),
            true);
  return true;
}

std::string Pass::WhoIsMissing() const {
  std::vector<std::string> names;
  for (const Role role : kRoles) {
    for (std::int32_t i = 0; i < Replicas(job_.spec, role); ++i) {
      if (!census_.members.contains({role, i}))
        names.push_back(PodName(job_.metadata.name, role, i));
    }
  }
  return names.empty() ? "a pod was replaced" : JoinNames(names) + " disappeared";
}

bool Pass::AddressesMoved() const {
  for (const auto& [place, pod] : census_.members) {
    if (pod->Finished()) return false;
  }
  const AddressBook book = FindAddresses(seen_, census_);
  if (!book.complete) return false;
  const auto now = SharedEnvironment(job_, book.addresses);
  for (const char* key : kAddressLists) {
    const auto before = seen_.config_map->data.find(key);
    const auto after = now.find(key);
    if (before != seen_.config_map->data.end() && after != now.end() &&
        before->second != after->second)
      return true;
  }
  return false;
}

}  // namespace paddleop::controllers::paddlejob
