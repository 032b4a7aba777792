#include "standalone/apiserver/internal/printers.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/check.h"
#include "standalone/apiserver/internal/json_path.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;
using Cells = std::vector<Json>;

std::size_t SizeAt(const Json& object, std::string_view path) {
  const Json* value = ValueAt(object, path);
  return value == nullptr ? 0 : value->size();
}

std::string Name(const Json& object) { return TextAt(object, "metadata.name"); }

std::string Text(const Json* value) {
  if (value == nullptr) return "";
  return value->is_string() ? value->get<std::string>() : value->dump();
}

Cells ConfigMapCells(const Json& o, WallTime now) {
  return {Name(o), SizeAt(o, "data") + SizeAt(o, "binaryData"), AgeOf(o, now)};
}

Cells SecretCells(const Json& o, WallTime now) {
  return {Name(o), TextAt(o, "type"), SizeAt(o, "data"), AgeOf(o, now)};
}

Cells NamespaceCells(const Json& o, WallTime now) {
  return {Name(o), TextAt(o, "status.phase"), AgeOf(o, now)};
}

Cells AccountCells(const Json& o, WallTime now) {
  return {Name(o), ListAt(o, "secrets").size(), AgeOf(o, now)};
}

Cells LeaseCells(const Json& o, WallTime now) {
  return {Name(o), TextAt(o, "spec.holderIdentity"), AgeOf(o, now)};
}

Cells DefinitionCells(const Json& o, WallTime) {
  return {Name(o), TextAt(o, "metadata.creationTimestamp")};
}

Cells EventCells(const Json& o, WallTime now) {
  const std::string event_time = TextAt(o, "eventTime");
  const std::string first_time = TextAt(o, "firstTimestamp");
  const std::string last_time = TextAt(o, "lastTimestamp");
  const std::string first = Since(first_time.empty() ? event_time : first_time, now);
  std::string last = last_time.empty() ? first : Since(last_time, now);
  const auto count = NumberAt(o, "count");
  std::string source = TextAt(o, "source.component");
  if (source.empty()) source = TextAt(o, "reportingComponent");
  std::string host = TextAt(o, "source.host");
  if (host.empty()) host = TextAt(o, "reportingInstance");
  if (!host.empty()) source += ", " + host;
  std::string kind = TextAt(o, "involvedObject.kind");
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string message = TextAt(o, "message");
  while (!message.empty() && std::isspace(static_cast<unsigned char>(message.back())) != 0) {
    message.pop_back();
  }
  return {last,
          TextAt(o, "type"),
          TextAt(o, "reason"),
          fmt::format("{}/{}", kind, TextAt(o, "involvedObject.name")),
          TextAt(o, "involvedObject.fieldPath"),
          source,
          message,
          first,
          std::max<std::int64_t>(count, 1),
          Name(o)};
}

std::string NodeAddress(const Json& o, std::string_view type) {
  for (const Json& address : ListAt(o, "status.addresses")) {
    if (TextAt(address, "type") == type) return TextAt(address, "address");
  }
  return "<none>";
}

Cells NodeCells(const Json& o, WallTime now) {
  std::string status = "Unknown";
  for (const Json& condition : ListAt(o, "status.conditions")) {
    if (TextAt(condition, "type") == "Ready") {
      status = TextAt(condition, "status") == "True" ? "Ready" : "NotReady";
    }
  }
  if (FlagAt(o, "spec.unschedulable")) status += ",SchedulingDisabled";
  std::vector<std::string> roles;
  if (const Json* labels = ValueAt(o, "metadata.labels")) {
    constexpr std::string_view kPrefix = "node-role.kubernetes.io/";
    for (const auto& [key, value] : labels->items()) {
      if (key.starts_with(kPrefix)) roles.push_back(key.substr(kPrefix.size()));
      if (key == "kubernetes.io/role" && value.is_string()) roles.push_back(value);
    }
  }
  const auto known = [&](std::string_view path) {
    const std::string text = TextAt(o, path);
    return text.empty() ? std::string("<unknown>") : text;
  };
  return {Name(o),
          status,
          OrNone(fmt::format("{}", fmt::join(roles, ","))),
          AgeOf(o, now),
          TextAt(o, "status.nodeInfo.kubeletVersion"),
          NodeAddress(o, "InternalIP"),
          NodeAddress(o, "ExternalIP"),
          known("status.nodeInfo.osImage"),
          known("status.nodeInfo.kernelVersion"),
          known("status.nodeInfo.containerRuntimeVersion")};
}

std::string AccessModes(const Json& modes) {
  std::vector<std::string> out;
  for (const auto& [word, letters] :
       {std::pair{"ReadWriteOnce", "RWO"}, std::pair{"ReadOnlyMany", "ROX"},
        std::pair{"ReadWriteMany", "RWX"}, std::pair{"ReadWriteOncePod", "RWOP"}}) {
    if (std::find(modes.begin(), modes.end(), word) != modes.end()) out.emplace_back(letters);
  }
  return fmt::format("{}", fmt::join(out, ","));
}

std::string PhaseOf(const Json& o) {
  return ValueAt(o, "metadata.deletionTimestamp") != nullptr ? "Terminating"
                                                             : TextAt(o, "status.phase");
}

