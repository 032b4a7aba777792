#include "standalone/apiserver/internal/kind_rules.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "api/meta/selector.h"
#include "base/crypto.h"
#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/internal/names.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr std::size_t kMaxDataBytes = 1u << 20;

void CheckKeys(const Json& object, const char* field, std::size_t& bytes, std::vector<Cause>& out) {
  const Json* data = ValueAt(object, field);
  if (data == nullptr) return;
  for (const auto& [key, value] : data->items()) {
    if (const auto wrong = WrongConfigKey(key)) {
      out.push_back(InvalidValue(fmt::format("{}[{}]", field, key), Quoted(key), *wrong));
    }
    if (value.is_string()) bytes += value.get_ref<const std::string&>().size();
  }
}

// Of ConfigMaps and Secrets.
void CheckData(const Json& object, const Json* before, bool encoded, std::vector<Cause>& out) {
  std::size_t bytes = 0;
  CheckKeys(object, "data", bytes, out);
  CheckKeys(object, "binaryData", bytes, out);
  if (bytes > (encoded ? kMaxDataBytes / 3 * 4 + 4 : kMaxDataBytes)) {
    out.push_back({"FieldValueTooLong",
                   fmt::format("Too long: may not be more than {} bytes", kMaxDataBytes),
                   encoded ? "data" : ""});
  }
  if (before == nullptr || !FlagAt(*before, "immutable")) return;
  if (!FlagAt(object, "immutable")) {
    out.push_back(ForbiddenField("immutable", "field is immutable when `immutable` is set"));
  }
  for (const char* field : {"data", "binaryData"}) {
    const Json* now = ValueAt(object, field);
    const Json* then = ValueAt(*before, field);
    const bool same = now == nullptr || then == nullptr ? now == then : *now == *then;
    if (!same) out.push_back(ForbiddenField(field, "field is immutable when `immutable` is set"));
  }
}

void CheckSecret(const Json& object, const Json* before, std::vector<Cause>& out) {
  CheckData(object, before, true, out);
  if (before != nullptr && TextAt(*before, "type") != TextAt(object, "type")) {
    out.push_back(InvalidValue("type", Quoted(TextAt(object, "type")), "field is immutable"));
  }
}

void CheckService(const Json& object, std::vector<Cause>& out) {
  const Json& ports = ListAt(object, "spec.ports");
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::int64_t port = NumberAt(ports[i], "port");
    if (port < 1 || port > 65535) {
      out.push_back(InvalidValue(fmt::format("spec.ports[{}].port", i), std::to_string(port),
                                 "must be between 1 and 65535, inclusive"));
    }
    if (ports.size() > 1 && TextAt(ports[i], "name").empty()) {
      out.push_back(Required(fmt::format("spec.ports[{}].name", i)));
    }
  }
}

Json WithoutChangeable(Json spec) {
  for (const char* field :
       {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy", "minReadySeconds"}) {
    spec.erase(field);
  }
  return spec;
}

void CheckStatefulSet(const Json& object, const Json* before, std::vector<Cause>& out) {
  if (NumberAt(object, "spec.replicas") < 0) {
    out.push_back(InvalidValue("spec.replicas", std::to_string(NumberAt(object, "spec.replicas")),
                               "must be greater than or equal to 0"));
  }
  const Json* selector = ValueAt(object, "spec.selector");
  const Json* pod = ValueAt(object, "spec.template.spec");
  if (pod != nullptr) {
    CheckPodSpec(*pod, "spec.template.spec", out);
    if (const std::string policy = TextAt(*pod, "restartPolicy"); policy != "Always") {
      out.push_back(NotSupportedValue("spec.template.spec.restartPolicy", policy, {"Always"}));
    }
  }
  if (selector != nullptr) {
    const auto parsed = api::LabelSelectorFromJson(*selector);
    api::StringMap labels;
    if (const Json* found = ValueAt(object, "spec.template.metadata.labels")) {
      for (const auto& [key, value] : found->items()) {
        if (value.is_string()) labels[key] = value.get<std::string>();
      }
    }
    if (!parsed || (parsed->match_labels.empty() && parsed->match_expressions.empty())) {
      out.push_back(InvalidValue("spec.selector", selector->dump(),
                                 "empty selector is invalid for statefulset"));
    } else if (!parsed->Matches(labels)) {
      out.push_back(InvalidValue("spec.template.metadata.labels",
                                 "map[string]string" + Json(labels).dump(),
                                 "`selector` does not match template `labels`"));
    }
  }
  if (before == nullptr) return;
  if (WithoutChangeable((*before).value("spec", Json::object())) !=
      WithoutChangeable(object.value("spec", Json::object()))) {
    out.push_back(ForbiddenField(
        "spec",
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
        "'minReadySeconds' are forbidden"));
  }
}

void CheckClaim(const Json& object, const Json* before, std::vector<Cause>& out) {
  if (ListAt(object, "spec.accessModes").empty()) {
    out.push_back(Required("spec.accessModes", "at least 1 access mode is required"));
  }
  if (ValueAt(object, "spec.resources.requests.storage") == nullptr) {
    out.push_back(Required("spec.resources[storage]"));
  }
  if (before == nullptr) return;
  Json then = before->value("spec", Json::object());
  Json now = object.value("spec", Json::object());
  for (Json* spec : {&then, &now}) {
    spec->erase("resources");
    spec->erase("volumeAttributesClassName");
  }
  // The binder may name the volume once.
  if (TextAt(*before, "spec.volumeName").empty()) now.erase("volumeName");
  if (then != now) {
    out.push_back(ForbiddenField("spec",
                                 "spec is immutable after creation except resources.requests and "
                                 "volumeAttributesClassName for bound claims"));
  }
}

void CheckVolume(const Json& object, std::vector<Cause>& out) {
  if (ListAt(object, "spec.accessModes").empty()) out.push_back(Required("spec.accessModes"));
  const Json* capacity = ValueAt(object, "spec.capacity");
  if (capacity == nullptr || capacity->empty()) out.push_back(Required("spec.capacity"));
  bool source = false;
  static const Json kEmpty = Json::object();
  const Json* spec = ValueAt(object, "spec");
  for (const auto& [name, value] : (spec == nullptr ? kEmpty : *spec).items()) {
    source = source || (value.is_object() && name != "capacity" && name != "claimRef" &&
                        name != "nodeAffinity");
  }
  if (!source) out.push_back(Required("spec", "must specify a volume type"));
}

}  // namespace

void CheckBuiltin(const Kind& kind, const Json& object, const Json* before,
                  std::vector<Cause>& out) {
  const auto name = kind.type.kind;
  if (name == "Pod") {
    const Json* spec = ValueAt(object, "spec");
    if (spec == nullptr) return out.push_back(Required("spec.containers"));
    CheckPodSpec(*spec, "spec", out);
    if (before != nullptr) CheckPodUpdate(*before, object, out);
  } else if (name == "ConfigMap") {
    CheckData(object, before, false, out);
  } else if (name == "Secret") {
    CheckSecret(object, before, out);
  } else if (name == "Service") {
    CheckService(object, out);
  } else if (name == "StatefulSet") {
    CheckStatefulSet(object, before, out);
  } else if (name == "PersistentVolumeClaim") {
    CheckClaim(object, before, out);
  } else if (name == "PersistentVolume") {
    CheckVolume(object, out);
  } else if (name == "Event") {
    CheckEvent(kind, object, before, out);
  }
}

}  // namespace paddleop::standalone::apiserver
