// Which PersistentVolume a claim gets. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "api/meta/selector.h"

namespace paddleop::standalone::node {

struct VolumeView {
  api::PersistentVolume volume;
  std::vector<std::string> access_modes;
  std::string capacity;
  std::string reclaim_policy;

  static Result<VolumeView> Parse(std::string_view json);
};

struct ClaimView {
  api::PersistentVolumeClaim claim;
  std::vector<std::string> access_modes;
  std::string request;
  api::LabelSelector selector;

  static Result<ClaimView> Parse(std::string_view json);
};

// The volume for the claim: the one it names, the one that names it, or the smallest free one that
// fits. nullptr and a reason if there is none now.
const VolumeView* ChooseVolume(const ClaimView& claim,
                               const std::vector<std::shared_ptr<const VolumeView>>& volumes,
                               std::string* why_not);

}  // namespace paddleop::standalone::node
