// Writes objects to a Kubernetes API server as fast as it takes them: `kube_writer KUBECONFIG
// THREADS` reads lines of RESOURCE, NAMESPACE and JSON, separated by tabs, from standard input.
// Resources are pods, configmaps, events and paddlejobs, which are created, and paddlejobs/status:
// a patch of the job that the object names. Prints how many it wrote in how many seconds.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/meta/json.h"
#include "kube/client/cluster_config.h"
#include "kube/client/http_cluster_client.h"
#include "kube/wire/patch.h"

namespace paddleop::kube {
namespace {

struct Line {
  GroupVersionResource resource;
  std::string ns;
  std::string json;
  bool status = false;
};

constexpr GroupVersionResource kPaddleJobs{"batch.paddlepaddle.org", "v1", "paddlejobs",
                                           "PaddleJob"};

std::optional<GroupVersionResource> FindResource(const std::string& name) {
  if (name == "pods") return kPods;
  if (name == "configmaps") return kConfigMaps;
  if (name == "events") return kEvents;
  if (name == "paddlejobs" || name == "paddlejobs/status") return kPaddleJobs;
  return std::nullopt;
}

std::vector<Line> ReadLines() {
  std::vector<Line> lines;
  for (std::string line; std::getline(std::cin, line);) {
    const auto first = line.find('\t');
    const auto second = line.find('\t', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto resource = FindResource(line.substr(0, first));
    if (!resource) continue;
    lines.push_back({*resource, line.substr(first + 1, second - first - 1), line.substr(second + 1),
                     line.substr(0, first).ends_with("/status")});
  }
  return lines;
}

Result<void> Write(ClusterClient& client, const Line& line) {
  const Context ctx = Context::Background();
  if (!line.status) {
    auto made = client.Create(ctx, line.resource, line.ns, line.json);
    if (!made) return std::unexpected(std::move(made).error());
    return {};
  }
  ASSIGN_OR_RETURN(const auto object, api::ParseJson(line.json));
  const std::string name = object["metadata"]["name"];
  auto done = client.Patch(ctx, line.resource, {line.ns, name}, MergePatch(line.json, "status"));
  if (!done) return std::unexpected(std::move(done).error());
  return {};
}

int Main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto config = LoadKubeconfig(argv[1]);
  if (!config) return std::cerr << config.error().message() << "\n", 2;
  MetricsRegistry metrics;
  auto client = HttpClusterClient::Create(*std::move(config), {}, metrics);
  if (!client) return std::cerr << client.error().message() << "\n", 2;
  const auto lines = ReadLines();
  const auto started = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> failed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < std::atoi(argv[2]); ++i) {
      threads.emplace_back([&] {
        for (std::size_t at; (at = next++) < lines.size();) {
          auto done = Write(**client, lines[at]);
          if (!done && failed++ == 0) std::cerr << done.error().message() << "\n";
        }
      });
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  fmt::print("{{\"written\": {}, \"failed\": {}, \"seconds\": {:.3f}}}\n",
             lines.size() - failed.load(), failed.load(), seconds);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace paddleop::kube

int main(int argc, char** argv) { return paddleop::kube::Main(argc, argv); }
