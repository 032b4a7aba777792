#include "controllers/common/child.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace paddleop::controllers {

api::Json OwnerReferences(const api::ResourceType& type, const api::ObjectMeta& owner) {
  return api::Json::array({api::ToJson(api::ControllerOf(type, owner))});
}

api::Json ChildMetadata(const api::ResourceType& type, const api::ObjectMeta& owner,
                        const std::string& name, const api::StringMap& labels) {
  api::Json metadata = {
      {"name", name}, {"namespace", owner.ns}, {"ownerReferences", OwnerReferences(type, owner)}};
  for (const auto& [key, value] : labels) metadata["labels"][key] = value;
  return metadata;
}

bool IsControlledBy(const api::ObjectMeta& object, const api::ObjectMeta& owner) {
  const api::OwnerReference* controller = object.Controller();
  return controller != nullptr && controller->uid == owner.uid;
}

std::string JoinNames(const std::vector<std::string>& names, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) out += fmt::format(" and {} more", names.size() - most);
  return out;
}

}  // namespace paddleop::controllers
