// What the server itself changes, and schedulers through it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/objects.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr int kMaxChangeTries = 50;

}  // namespace

Answer<ObjectPtr> Objects::Change(const Kind& kind, const api::ObjectKey& key,
                                  const std::function<bool(Json&)>& change) {
  for (int tries = 1;; ++tries) {
    ObjectPtr before = store_.Latest(kind, key);
    if (before == nullptr) return NotFound(kind, key.name);
    Json object = Json::parse(before->json);
    if (!change(object)) return before;
    auto written = Replace(kind, before, std::move(object), false);
    if (written || written.error().code != 409 || tries >= kMaxChangeTries) return written;
  }
}

Answer<ObjectPtr> Objects::RemoveNamespace(const ObjectPtr& space) {
  auto removed = store_.Remove(space);
  if (removed) return *std::move(removed);
  return ModifiedMeanwhile(*space->kind, space->name);
}

Answer<ObjectPtr> Objects::Bind(const api::ObjectKey& key, const std::string& node,
                                const std::string& uid) {
  const Kind& pods = CoreKind("Pod");
  std::string refused;
  auto bound = Change(pods, key, [&](Json& pod) {
    refused.clear();
    if (!uid.empty() && uid != TextAt(pod, "metadata.uid")) {
      refused = "the pod has another UID";
    } else if (pod["metadata"].contains("deletionTimestamp")) {
      refused = fmt::format("pod {} is being deleted, cannot be assigned to a host", key.name);
    } else if (const std::string has = TextAt(pod, "spec.nodeName"); !has.empty()) {
      refused = fmt::format("pod {} is already assigned to node {}", key.name, Quoted(has));
    }
    if (!refused.empty()) return false;
    pod["spec"]["nodeName"] = node;
    Json& conditions = pod["status"]["conditions"];
    Json kept = Json::array();
    for (const Json& condition : conditions.is_array() ? conditions : Json::array()) {
      if (TextAt(condition, "type") != "PodScheduled") kept.push_back(condition);
    }
    // Nothing that is null: the next one to write this pod would take it out, and have changed it.
    kept.push_back({{"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", Now()}});
    conditions = std::move(kept);
    return true;
  });
  if (bound && !refused.empty()) return Conflict(pods, key.name, refused);
  return bound;
}

}  // namespace paddleop::standalone::apiserver
