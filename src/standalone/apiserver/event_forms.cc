#include "standalone/apiserver/event_forms.h"

#include <nlohmann/json.hpp>

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

struct Names {
  const char* core;
  const char* events;
};

// k8s.io/kubernetes/pkg/apis/events/v1/conversion.go
constexpr Names kEventNames[] = {{"message", "note"},
                                 {"involvedObject", "regarding"},
                                 {"source", "deprecatedSource"},
                                 {"firstTimestamp", "deprecatedFirstTimestamp"},
                                 {"lastTimestamp", "deprecatedLastTimestamp"},
                                 {"count", "deprecatedCount"},
                                 {"reportingComponent", "reportingController"}};

void Rename(Json& object, const char* from, const char* to) {
  const auto found = object.find(from);
  if (found == object.end()) return;
  Json value = std::move(*found);
  object.erase(found);
  object[to] = std::move(value);
}

}  // namespace

Json ToStored(const Kind& kind, Json object) {
  if (!kind.other_form()) return object;
  for (const Names& names : kEventNames) Rename(object, names.events, names.core);
  object["apiVersion"] = StoredKind(kind).type.ApiVersion();
  return object;
}

Json FromStored(const Kind& kind, Json object) {
  if (!kind.other_form()) return object;
  for (const Names& names : kEventNames) Rename(object, names.core, names.events);
  object["apiVersion"] = kind.type.ApiVersion();
  return object;
}

std::shared_ptr<const StoredObject> ShownAs(const Kind& kind, const StoredObject& object) {
  return MakeObject(kind, FromStored(kind, Json::parse(object.json)), object.revision);
}

ObjectPtr ShownAs(const Kind& kind, ObjectPtr object) {
  if (object == nullptr || object->kind == &kind) return object;
  return ShownAs(kind, *object);
}

}  // namespace paddleop::standalone::apiserver
