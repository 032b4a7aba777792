#include "controllers/paddlejob/addresses.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace paddleop::controllers::paddlejob {
namespace {

bool IsIpv4(std::string_view address) {
  return !address.empty() && address.find(':') == std::string_view::npos;
}

}  // namespace

std::string AddressOf(const api::Pod& pod) {
  if (IsIpv4(pod.pod_ip)) return pod.pod_ip;
  for (const auto& address : pod.pod_ips) {
    if (IsIpv4(address)) return address;
  }
  return pod.pod_ip;
}

std::vector<int> StoredPortBlocks(const api::ObjectMeta& job) {
  std::vector<int> blocks;
  auto text = job.Annotation(kHostPortsAnnotation);
  if (text.empty()) text = job.Annotation(kHostPortAnnotation);
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto part = text.substr(0, comma);
    int port = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), port);
    if (error == std::errc{} && end == part.data() + part.size() && port > 0 && port <= 65535)
      blocks.push_back(port);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return blocks;
}

int PortBlocksNeeded(const api::PaddleJob& job,
                     const std::vector<std::shared_ptr<const api::Pod>>& pods) {
  std::map<std::string, int> per_address;
  int most = 0;
  std::int32_t placed = 0;
  for (const auto& pod : pods) {
    const auto place = PlaceOf(job.metadata.name, pod->metadata.name);
    if (!place || place->index >= Replicas(job.spec, place->role) || pod->metadata.Deleting())
      continue;
    if (GangOf(pod->metadata) != job.status.gang || pod->pod_ip.empty()) continue;
    ++placed;
    most = std::max(most, ++per_address[AddressOf(*pod)]);
  }
  return placed == TotalReplicas(job.spec) ? most : 0;
}

AddressBook FindAddresses(const Observed& seen, const Census& census) {
  AddressBook book;
  const auto& job = *seen.job;
  if (!census.Complete()) return book;
  for (const auto& [place, pod] : census.members) {
    if (pod->pod_ip.empty()) return book;
  }
  std::map<std::string, std::size_t> slots;  // pods met so far, by address
  for (const auto& [place, pod] : census.members) {
    const std::string address = AddressOf(*pod);
    Endpoint endpoint{address, kPort};
    if (job.spec.IsService()) {
      endpoint.host = pod->metadata.name;
    } else if (!IsIpv4(address)) {
      book.problem = fmt::format(
          "{} has only the IPv6 address {}, and Paddle cannot read such addresses in lists; set "
          "spec.intranet to Service",
          pod->metadata.name, address);
      return book;
    }
    if (job.spec.IsHost()) {
      const std::size_t slot = slots[address]++;
      if (slot >= seen.port_blocks.size()) {
        book.problem =
            "no free block of host ports: widen the manager's --port-range or wait for other jobs "
            "to end";
        return book;
      }
      endpoint.port = seen.port_blocks[slot];
    }
    book.addresses.Of(place.role).push_back(std::move(endpoint));
  }
  book.complete = true;
  return book;
}

}  // namespace paddleop::controllers::paddlejob
