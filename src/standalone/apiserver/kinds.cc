#include "standalone/apiserver/kinds.h"

#include <fmt/format.h>

#include "api/batch/paddle_job.h"
#include "api/batch/sample_job.h"
#include "api/batch/sample_set.h"
#include "base/check.h"

namespace paddleop::standalone::apiserver {
namespace {

using Words = std::vector<std::string_view>;

const Words kStatusVerbs = {"get", "patch", "update"};
constexpr char kExtensions[] = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

Subresource StatusOf(std::string_view kind) { return {"status", kind, "", "", kStatusVerbs}; }

Kind Core(std::string_view plural, std::string_view singular, std::string_view kind,
          bool namespaced, Words short_names) {
  Kind out;
  out.type = {"", "v1", plural, kind, namespaced};
  out.singular = singular;
  out.short_names = std::move(short_names);
  out.schema = fmt::format("io.k8s.api.core.v1.{}", kind);
  return out;
}

Kind WithStatus(Kind kind) {
  kind.has_status = true;
  kind.subresources.push_back(StatusOf(kind.type.kind));
  return kind;
}

Kind Pods() {
  Kind out = WithStatus(Core("pods", "pod", "Pod", true, {"po"}));
  out.categories = {"all"};
  out.selectable = {
      "spec.nodeName",    "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
      "spec.hostNetwork", "status.phase",       "status.podIP",       "status.nominatedNodeName"};
  out.subresources.push_back({"binding", "Binding", "", "", {"create"}});
  out.subresources.push_back({"eviction", "Eviction", "policy", "v1", {"create"}});
  out.subresources.push_back({"attach", "PodAttachOptions", "", "", {"create", "get"}});
  out.subresources.push_back({"exec", "PodExecOptions", "", "", {"create", "get"}});
  out.subresources.push_back({"log", "Pod", "", "", {"get"}});
  return out;
}

Kind Events() {
  Kind out = Core("events", "event", "Event", true, {"ev"});
  out.selectable = {"involvedObject.kind",
                    "involvedObject.namespace",
                    "involvedObject.name",
                    "involvedObject.uid",
                    "involvedObject.apiVersion",
                    "involvedObject.resourceVersion",
                    "involvedObject.fieldPath",
                    "reason",
                    "reportingComponent",
                    "source",
                    "type"};
  return out;
}

// The same objects, as newer clients' recorders write them.
Kind EventsOfEvents() {
  Kind out;
  out.type = {"events.k8s.io", "v1", "events", "Event", true};
  out.singular = "event";
  out.short_names = {"ev"};
  out.schema = "io.k8s.api.events.v1.Event";
  out.selectable = {"regarding.kind",       "regarding.namespace",
                    "regarding.name",       "regarding.uid",
                    "regarding.apiVersion", "regarding.resourceVersion",
                    "regarding.fieldPath",  "reason",
                    "reportingController",  "type"};
  return out;
}

Kind StatefulSets() {
  Kind out;
  out.type = {"apps", "v1", "statefulsets", "StatefulSet", true};
  out.singular = "statefulset";
  out.short_names = {"sts"};
  out.categories = {"all"};
  out.schema = "io.k8s.api.apps.v1.StatefulSet";
  out.has_generation = true;
  out.subresources.push_back({"scale", "Scale", "autoscaling", "v1", kStatusVerbs});
  return WithStatus(std::move(out));
}

Kind Leases() {
  Kind out;
  out.type = {"coordination.k8s.io", "v1", "leases", "Lease", true};
  out.singular = "lease";
  out.schema = "io.k8s.api.coordination.v1.Lease";
  return out;
}

Kind Definitions() {
  Kind out;
  out.type = {"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
              false};
  out.singular = "customresourcedefinition";
  out.short_names = {"crd", "crds"};
  out.categories = {"api-extensions"};
  out.schema = fmt::format("{}CustomResourceDefinition", kExtensions);
  out.read_only = true;
  return out;
}

Kind Ours(const api::ResourceType& type, std::string_view singular, Words short_names) {
  Kind out;
  out.type = type;
  out.singular = singular;
  out.short_names = std::move(short_names);
  out.schema = fmt::format("org.paddlepaddle.batch.{}.{}", type.version, type.kind);
  out.custom = true;
  out.has_generation = true;
  return WithStatus(std::move(out));
}

std::vector<Kind> MakeKinds() {
  std::vector<Kind> all;
  all.push_back(Core("configmaps", "configmap", "ConfigMap", true, {"cm"}));
  all.push_back(Events());
  all.push_back(WithStatus(Core("namespaces", "namespace", "Namespace", false, {"ns"})));
  all.back().selectable = {"status.phase"};
  all.push_back(WithStatus(Core("nodes", "node", "Node", false, {"no"})));
  all.back().selectable = {"spec.unschedulable"};
  all.push_back(WithStatus(Core("persistentvolumeclaims", "persistentvolumeclaim",
                                "PersistentVolumeClaim", true, {"pvc"})));
  all.push_back(
      WithStatus(Core("persistentvolumes", "persistentvolume", "PersistentVolume", false, {"pv"})));
  all.push_back(Pods());
  all.push_back(Core("secrets", "secret", "Secret", true, {}));
  all.back().selectable = {"type"};
  all.push_back(Core("serviceaccounts", "serviceaccount", "ServiceAccount", true, {"sa"}));
  all.push_back(WithStatus(Core("services", "service", "Service", true, {"svc"})));
  all.back().categories = {"all"};
  all.back().selectable = {"spec.clusterIP", "spec.type"};
  all.push_back(StatefulSets());
  all.push_back(EventsOfEvents());
  all.push_back(Leases());
  all.push_back(Definitions());
  all.push_back(Ours(api::PaddleJob::kType, "paddlejob", {"pdj"}));
  all.push_back(Ours(api::SampleJob::kType, "samplejob", {}));
  all.push_back(Ours(api::SampleSet::kType, "sampleset", {}));
  std::size_t events = 0;
  while (all[events].type.kind != "Event") ++events;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].id = i;
    all[i].stored_id = all[i].type.kind == "Event" ? events : i;
  }
  return all;
}

}  // namespace

std::string Kind::FullName() const {
  if (type.group.empty()) return std::string(type.plural);
  return fmt::format("{}.{}", type.plural, type.group);
}

std::string Kind::FullKind() const {
  if (type.group.empty()) return std::string(type.kind);
  return fmt::format("{}.{}", type.kind, type.group);
}

std::vector<std::string_view> Kind::Verbs() const {
  if (read_only) return {"get", "list", "watch"};
  if (type.kind == "Namespace") {
    return {"create", "delete", "get", "list", "patch", "update", "watch"};
  }
  return {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
}

std::span<const Kind> Kinds() {
  static const std::vector<Kind> kAll = MakeKinds();
  return kAll;
}

const Kind* FindKind(std::string_view group, std::string_view version, std::string_view plural) {
  for (const Kind& kind : Kinds()) {
    if (kind.type.group == group && kind.type.version == version && kind.type.plural == plural) {
      return &kind;
    }
  }
  return nullptr;
}

const Kind* FindKindByName(std::string_view full_name) {
  for (const Kind& kind : Kinds()) {
    if (kind.FullName() == full_name) return &kind;
  }
  return nullptr;
}

const Kind& StoredKind(const Kind& kind) { return Kinds()[kind.stored_id]; }

const Kind& CoreKind(std::string_view name) {
  for (const Kind& kind : Kinds()) {
    if (kind.type.group.empty() && kind.type.kind == name) return kind;
  }
  CHECK(false, "no core kind {}", name);
}

}  // namespace paddleop::standalone::apiserver
