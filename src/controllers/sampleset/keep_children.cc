#include <fmt/format.h>

#include <set>

#include "controllers/common/child.h"
#include "controllers/sampleset/credentials.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/objects.h"
#include "controllers/sampleset/pass.h"

namespace paddleop::controllers::sampleset {
namespace {

void Want(Pass& pass, ChangeStep& step, CreateObject object) {
  pass.plan.Tell(false,
                 fmt::format("Create{}Successfully",
                             object.type == api::PersistentVolume::kType        ? "PV"
                             : object.type == api::PersistentVolumeClaim::kType ? "PVC"
                                                                                : object.type.kind),
                 fmt::format("{} {}", object.type.kind, object.key.name));
  step.creates.push_back(std::move(object));
}

void KeepVolumeSecret(Pass& pass, const api::SampleSet& set, ChangeStep& step) {
  const auto& source = pass.seen.volume_secret;
  if (!source.found() || !pass.Holds(condition::kSecretReady)) return;
  if (!IsOurs(pass.set, pass.seen.volume_copy)) {
    Want(pass, step, VolumeSecretObject(set, *source.secret, false));
    return;
  }
  if (SameVolume(*pass.seen.volume_copy, *source.secret)) return;
  auto wanted = VolumeSecretObject(set, *source.secret, true);
  step.patches.push_back(
      {wanted.type, wanted.key, std::move(wanted.json), pass.seen.volume_copy->metadata.uid});
  pass.plan.Tell(
      false, "SecretChanged",
      fmt::format("Secret {} has changed; the runtimes get its new values", source.key.ToString()));
}

}  // namespace

void KeepChildren(Pass& pass) {
  const auto& seen = pass.seen;
  // Objects are made by the names that the status has, also in the pass that is about to store it.
  const api::SampleSet& set = pass.set;
  const AuthReview review =
      ReviewAuth(set, IsOurs(set, seen.auth) ? seen.auth.get() : nullptr, seen.now);
  pass.plan.auth = review.work;
  pass.plan.RecheckAfter(review.recheck);

  // Before anything else has the name: of two sets in two namespaces that chose the same one, the
  // volume shows which may keep it.
  ChangeStep volume;
  if (!IsOurs(set, seen.volume)) Want(pass, volume, VolumeObject(set));
  if (!volume.empty()) pass.plan.steps.push_back(std::move(volume));

  ChangeStep first;
  KeepVolumeSecret(pass, set, first);
  if (!IsOurs(set, seen.claim)) Want(pass, first, ClaimObject(set));
  if (!IsOurs(set, seen.service)) Want(pass, first, ServiceObject(set));
  if (!first.empty()) pass.plan.steps.push_back(std::move(first));

  ChangeStep second;
  if (!IsOurs(set, seen.stateful_set)) {
    Want(pass, second, StatefulSetObject(pass.settings, set));
  } else if (seen.stateful_set->metadata.Annotation(kTemplateAnnotation) !=
             TemplateDigest(pass.settings, set)) {
    second.patches.push_back({api::StatefulSet::kType, seen.stateful_set->metadata.Key(),
                              TemplatePatch(pass.settings, set), seen.stateful_set->metadata.uid});
    pass.plan.Tell(false, "RollingOut", "the runtime pods get the changed settings");
  }
  if (!second.empty()) pass.plan.steps.push_back(std::move(second));
}

}  // namespace paddleop::controllers::sampleset
