#include "standalone/node/kubelet/claims.h"

#include <nlohmann/json.hpp>

#include "base/crypto.h"

namespace paddleop::standalone::node {
namespace {

using api::Json;

std::string TextAt(const Json& json, const char* pointer) {
  const Json value = json.value(Json::json_pointer(pointer), Json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string_view Next(std::string_view& list, char separator) {
  const std::size_t end = list.find(separator);
  const std::string_view item = list.substr(0, end);
  list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  return item;
}

}  // namespace

Result<ClaimSource> ReadClaimSource(std::string_view volume_json) {
  ASSIGN_OR_RETURN(const Json json, api::ParseJson(volume_json));
  ClaimSource out;
  out.volume = TextAt(json, "/metadata/name");
  out.host_path = TextAt(json, "/spec/hostPath/path");
  if (!out.host_path.empty()) return out;
  const std::string driver = TextAt(json, "/spec/csi/driver");
  if (driver != kSampleFsDriver) {
    return Fail(Code::kNotSupported,
                "persistent volume {} is of {}; this node mounts {} and hostPath only", out.volume,
                driver.empty() ? "a kind that needs a server" : "driver " + driver,
                kSampleFsDriver);
  }
  out.options = TextAt(json, "/spec/csi/volumeAttributes/mountOptions");
  out.secret = {TextAt(json, "/spec/csi/nodePublishSecretRef/namespace"),
                TextAt(json, "/spec/csi/nodePublishSecretRef/name")};
  if (out.secret.name.empty()) {
    return Fail(Code::kInvalid, "persistent volume {}: spec.csi.nodePublishSecretRef is missing",
                out.volume);
  }
  return out;
}

std::string WithCachePrefix(std::string_view options, std::string_view prefix) {
  constexpr std::string_view kKey = "cache-dir=";
  std::string out;
  while (!options.empty()) {
    const std::string_view option = Next(options, ',');
    if (!out.empty()) out += ',';
    if (!option.starts_with(kKey)) {
      out += option;
      continue;
    }
    out += kKey;
    std::string_view directories = option.substr(kKey.size());
    for (bool first = true; !directories.empty(); first = false) {
      if (!first) out += ':';
      const std::string_view directory = Next(directories, ':');
      if (directory.starts_with("/")) out += prefix;
      out += directory;
    }
  }
  return out;
}

Result<HostVolume> Claims::Mount(const Context& ctx, const PodSpec& pod, const std::string& claim,
                                 bool read_only) {
  ASSIGN_OR_RETURN(const auto raw_claim,
                   client_.Get(ctx, kube::kPersistentVolumeClaims, {pod.metadata.ns, claim}));
  ASSIGN_OR_RETURN(const Json claim_json, api::ParseJson(raw_claim.json));
  if (TextAt(claim_json, "/status/phase") != "Bound") {
    return Fail(Code::kUnavailable, "persistentvolumeclaim \"{}\" is not bound", claim);
  }
  ASSIGN_OR_RETURN(const auto volume, client_.Get(ctx, kube::kPersistentVolumes,
                                                  {"", TextAt(claim_json, "/spec/volumeName")}));
  ASSIGN_OR_RETURN(const ClaimSource source, ReadClaimSource(volume.json));
  if (!source.host_path.empty()) return HostVolume{source.host_path, read_only};
  ASSIGN_OR_RETURN(const auto raw_secret, client_.Get(ctx, kube::kSecrets, source.secret));
  ASSIGN_OR_RETURN(const Json secret_json, api::ParseJson(raw_secret.json));
  ASSIGN_OR_RETURN(const auto secret, api::SecretObject::FromJson(secret_json));
  const Secret url = secret.Value("metaurl");
  if (url.empty()) {
    return Fail(Code::kInvalid, "secret {} has no key metaurl", source.secret.ToString());
  }
  mounter::MountRequest request;
  // One for each volume, node and mode.
  request.id = HexEncode(Sha256(fmt::format("{}\n{}\n{}", source.volume, pod.node_name, read_only)))
                   .substr(0, 16);
  request.meta_url = url.Reveal();
  request.read_only = read_only;
  request.options = logical_root_.empty()
                        ? source.options
                        : WithCachePrefix(source.options, logical_root_ + "/" + pod.node_name);
  ASSIGN_OR_RETURN(const std::string path, mounter_.Mount(ctx, request, pod.metadata.uid));
  return HostVolume{path, read_only, true};
}

void Claims::Release(const Context& ctx, const std::string& pod_uid) {
  mounter_.Release(ctx, pod_uid);
}

}  // namespace paddleop::standalone::node