Cells ClaimCells(const Json& o, WallTime now) {
  const std::string volume = TextAt(o, "spec.volumeName");
  return {Name(o),
          PhaseOf(o),
          volume,
          volume.empty() ? "" : Text(ValueAt(o, "status.capacity.storage")),
          volume.empty() ? "" : AccessModes(ListAt(o, "status.accessModes")),
          TextAt(o, "spec.storageClassName"),
          "<unset>",
          AgeOf(o, now),
          TextAt(o, "spec.volumeMode")};
}

Cells VolumeCells(const Json& o, WallTime now) {
  std::string claim;
  if (ValueAt(o, "spec.claimRef") != nullptr) {
    claim = TextAt(o, "spec.claimRef.namespace") + "/" + TextAt(o, "spec.claimRef.name");
  }
  return {Name(o),
          Text(ValueAt(o, "spec.capacity.storage")),
          AccessModes(ListAt(o, "spec.accessModes")),
          TextAt(o, "spec.persistentVolumeReclaimPolicy"),
          PhaseOf(o),
          claim,
          TextAt(o, "spec.storageClassName"),
          "<unset>",
          TextAt(o, "status.reason"),
          AgeOf(o, now),
          TextAt(o, "spec.volumeMode")};
}

std::string Pairs(const Json* map) {
  std::vector<std::string> out;
  if (map != nullptr && map->is_object()) {
    for (const auto& [key, value] : map->items()) out.push_back(key + "=" + Text(&value));
  }
  return OrNone(fmt::format("{}", fmt::join(out, ",")));
}

Cells ServiceCells(const Json& o, WallTime now) {
  std::vector<std::string> ports;
  for (const Json& port : ListAt(o, "spec.ports")) {
    ports.push_back(fmt::format("{}/{}", NumberAt(port, "port"), TextAt(port, "protocol")));
  }
  return {Name(o),
          TextAt(o, "spec.type"),
          OrNone(TextAt(o, "spec.clusterIP")),
          "<none>",
          OrNone(fmt::format("{}", fmt::join(ports, ","))),
          AgeOf(o, now),
          Pairs(ValueAt(o, "spec.selector"))};
}

Cells StatefulSetCells(const Json& o, WallTime now) {
  std::vector<std::string> names;
  std::vector<std::string> images;
  for (const Json& container : ListAt(o, "spec.template.spec.containers")) {
    names.push_back(TextAt(container, "name"));
    images.push_back(TextAt(container, "image"));
  }
  return {Name(o),
          fmt::format("{}/{}", NumberAt(o, "status.readyReplicas"), NumberAt(o, "spec.replicas")),
          AgeOf(o, now), fmt::format("{}", fmt::join(names, ",")),
          fmt::format("{}", fmt::join(images, ","))};
}

// Names with '*' in front are printed in wide output only.
std::vector<Column> Columns(std::initializer_list<const char*> names) {
  std::vector<Column> out;
  for (std::string name : names) {
    const bool wide = name[0] == '*';
    if (wide) name.erase(0, 1);
    out.push_back({name, "string", name == "Name" ? "name" : "", wide ? 1 : 0});
  }
  return out;
}

std::map<std::string_view, Printer> MakePrinters() {
  std::map<std::string_view, Printer> all;
  all["ConfigMap"] = {Columns({"Name", "Data", "Age"}), ConfigMapCells};
  all["Secret"] = {Columns({"Name", "Type", "Data", "Age"}), SecretCells};
  all["Namespace"] = {Columns({"Name", "Status", "Age"}), NamespaceCells};
  all["ServiceAccount"] = {Columns({"Name", "Secrets", "Age"}), AccountCells};
  all["Lease"] = {Columns({"Name", "Holder", "Age"}), LeaseCells};
  all["CustomResourceDefinition"] = {Columns({"Name", "Created At"}), DefinitionCells};
  all["CustomResourceDefinition"].columns[1].type = "date";
  all["Event"] = {Columns({"Last Seen", "Type", "Reason", "Object", "*Subobject", "*Source",
                           "Message", "*First Seen", "*Count", "*Name"}),
                  EventCells};
  all["Node"] = {Columns({"Name", "Status", "Roles", "Age", "Version", "*Internal-IP",
                          "*External-IP", "*OS-Image", "*Kernel-Version", "*Container-Runtime"}),
                 NodeCells};
  all["PersistentVolumeClaim"] = {
      Columns({"Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass",
               "VolumeAttributesClass", "Age", "*VolumeMode"}),
      ClaimCells};
  all["PersistentVolume"] = {
      Columns({"Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim",
               "StorageClass", "VolumeAttributesClass", "Reason", "Age", "*VolumeMode"}),
      VolumeCells};
  all["Service"] = {
      Columns({"Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "*Selector"}),
      ServiceCells};
  all["StatefulSet"] = {Columns({"Name", "Ready", "Age", "*Containers", "*Images"}),
                        StatefulSetCells};
  all["Pod"] = {Columns({"Name", "Ready", "Status", "Restarts", "Age", "*IP", "*Node",
                         "*Nominated Node", "*Readiness Gates"}),
                PodCells};
  return all;
}

}  // namespace

const Printer& PrinterOf(const Kind& kind) {
  static const auto kAll = MakePrinters();
  const auto found = kAll.find(kind.type.kind);
  CHECK(found != kAll.end(), "no printer of {}", kind.type.kind);
  return found->second;
}

}  // namespace paddleop::standalone::apiserver
