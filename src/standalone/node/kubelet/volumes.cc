#include "standalone/node/kubelet/volumes.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/meta/quantity.h"
#include "base/posix.h"
#include "standalone/node/json_child.h"

namespace paddleop::standalone::node {
namespace {

namespace fs = std::filesystem;
using api::Json;

constexpr mode_t kDefaultMode = 0644;

// Inside the volume, whatever it says?
bool StaysInside(std::string_view path) {
  if (path.empty() || path.front() == '/') return false;
  for (const fs::path& part : fs::path(path)) {
    if (part == "..") return false;
  }
  return true;
}

Result<void> PutFile(const std::string& directory, const std::string& name,
                     const std::string& content, mode_t mode) {
  if (!StaysInside(name)) return Fail(Code::kInvalid, "path {} leaves the volume", name);
  const std::string path = directory + "/" + name;
  const auto old = ReadFile(path);
  if (old && *old == content) return {};
  RETURN_IF_ERROR(MakeDirectories(fs::path(path).parent_path().string()));
  RETURN_IF_ERROR(WriteFileAtomic(path, content, mode));
  if (::chmod(path.c_str(), mode) != 0) return ErrnoFail("set the mode of {}", path);
  return {};
}

// The keys of a ConfigMap or Secret as files: all of them, or the listed ones under their paths.
Result<void> PutData(const api::StringMap& data, const Json& source, const std::string& what,
                     const std::string& directory) {
  const bool optional = source.value("optional", false);
  const auto mode = static_cast<mode_t>(source.value("defaultMode", int{kDefaultMode}));
  const Json& items = Child(source, "items");
  if (!items.is_array() || items.empty()) {
    for (const auto& [key, value] : data) RETURN_IF_ERROR(PutFile(directory, key, value, mode));
    return {};
  }
  for (const Json& item : items) {
    const auto found = data.find(item.value("key", ""));
    if (found == data.end()) {
      if (optional) continue;
      return Fail(Code::kNotFound, "{} has no key {}", what, item.value("key", ""));
    }
    RETURN_IF_ERROR(PutFile(directory, item.value("path", ""), found->second,
                            static_cast<mode_t>(item.value("mode", static_cast<int>(mode)))));
  }
  return {};
}

Result<void> PutDownward(const PodSpec& pod, const NodeFacts& facts, const Json& source,
                         const std::string& directory) {
  const auto mode = static_cast<mode_t>(source.value("defaultMode", int{kDefaultMode}));
  for (const Json& item : Child(source, "items")) {
    std::string value;
    if (const Json& field = Child(item, "fieldRef"); field.is_object()) {
      ASSIGN_OR_RETURN(value, FieldValue(pod, facts, field.value("fieldPath", "")));
    } else if (const Json& resource = Child(item, "resourceFieldRef"); resource.is_object()) {
      for (const ContainerSpec& container : pod.containers) {
        if (container.name != resource.value("containerName", "")) continue;
        ASSIGN_OR_RETURN(value, ResourceValue(container, resource.value("resource", ""),
                                              resource.value("divisor", "")));
      }
    }
    RETURN_IF_ERROR(PutFile(directory, item.value("path", ""), value, mode));
  }
  return {};
}

Result<HostVolume> HostPath(const Json& source, const std::string& own_root) {
  const std::string type = source.value("type", "");
  std::string path = source.value("path", "");
  if (type == "DirectoryOrCreate") path = own_root + path;
  std::error_code error;
  if (type == "DirectoryOrCreate") RETURN_IF_ERROR(MakeDirectories(path));
  if (type == "FileOrCreate" && !fs::exists(path, error)) {
    RETURN_IF_ERROR(WriteFileAtomic(path, "", kDefaultMode));
  }
  if (!fs::exists(path, error)) {
    return Fail(Code::kNotFound, "hostPath {} does not exist on this machine", path);
  }
  if ((type == "Directory" || type == "DirectoryOrCreate") && !fs::is_directory(path, error)) {
    return Fail(Code::kInvalid, "hostPath {} is not a directory", path);
  }
  return HostVolume{path, false};
}

Result<HostVolume> EmptyDir(const Json& source, const std::string& path, bool may_mount) {
  const bool there = ::access(path.c_str(), F_OK) == 0;
  RETURN_IF_ERROR(MakeDirectories(path, 0777));
  if (there || !may_mount || source.value("medium", "") != "Memory") {
    ::chmod(path.c_str(), 0777);
    return HostVolume{path, false};
  }
  std::string options = "mode=1777";
  if (const auto size = api::Quantity::Parse(source.value("sizeLimit", "")))
    options += fmt::format(",size={}", size->ToInteger());
  if (::mount("tmpfs", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    ::rmdir(path.c_str());
    return ErrnoFail("mount memory at {}", path);
  }
  return HostVolume{path, false};
}

}  // namespace

Result<void> Volumes::Fill(const Context& ctx, const PodSpec& pod, const NodeFacts& facts,
                           const std::string& kind, const Json& source, const std::string& path) {
  if (kind == "downwardAPI") return PutDownward(pod, facts, source, path);
  const bool optional = source.value("optional", false);
  if (kind == "configMap") {
    const std::string name = source.value("name", "");
    auto map = config_.GetConfigMap(ctx, {pod.metadata.ns, name});
    if (!map && IsNotFound(map.error())) {
      if (optional) return {};
      return Fail(Code::kNotFound, "configmap \"{}\" not found", name);
    }
    if (!map) return std::unexpected(std::move(map).error());
    return PutData(map->data, source, "configmap " + name, path);
  }
  const std::string name = source.value("secretName", source.value("name", ""));
  auto secret = config_.GetSecret(ctx, {pod.metadata.ns, name});
  if (!secret && IsNotFound(secret.error())) {
    if (optional) return {};
    return Fail(Code::kNotFound, "secret \"{}\" not found", name);
  }
  if (!secret) return std::unexpected(std::move(secret).error());
  api::StringMap data;
  for (const auto& [key, value] : secret->data) data[key] = value.Reveal();
  return PutData(data, source, "secret " + name, path);
}

Result<HostVolume> Volumes::Make(const Context& ctx, const PodSpec& pod, const NodeFacts& facts,
                                 const VolumeSpec& volume, const std::string& path) {
  ASSIGN_OR_RETURN(const Json source, api::ParseJson(volume.source.text));
  if (volume.kind.empty() || volume.kind == "emptyDir")
    return EmptyDir(source, path, options_.may_mount);
  if (volume.kind == "hostPath") {
    const std::string& root = options_.logical_root;
    return HostPath(source, root.empty() ? "" : root + "/" + pod.node_name);
  }
  if (volume.kind == "persistentVolumeClaim") {
    const std::string claim = source.value("claimName", "");
    if (claims_ == nullptr)
      return Fail(Code::kNotSupported, "persistentVolumeClaim {}: mounting needs root", claim);
    return claims_->Mount(ctx, pod, claim, source.value("readOnly", false));
  }
  RETURN_IF_ERROR(MakeDirectories(path));
  if (volume.kind == "configMap" || volume.kind == "secret" || volume.kind == "downwardAPI") {
    RETURN_IF_ERROR(Fill(ctx, pod, facts, volume.kind, source, path));
    return HostVolume{path, false};
  }
  if (volume.kind != "projected") {
    return Fail(Code::kNotSupported, "volumes of kind {} are not supported by this node",
                volume.kind);
  }
  // The API server adds such a volume to every pod, for the API's address and identity. A process
  // of this machine does without them: what is missing is left out.
  const bool api_access = volume.name.starts_with("kube-api-access");
  for (const Json& part : Child(source, "sources")) {
    for (const auto& [kind, value] : part.items()) {
      if (kind == "serviceAccountToken" && api_access) continue;
      if (kind != "configMap" && kind != "secret" && kind != "downwardAPI") {
        return Fail(Code::kNotSupported, "projected volumes with {} are not supported", kind);
      }
      Json part_source = value;
      if (!part_source.contains("defaultMode") && source.contains("defaultMode"))
        part_source["defaultMode"] = source["defaultMode"];
      auto filled = Fill(ctx, pod, facts, kind, part_source, path);
      if (!filled && !(api_access && IsNotFound(filled.error()))) {
        return std::unexpected(std::move(filled).error());
      }
    }
  }
  return HostVolume{path, true};
}

Result<HostVolumes> Volumes::Prepare(const Context& ctx, const PodSpec& pod, const NodeFacts& facts,
                                     const std::string& directory) {
  HostVolumes out;
  for (const VolumeSpec& volume : pod.volumes) {
    auto made = Make(ctx, pod, facts, volume, directory + "/" + volume.name);
    if (!made) {
      return std::unexpected(std::move(made).error().Wrap(
          fmt::format("MountVolume.SetUp failed for volume \"{}\"", volume.name)));
    }
    out.emplace(volume.name, *std::move(made));
  }
  return out;
}

void Volumes::Unmount(const Context& ctx, const std::string& pod_uid,
                      const std::string& directory) {
  if (claims_ != nullptr) claims_->Release(ctx, pod_uid);
  if (!options_.may_mount) return;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    // One that was in memory must be mounted again by the next agent.
    if (::umount2(entry.path().c_str(), MNT_DETACH) == 0) ::rmdir(entry.path().c_str());
  }
}

void Volumes::Remove(const Context& ctx, const std::string& pod_uid, const std::string& directory) {
  Unmount(ctx, pod_uid, directory);
  std::error_code error;
  fs::remove_all(directory, error);
}

Result<std::vector<BindMount>> MountsOf(const ContainerSpec& container,
                                        const HostVolumes& volumes) {
  std::vector<BindMount> out;
  for (const VolumeMount& mount : container.mounts) {
    const auto found = volumes.find(mount.volume);
    if (found == volumes.end()) {
      return Fail(Code::kInvalid, "volumeMounts: there is no volume {}", mount.volume);
    }
    std::string source = found->second.path;
    if (!mount.sub_path.empty()) {
      if (!StaysInside(mount.sub_path))
        return Fail(Code::kInvalid, "subPath {} leaves its volume", mount.sub_path);
      source += "/" + mount.sub_path;
      std::error_code error;
      if (!fs::exists(source, error)) RETURN_IF_ERROR(MakeDirectories(source));
    }
    out.push_back({source, fs::path(mount.path).lexically_normal().string(),
                   mount.read_only || found->second.read_only});
  }
  for (BindMount& mount : out) {
    if (mount.target.size() > 1 && mount.target.back() == '/') mount.target.pop_back();
  }
  return out;
}

}  // namespace paddleop::standalone::node
