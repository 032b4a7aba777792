#include "standalone/apiserver/stored_object.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/check.h"
#include "base/crypto.h"
#include "standalone/apiserver/internal/json_path.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

// Stands in the text until the revision is known; nobody can guess it, so no value contains it.
const std::string& Placeholder() {
  static const std::string kText = "revision-" + RandomUuid();
  return kText;
}

std::string SelectedValue(const Json& json, std::string_view field) {
  if (field == "source") {
    const std::string component = TextAt(json, "source.component");
    return component.empty() ? TextAt(json, "reportingComponent") : component;
  }
  const Json* value = ValueAt(json, field);
  if (value == nullptr)
    return field == "spec.hostNetwork" || field == "spec.unschedulable" ? "false" : "";
  return value->is_string() ? value->get<std::string>() : value->dump();
}

void ReadMetadata(StoredObject& object, const Json& metadata) {
  object.ns = TextAt(metadata, "namespace");
  object.name = TextAt(metadata, "name");
  object.uid = TextAt(metadata, "uid");
  object.deleting = metadata.contains("deletionTimestamp");
  if (const Json* labels = ValueAt(metadata, "labels"); labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) {
      if (value.is_string()) object.labels.emplace_back(key, value.get<std::string>());
    }
  }
  if (const Json* owners = ValueAt(metadata, "ownerReferences");
      owners != nullptr && owners->is_array()) {
    for (const Json& owner : *owners) {
      const Json* blocks = ValueAt(owner, "blockOwnerDeletion");
      object.owners.push_back({TextAt(owner, "uid"), blocks != nullptr && *blocks == true});
    }
  }
  if (const Json* finalizers = ValueAt(metadata, "finalizers");
      finalizers != nullptr && finalizers->is_array()) {
    for (const Json& finalizer : *finalizers) {
      if (finalizer.is_string()) object.finalizers.push_back(finalizer.get<std::string>());
    }
  }
}

}  // namespace

std::optional<std::string> StoredObject::Label(std::string_view label) const {
  for (const auto& [key, value] : labels) {
    if (key == label) return value;
  }
  return std::nullopt;
}

std::optional<std::string> StoredObject::Field(std::string_view field) const {
  if (field == "metadata.name") return name;
  if (field == "metadata.namespace") return ns;
  for (const auto& [key, value] : fields) {
    if (key == field) return value;
  }
  return std::nullopt;
}

std::shared_ptr<StoredObject> MakeObject(const Kind& kind, Json json, std::uint64_t revision) {
  auto object = std::make_shared<StoredObject>();
  object->kind = &kind;
  Json& metadata = json["metadata"];
  ReadMetadata(*object, metadata);
  for (const auto field : kind.selectable)
    object->fields.emplace_back(field, SelectedValue(json, field));
  metadata["resourceVersion"] = Placeholder();
  object->json = api::DumpJson(json);
  object->version_at = object->json.find(Placeholder());
  object->version_size = Placeholder().size();
  CHECK(object->version_at != std::string::npos, "a version has its place");
  SetRevision(*object, revision);
  return object;
}

void SetRevision(StoredObject& object, std::uint64_t revision) {
  const std::string digits = std::to_string(revision);
  object.json.replace(object.version_at, object.version_size, digits);
  object.version_size = digits.size();
  object.revision = revision;
}

}  // namespace paddleop::standalone::apiserver
