#include "standalone/node/kubelet/node_registration.h"

#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "api/core/objects.h"
#include "api/meta/time.h"
#include "base/posix.h"

namespace paddleop::standalone::node {
namespace {

using api::Json;

constexpr char kLeaseNamespace[] = "kube-node-lease";
constexpr std::chrono::seconds kRenew{10};
constexpr int kLeaseSeconds = 40;
constexpr int kRenewalsPerStatus = 30;  // a status every five minutes
constexpr int kMaxPods = 110;

std::string Architecture() {
  utsname name{};
  ::uname(&name);
  const std::string machine = name.machine;
  if (machine == "x86_64") return "amd64";
  return machine == "aarch64" ? "arm64" : machine;
}

std::string KernelVersion() {
  utsname name{};
  ::uname(&name);
  return name.release;
}

Json Capacity(const std::string& data_dir) {
  Json out = {{"cpu", std::to_string(::sysconf(_SC_NPROCESSORS_ONLN))},
              {"memory",
               fmt::format("{}Ki", ::sysconf(_SC_PHYS_PAGES) * (::sysconf(_SC_PAGE_SIZE) / 1024))},
              {"pods", std::to_string(kMaxPods)}};
  struct statvfs st{};
  if (::statvfs(data_dir.c_str(), &st) == 0)
    out["ephemeral-storage"] = fmt::format("{}Ki", st.f_blocks * (st.f_frsize / 1024));
  return out;
}

Json Condition(const char* type, const char* status, const char* reason, const char* message,
               const std::string& now) {
  return {{"type", type},       {"status", status},         {"reason", reason},
          {"message", message}, {"lastHeartbeatTime", now}, {"lastTransitionTime", now}};
}

}  // namespace

NodeRegistration::NodeRegistration(NodeRegistrationOptions options, kube::ClusterClient& client,
                                   const Logger& log, Clock& clock)
    : options_(std::move(options)), client_(client), log_(log), clock_(clock) {}

Result<void> NodeRegistration::Register(const Context& ctx) {
  const Json ns = {
      {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", kLeaseNamespace}}}};
  auto made = client_.Create(ctx, kube::kNamespaces, "", api::DumpJson(ns));
  if (!made && !IsAlreadyExists(made.error()))
    return std::unexpected(std::move(made).error().Wrap("namespace of the nodes' leases"));
  for (const std::string& name : options_.nodes) RETURN_IF_ERROR(RegisterOne(ctx, name));
  return {};
}

Result<void> NodeRegistration::RegisterOne(const Context& ctx, const std::string& name) {
  const Json labels = {{"kubernetes.io/hostname", name},
                       {"kubernetes.io/os", "linux"},
                       {"kubernetes.io/arch", Architecture()}};
  const Json node = {
      {"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}, {"labels", labels}}}};
  auto made = client_.Create(ctx, kube::kNodes, "", api::DumpJson(node));
  if (!made && IsAlreadyExists(made.error())) {
    made = client_.Patch(ctx, kube::kNodes, {"", name},
                         kube::MergePatch(api::DumpJson({{"metadata", {{"labels", labels}}}})));
  }
  if (!made) return std::unexpected(std::move(made).error().Wrap("register node " + name));
  RETURN_IF_ERROR(RenewLease(ctx, name));
  return ReportStatus(ctx, name, true);
}

Result<void> NodeRegistration::ReportStatus(const Context& ctx, const std::string& name,
                                            bool ready) {
  const std::string now =
      api::FormatTime(std::chrono::floor<std::chrono::seconds>(clock_.WallNow()));
  ASSIGN_OR_RETURN(const auto raw, client_.Get(ctx, kube::kNodes, {"", name}));
  ASSIGN_OR_RETURN(const Json old, api::ParseJson(raw.json));
  Json status = old.value("status", Json::object());
  const Json before = status;
  const Json capacity = Capacity(options_.data_dir);
  status["capacity"] = capacity;
  status["allocatable"] = capacity;
  status["addresses"] = {{{"type", "InternalIP"}, {"address", options_.address}}};
  if (endpoint_port_ != 0)
    status["daemonEndpoints"] = {{"kubeletEndpoint", {{"Port", endpoint_port_}}}};
  status["nodeInfo"] = {{"kubeletVersion", options_.version},
                        {"kubeProxyVersion", ""},
                        {"containerRuntimeVersion", "process://" + options_.version},
                        {"kernelVersion", KernelVersion()},
                        {"osImage", "this machine"},
                        {"operatingSystem", "linux"},
                        {"architecture", Architecture()},
                        {"machineID", name},
                        {"systemUUID", name},
                        {"bootID", ""}};
  Json conditions = {
      ready ? Condition("Ready", "True", "KubeletReady", "the node agent runs", now)
            : Condition("Ready", "False", "KubeletNotReady", "the node agent has stopped", now),
      Condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "", now),
      Condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "", now),
      Condition("PIDPressure", "False", "KubeletHasSufficientPID", "", now)};
  for (Json& condition : conditions) {
    for (const Json& was : before.value("conditions", Json::array())) {
      if (was.value("type", "") == condition.value("type", "") &&
          was.value("status", "") == condition.value("status", ""))
        condition["lastTransitionTime"] = was.value("lastTransitionTime", now);
    }
  }
  status["conditions"] = std::move(conditions);
  auto done = kube::MergeDifference(api::DumpJson({{"status", before}}),
                                    api::DumpJson({{"status", status}}));
  if (!done) return std::unexpected(std::move(done).error());
  if (!*done) return {};
  auto patched =
      client_.Patch(ctx, kube::kNodes, {"", name}, kube::MergePatch(**std::move(done), "status"));
  if (!patched) return std::unexpected(std::move(patched).error().Wrap("status of node " + name));
  return {};
}

Result<void> NodeRegistration::RenewLease(const Context& ctx, const std::string& name) {
  const Json spec = {{"holderIdentity", name},
                     {"leaseDurationSeconds", kLeaseSeconds},
                     {"renewTime", api::FormatMicroTime(clock_.WallNow())}};
  auto renewed = client_.Patch(ctx, kube::kLeases, {kLeaseNamespace, name},
                               kube::MergePatch(api::DumpJson({{"spec", spec}})));
  if (!renewed && IsNotFound(renewed.error())) {
    const Json lease = {{"apiVersion", "coordination.k8s.io/v1"},
                        {"kind", "Lease"},
                        {"metadata", {{"name", name}, {"namespace", kLeaseNamespace}}},
                        {"spec", spec}};
    renewed = client_.Create(ctx, kube::kLeases, kLeaseNamespace, api::DumpJson(lease));
  }
  if (!renewed) return std::unexpected(std::move(renewed).error().Wrap("lease of node " + name));
  return {};
}

void NodeRegistration::Run(const Context& ctx) {
  for (int round = 1; clock_.SleepFor(ctx, kRenew); ++round) {
    for (const std::string& name : options_.nodes) {
      const Context limited = ctx.WithTimeout(kRenew);
      auto done = RenewLease(limited, name);
      if (done && round % kRenewalsPerStatus == 0) done = ReportStatus(limited, name, true);
      if (!done && IsNotFound(done.error())) done = RegisterOne(limited, name);
      if (!done && !ctx.Stopped())
        log_.Warn(ctx, "node not refreshed", {{"node", name}, {"error", done.error().message()}});
    }
  }
}

void NodeRegistration::Retire(const Context& ctx) {
  for (const std::string& name : options_.nodes) {
    const auto done = ReportStatus(ctx, name, false);
    if (!done)
      log_.Warn(ctx, "node not retired", {{"node", name}, {"error", done.error().message()}});
  }
}

}  // namespace paddleop::standalone::node
