#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/internal/kind_rules.h"
#include "standalone/apiserver/internal/names.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

void CheckOneOf(const Json& object, const char* field, const std::string& path,
                const std::vector<std::string_view>& words, std::vector<Cause>& out) {
  const std::string text = TextAt(object, field);
  if (!text.empty() && std::find(words.begin(), words.end(), text) == words.end()) {
    out.push_back(NotSupportedValue(path + "." + field, text, words));
  }
}

void CheckPorts(const Json& container, const std::string& path, std::vector<Cause>& out) {
  const Json& ports = ListAt(container, "ports");
  for (std::size_t i = 0; i < ports.size(); ++i) {
    for (const char* field : {"containerPort", "hostPort"}) {
      const Json* port = ValueAt(ports[i], field);
      if (port == nullptr || (field[0] == 'h' && *port == 0)) continue;
      if (*port < 1 || *port > 65535) {
        out.push_back(InvalidValue(fmt::format("{}.ports[{}].{}", path, i, field), port->dump(),
                                   "must be between 1 and 65535, inclusive"));
      }
    }
    CheckOneOf(ports[i], "protocol", fmt::format("{}.ports[{}]", path, i), {"SCTP", "TCP", "UDP"},
               out);
  }
}

void CheckEnvironment(const Json& container, const std::string& path, std::vector<Cause>& out) {
  const Json& env = ListAt(container, "env");
  for (std::size_t i = 0; i < env.size(); ++i) {
    const std::string at = fmt::format("{}.env[{}]", path, i);
    const std::string name = TextAt(env[i], "name");
    if (env[i].contains("name") && name.empty()) out.push_back(Required(at + ".name"));
    if (name.find('=') != std::string::npos) {
      out.push_back(InvalidValue(at + ".name", Quoted(name),
                                 "a valid environment variable name must consist only of printable "
                                 "ASCII characters other than '='"));
    }
    if (!TextAt(env[i], "value").empty() && env[i].contains("valueFrom")) {
      out.push_back(InvalidValue(at + ".valueFrom", "\"\"",
                                 "may not be specified when `value` is not empty"));
    }
  }
}

void CheckMounts(const Json& container, const std::string& path,
                 const std::set<std::string>& volumes, std::vector<Cause>& out) {
  std::set<std::string> paths;
  const Json& mounts = ListAt(container, "volumeMounts");
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const std::string at = fmt::format("{}.volumeMounts[{}]", path, i);
    const std::string name = TextAt(mounts[i], "name");
    if (!volumes.contains(name)) {
      out.push_back(
          {"FieldValueNotFound", fmt::format("Not found: {}", Quoted(name)), at + ".name"});
    }
    const std::string mount = TextAt(mounts[i], "mountPath");
    if (mount.empty()) {
      out.push_back(Required(at + ".mountPath"));
    } else if (!paths.insert(mount).second) {
      out.push_back(InvalidValue(at + ".mountPath", Quoted(mount), "must be unique"));
    }
  }
}

void CheckContainers(const Json& spec, const char* list, const std::string& path,
                     const std::set<std::string>& volumes, std::set<std::string>& names,
                     std::vector<Cause>& out) {
  const Json& containers = ListAt(spec, list);
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const Json& container = containers[i];
    if (!container.is_object()) continue;
    const std::string at = fmt::format("{}.{}[{}]", path, list, i);
    const std::string name = TextAt(container, "name");
    if (name.empty()) {
      if (container.contains("name")) out.push_back(Required(at + ".name"));
    } else if (const auto wrong = WrongLabelName(name)) {
      out.push_back(InvalidValue(at + ".name", Quoted(name), *wrong));
    } else if (!names.insert(name).second) {
      out.push_back(DuplicateValue(at + ".name", Quoted(name)));
    }
    if (TextAt(container, "image").empty()) out.push_back(Required(at + ".image"));
    CheckOneOf(container, "imagePullPolicy", at, {"Always", "IfNotPresent", "Never"}, out);
    CheckPorts(container, at, out);
    CheckEnvironment(container, at, out);
    CheckMounts(container, at, volumes, out);
  }
}

std::set<std::string> CheckVolumes(const Json& spec, const std::string& path,
                                   std::vector<Cause>& out) {
  std::set<std::string> names;
  const Json& volumes = ListAt(spec, "volumes");
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const std::string at = fmt::format("{}.volumes[{}]", path, i);
    const std::string name = TextAt(volumes[i], "name");
    if (name.empty()) {
      if (volumes[i].contains("name")) out.push_back(Required(at + ".name"));
    } else if (const auto wrong = WrongLabelName(name)) {
      out.push_back(InvalidValue(at + ".name", Quoted(name), *wrong));
    } else if (!names.insert(name).second) {
      out.push_back(DuplicateValue(at + ".name", Quoted(name)));
    }
    if (volumes[i].is_object() && volumes[i].size() > 2) {
      out.push_back(ForbiddenField(at, "may not specify more than 1 volume type"));
    }
  }
  return names;
}

// The spec without what may change.
Json Fixed(Json spec, const Json& before) {
  for (const char* list : {"containers", "initContainers"}) {
    if (!spec.contains(list) || !before.contains(list)) continue;
    for (std::size_t i = 0; i < spec[list].size() && i < before[list].size(); ++i) {
      if (spec[list][i].is_object()) spec[list][i]["image"] = before[list][i].value("image", "");
    }
  }
  for (const char* field :
       {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"}) {
    spec.erase(field);
  }
  return spec;
}

}  // namespace

void CheckPodSpec(const Json& spec, const std::string& path, std::vector<Cause>& out) {
  const auto volumes = CheckVolumes(spec, path, out);
  std::set<std::string> names;
  if (spec.contains("containers") && ListAt(spec, "containers").empty()) {
    out.push_back(Required(path + ".containers"));
  }
  CheckContainers(spec, "containers", path, volumes, names, out);
  CheckContainers(spec, "initContainers", path, volumes, names, out);
  CheckOneOf(spec, "restartPolicy", path, {"Always", "OnFailure", "Never"}, out);
  CheckOneOf(spec, "dnsPolicy", path,
             {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"}, out);
  if (NumberAt(spec, "terminationGracePeriodSeconds") < 0) {
    out.push_back(InvalidValue(path + ".terminationGracePeriodSeconds",
                               spec["terminationGracePeriodSeconds"].dump(),
                               "must be greater than or equal to 0"));
  }
}

void CheckPodUpdate(const Json& before, const Json& after, std::vector<Cause>& out) {
  const Json* old_spec = ValueAt(before, "spec");
  const Json* new_spec = ValueAt(after, "spec");
  if (old_spec == nullptr || new_spec == nullptr) return;
  if (Fixed(*old_spec, *old_spec) != Fixed(*new_spec, *old_spec)) {
    out.push_back(ForbiddenField(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
        "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
        "set "
        "to 1 if it was previously negative)"));
  }
}

}  // namespace paddleop::standalone::apiserver
