#include "standalone/node/builtin/volume_binding.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/meta/quantity.h"

namespace paddleop::standalone::node {
namespace {

using api::Json;

Json At(const Json& json, const char* pointer) {
  return json.value(Json::json_pointer(pointer), Json());
}

std::string TextAt(const Json& json, const char* pointer) {
  const Json value = At(json, pointer);
  return value.is_string() ? value.get<std::string>() : (value.is_null() ? "" : value.dump());
}

std::vector<std::string> Modes(const Json& json) {
  std::vector<std::string> out;
  for (const Json& mode : At(json, "/spec/accessModes")) {
    if (mode.is_string()) out.push_back(mode.get<std::string>());
  }
  return out;
}

api::Quantity Amount(const std::string& text) {
  const auto parsed = api::Quantity::Parse(text);
  return parsed ? *parsed : api::Quantity();
}

bool IsFor(const VolumeView& volume, const ClaimView& claim) {
  const api::ObjectReference& ref = volume.volume.claim;
  return ref.name == claim.claim.metadata.name && ref.ns == claim.claim.metadata.ns &&
         (ref.uid.empty() || ref.uid == claim.claim.metadata.uid);
}

bool Fits(const VolumeView& volume, const ClaimView& claim) {
  return volume.volume.storage_class == claim.claim.storage_class &&
         Amount(volume.capacity) >= Amount(claim.request) &&
         std::all_of(claim.access_modes.begin(), claim.access_modes.end(),
                     [&](const std::string& mode) {
                       return std::find(volume.access_modes.begin(), volume.access_modes.end(),
                                        mode) != volume.access_modes.end();
                     }) &&
         claim.selector.Matches(volume.volume.metadata.labels);
}

}  // namespace

Result<VolumeView> VolumeView::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, api::ParseJson(text));
  VolumeView out;
  ASSIGN_OR_RETURN(out.volume, api::PersistentVolume::FromJson(json));
  out.access_modes = Modes(json);
  out.capacity = TextAt(json, "/spec/capacity/storage");
  out.reclaim_policy = TextAt(json, "/spec/persistentVolumeReclaimPolicy");
  return out;
}

Result<ClaimView> ClaimView::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, api::ParseJson(text));
  ClaimView out;
  ASSIGN_OR_RETURN(out.claim, api::PersistentVolumeClaim::FromJson(json));
  out.access_modes = Modes(json);
  out.request = TextAt(json, "/spec/resources/requests/storage");
  if (const Json selector = At(json, "/spec/selector"); selector.is_object()) {
    ASSIGN_OR_RETURN(out.selector, api::LabelSelectorFromJson(selector));
  }
  return out;
}

const VolumeView* ChooseVolume(const ClaimView& claim,
                               const std::vector<std::shared_ptr<const VolumeView>>& volumes,
                               std::string* why_not) {
  const VolumeView* best = nullptr;
  for (const auto& each : volumes) {
    const bool named = each->volume.metadata.name == claim.claim.volume_name;
    if (!claim.claim.volume_name.empty() && !named) continue;
    if (each->volume.metadata.Deleting()) continue;
    if (IsFor(*each, claim)) return each.get();
    if (!each->volume.claim.name.empty()) {
      if (named) {
        *why_not = fmt::format("volume \"{}\" already bound to a different claim.",
                               claim.claim.volume_name);
      }
      continue;
    }
    if (!Fits(*each, claim)) {
      if (named) {
        *why_not = fmt::format(
            "Cannot bind to requested volume \"{}\": its size, access modes or class do not match",
            claim.claim.volume_name);
      }
      continue;
    }
    if (best == nullptr || Amount(each->capacity) < Amount(best->capacity)) best = each.get();
  }
  if (best == nullptr && why_not->empty()) {
    *why_not = claim.claim.volume_name.empty()
                   ? "no persistent volumes available for this claim"
                   : fmt::format("volume \"{}\" does not exist", claim.claim.volume_name);
  }
  return best;
}

}  // namespace paddleop::standalone::node
