#include "api/meta/object_meta.h"

#include <algorithm>

#include "api/internal/meta_fields.h"

namespace paddleop::api {
namespace {

std::string_view Get(const StringMap& map, std::string_view key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string_view() : std::string_view(it->second);
}

}  // namespace

std::string ObjectKey::ToString() const { return ns.empty() ? name : ns + "/" + name; }

std::string ResourceType::ApiVersion() const {
  return group.empty() ? std::string(version) : fmt::format("{}/{}", group, version);
}

bool ObjectMeta::HasFinalizer(std::string_view finalizer) const {
  return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
}

const OwnerReference* ObjectMeta::Controller() const {
  for (const auto& owner : owner_references) {
    if (owner.controller) return &owner;
  }
  return nullptr;
}

std::string_view ObjectMeta::Label(std::string_view key) const { return Get(labels, key); }
std::string_view ObjectMeta::Annotation(std::string_view key) const {
  return Get(annotations, key);
}

Result<ObjectMeta> ObjectMetaFromJson(const Json& json) {
  return internal::Read<ObjectMeta>(json, "metadata");
}

Json ToJson(const ObjectMeta& meta) { return internal::Write(meta); }
Json ToJson(const OwnerReference& owner) { return internal::Write(owner); }

OwnerReference ControllerOf(const ResourceType& type, const ObjectMeta& owner) {
  return {.api_version = type.ApiVersion(),
          .kind = std::string(type.kind),
          .name = owner.name,
          .uid = owner.uid,
          .controller = true,
          .block_owner_deletion = true};
}

}  // namespace paddleop::api
