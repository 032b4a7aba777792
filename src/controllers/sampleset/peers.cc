#include <fmt/format.h>

#include <algorithm>

#include "controllers/sampleset/pass.h"
#include "runtime/protocol/paths.h"

namespace paddleop::controllers::sampleset {

void KeepPeers(Pass& pass) {
  const bool reachable = std::any_of(pass.seen.runtimes.begin(), pass.seen.runtimes.end(),
                                     [](const RuntimeSeen& r) { return r.info.has_value(); });
  if (!reachable) return;
  // Partitions that are on their way out hold data until the others have taken it over.
  std::int32_t count = pass.Partitions();
  if (pass.seen.stateful_set) count = std::max(count, pass.seen.stateful_set->replicas);
  runtime::PeerTable table;
  for (std::int32_t i = 0; i < count; ++i) {
    runtime::PeerEntry entry;
    entry.index = static_cast<std::uint32_t>(i);
    entry.tls_name =
        runtime::RuntimeTlsName(pass.set.metadata.name, pass.set.metadata.ns, entry.index);
    const RuntimeSeen* runtime = pass.Runtime(i);
    const bool placed =
        runtime != nullptr && !runtime->pod->pod_ip.empty() && !runtime->pod->metadata.Deleting();
    // One that is not there yet has a name already; nobody needs it to resolve before it is.
    const std::string& host = placed ? runtime->pod->pod_ip : entry.tls_name;
    entry.address = host.contains(':') ? fmt::format("[{}]:{}", host, runtime::kDefaultPort)
                                       : fmt::format("{}:{}", host, runtime::kDefaultPort);
    table.peers.push_back(std::move(entry));
  }
  pass.plan.peers = std::move(table);
}

}  // namespace paddleop::controllers::sampleset
