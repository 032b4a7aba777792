#include "standalone/node/kubelet/hosts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/posix.h"

namespace paddleop::standalone::node {
namespace {

bool Selects(const api::StringMap& selector, const api::StringMap& labels) {
  return !selector.empty() && std::all_of(selector.begin(), selector.end(), [&](const auto& want) {
    const auto found = labels.find(want.first);
    return found != labels.end() && found->second == want.second;
  });
}

// name, name.namespace.svc and so on; the short form only within the namespace.
std::string Names(const std::string& name, const std::string& ns, bool same_namespace) {
  return fmt::format("{0}.{1}.svc.cluster.local {0}.{1}.svc {0}.{1}{2}", name, ns,
                     same_namespace ? " " + name : "");
}

}  // namespace

std::string HostsFile(const PodSpec& pod, const std::string& ip,
                      const std::vector<std::shared_ptr<const api::Service>>& services,
                      const std::vector<std::shared_ptr<const PodSpec>>& pods) {
  std::string out = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
  const std::string hostname = pod.hostname.empty() ? pod.metadata.name : pod.hostname;
  if (!pod.subdomain.empty()) {
    out += fmt::format("{0} {1}.{2}.{3}.svc.cluster.local {1}\n", ip, hostname, pod.subdomain,
                       pod.metadata.ns);
  } else {
    out += fmt::format("{} {}\n", ip, hostname);
  }
  for (const auto& [address, names] : pod.host_aliases) {
    out += address;
    for (const std::string& name : names) out += " " + name;
    out += "\n";
  }
  std::vector<std::string> lines;
  for (const auto& service : services) {
    const bool same = service->metadata.ns == pod.metadata.ns;
    for (const auto& other : pods) {
      const std::string& address = other->Key() == pod.Key() ? ip : other->pod_ip;
      if (other->metadata.ns != service->metadata.ns || address.empty() || other->Finished() ||
          !Selects(service->selector, other->metadata.labels)) {
        continue;
      }
      if (other->subdomain == service->metadata.name && !other->hostname.empty()) {
        lines.push_back(fmt::format(
            "{} {}\n", address,
            Names(other->hostname + "." + service->metadata.name, service->metadata.ns, same)));
      }
      lines.push_back(fmt::format("{} {}\n", address,
                                  Names(service->metadata.name, service->metadata.ns, same)));
    }
  }
  // The same whatever order the caches list things in: the file is compared before it is written.
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) out += line;
  return out;
}

bool WriteHostsFile(const std::string& path, const std::string& text) {
  const auto file = OpenFile(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  return file && WriteAll(file->get(), text) &&
         ::ftruncate(file->get(), static_cast<off_t>(text.size())) == 0;
}

}  // namespace paddleop::standalone::node
