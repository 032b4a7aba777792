#include "standalone/apiserver/discovery.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "standalone/apiserver/kinds.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

struct Group {
  std::string name;
  std::vector<std::string> versions;
};

// In the order of the table, so that the preferred version comes first.
std::vector<Group> Groups() {
  std::vector<Group> out;
  for (const Kind& kind : Kinds()) {
    auto at = std::find_if(out.begin(), out.end(),
                           [&](const Group& group) { return group.name == kind.type.group; });
    if (at == out.end()) at = out.insert(out.end(), {std::string(kind.type.group), {}});
    const std::string version(kind.type.version);
    if (std::find(at->versions.begin(), at->versions.end(), version) == at->versions.end()) {
      at->versions.push_back(version);
    }
  }
  return out;
}

std::string GroupVersion(const std::string& group, const std::string& version) {
  return group.empty() ? version : group + "/" + version;
}

Json GroupJson(const Group& group) {
  Json out = {{"name", group.name}, {"versions", Json::array()}};
  for (const auto& version : group.versions) {
    out["versions"].push_back(
        {{"groupVersion", GroupVersion(group.name, version)}, {"version", version}});
  }
  out["preferredVersion"] = out["versions"][0];
  return out;
}

void AddNames(const Kind& kind, Json& out) {
  if (!kind.short_names.empty()) out["shortNames"] = kind.short_names;
  if (!kind.categories.empty()) out["categories"] = kind.categories;
}

std::optional<Json> ResourceList(std::string_view group, std::string_view version) {
  Json resources = Json::array();
  for (const Kind& kind : Kinds()) {
    if (kind.type.group != group || kind.type.version != version) continue;
    Json entry = {{"name", kind.type.plural},
                  {"singularName", kind.singular},
                  {"namespaced", kind.type.namespaced},
                  {"kind", kind.type.kind},
                  {"verbs", kind.Verbs()}};
    AddNames(kind, entry);
    resources.push_back(std::move(entry));
    for (const Subresource& sub : kind.subresources) {
      Json below = {{"name", fmt::format("{}/{}", kind.type.plural, sub.name)},
                    {"singularName", ""},
                    {"namespaced", kind.type.namespaced},
                    {"kind", sub.kind},
                    {"verbs", sub.verbs}};
      if (!sub.version.empty()) {
        below["group"] = sub.group;
        below["version"] = sub.version;
      }
      resources.push_back(std::move(below));
    }
  }
  if (resources.empty()) return std::nullopt;
  return Json{{"kind", "APIResourceList"},
              {"apiVersion", "v1"},
              {"groupVersion", GroupVersion(std::string(group), std::string(version))},
              {"resources", std::move(resources)}};
}

Json AggregatedResources(const std::string& group, const std::string& version) {
  Json resources = Json::array();
  for (const Kind& kind : Kinds()) {
    if (kind.type.group != group || kind.type.version != version) continue;
    Json entry = {
        {"resource", kind.type.plural},
        {"responseKind", {{"group", group}, {"version", version}, {"kind", kind.type.kind}}},
        {"scope", kind.type.namespaced ? "Namespaced" : "Cluster"},
        {"singularResource", kind.singular},
        {"verbs", kind.Verbs()}};
    AddNames(kind, entry);
    for (const Subresource& sub : kind.subresources) {
      entry["subresources"].push_back(
          {{"subresource", sub.name},
           {"responseKind",
            {{"group", sub.version.empty() ? std::string_view(group) : sub.group},
             {"version", sub.version.empty() ? std::string_view(version) : sub.version},
             {"kind", sub.kind}}},
           {"verbs", sub.verbs}});
    }
    resources.push_back(std::move(entry));
  }
  return resources;
}

}  // namespace

std::vector<std::string> GroupVersionPaths() {
  std::vector<std::string> out;
  for (const Group& group : Groups()) {
    for (const auto& version : group.versions) {
      out.push_back(group.name.empty() ? "api/" + version : "apis/" + group.name + "/" + version);
    }
  }
  return out;
}

std::optional<Json> DiscoveryDocument(std::string_view path) {
  if (path == "/api") {
    return Json{{"kind", "APIVersions"},
                {"versions", {"v1"}},
                {"serverAddressByClientCIDRs", Json::array()}};
  }
  if (path == "/apis") {
    Json groups = Json::array();
    for (const Group& group : Groups()) {
      if (!group.name.empty()) groups.push_back(GroupJson(group));
    }
    return Json{{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}};
  }
  if (path.starts_with("/api/")) return ResourceList("", path.substr(5));
  if (!path.starts_with("/apis/")) return std::nullopt;
  path.remove_prefix(6);
  const auto slash = path.find('/');
  if (slash != std::string_view::npos) {
    return ResourceList(path.substr(0, slash), path.substr(slash + 1));
  }
  for (const Group& group : Groups()) {
    if (group.name != path || group.name.empty()) continue;
    Json out = GroupJson(group);
    out["kind"] = "APIGroup";
    out["apiVersion"] = "v1";
    return out;
  }
  return std::nullopt;
}

Json AggregatedDiscovery(bool core) {
  Json items = Json::array();
  for (const Group& group : Groups()) {
    if (group.name.empty() != core) continue;
    Json versions = Json::array();
    for (const auto& version : group.versions) {
      versions.push_back({{"version", version},
                          {"resources", AggregatedResources(group.name, version)},
                          {"freshness", "Current"}});
    }
    Json metadata = {{"creationTimestamp", nullptr}};
    if (!core) metadata["name"] = group.name;
    items.push_back({{"metadata", std::move(metadata)}, {"versions", std::move(versions)}});
  }
  return {{"kind", "APIGroupDiscoveryList"},
          {"apiVersion", "apidiscovery.k8s.io/v2"},
          {"metadata", Json::object()},
          {"items", std::move(items)}};
}

}  // namespace paddleop::standalone::apiserver
