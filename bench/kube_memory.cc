// Memory of a manager that watches many pods: `kube_memory [PODS]` serves lists of pods from one
// process and watches them from another, whose resident memory it prints. Exit code 1 over the bar
// of 64 MiB.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/posix.h"
#include "kube/cache/informer.h"
#include "kube/client/http_cluster_client.h"
#include "net/testing/raw_server.h"

namespace paddleop::kube {
namespace {

constexpr std::size_t kBarKiB = 64 << 10;

// What a controller keeps of a pod.
struct SmallPod {
  std::string ns, name, uid, phase, ip, node, role;
};

Result<SmallPod> DecodePod(std::string_view json) {
  const auto root = nlohmann::json::parse(json, nullptr, false);
  if (!root.is_object()) return Fail(Code::kInvalid, "not an object");
  const auto text = [&](const char* pointer) {
    return root.value(nlohmann::json::json_pointer(pointer), std::string());
  };
  return SmallPod{text("/metadata/namespace"),  text("/metadata/name"), text("/metadata/uid"),
                  text("/status/phase"),        text("/status/podIP"),  text("/spec/nodeName"),
                  text("/metadata/labels/role")};
}

// A pod as a kubelet leaves it: some 6 kB, a third of it managedFields.
std::string PodJson(std::size_t i) {
  std::string env, managed;
  for (int e = 0; e < 25; ++e)
    env += fmt::format(R"({}{{"name":"PADDLE_VARIABLE_{}","value":"10.0.0.{}:36543"}})",
                       e ? "," : "", e, e);
  for (int f = 0; f < 40; ++f)
    managed += fmt::format(R"({}"f:field-number-{}":{{".":{{}},"f:value":{{}}}})", f ? "," : "", f);
  return fmt::format(
      R"({{"metadata":{{"name":"job-{0}-worker-{1}","namespace":"team","uid":"00000000-0000-0000-0000-{2:012}","resourceVersion":"{3}",)"
      R"("labels":{{"paddle-res-name":"job-{0}","role":"worker"}},"ownerReferences":[{{"apiVersion":"b/v1","kind":"PaddleJob","name":"job-{0}","uid":"11111111-0000-0000-0000-{0:012}","controller":true}}],)"
      R"("managedFields":[{{"manager":"kubelet","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{{{4}}}}}]}},)"
      R"("spec":{{"nodeName":"node-{1}","containers":[{{"name":"c","image":"registry.example.org/paddle:3","env":[{5}]}}]}},)"
      R"("status":{{"phase":"Running","podIP":"10.1.2.3","conditions":[{{"type":"Ready","status":"True"}}]}}}})",
      i / 4, i % 4, i, 1000 + i, managed, env);
}

std::string Page(std::size_t begin, std::size_t end, std::size_t total) {
  std::string body = R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"99999")";
  if (end < total) body += fmt::format(R"(,"continue":"{}")", end);
  body += R"(},"items":[)";
  for (std::size_t i = begin; i < end; ++i) body += (i > begin ? "," : "") + PodJson(i);
  return body + "]}";
}

void Serve(net::testing::RawConnection& connection, std::size_t pods) {
  for (;;) {
    const std::string request = connection.ReadRequest();
    if (request.empty()) return;
    if (request.contains("watch=true")) {
      connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n");
      connection.WaitForClose();
      return;
    }
    const std::size_t at = request.find("continue=");
    const std::size_t begin =
        at == std::string::npos ? 0 : std::strtoul(request.c_str() + at + 9, nullptr, 10);
    const std::string body = Page(begin, std::min(begin + 500, pods), pods);
    if (!connection.Send(
            fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.size())) ||
        !connection.Send(body))
      return;
  }
}

std::size_t FieldKiB(const char* name) {
  const auto status = ReadFile("/proc/self/status");
  const std::size_t at = status ? status->find(name) : std::string::npos;
  return at == std::string::npos ? 0 : std::strtoul(status->c_str() + at + 7, nullptr, 10);
}

int Watch(const std::string& url) {
  MetricsRegistry metrics;
  const Logger log(LogLevel::kWarn);
  ClusterConfig config;
  config.server = url;
  auto client = HttpClusterClient::Create(std::move(config), {}, metrics);
  if (!client) return 2;
  Informer<SmallPod> pods({.resource = kPods}, DecodePod, **client, log, metrics);
  pods.AddIndex("owner", ControllerUid);
  const std::size_t before = FieldKiB("VmRSS:");
  const auto started = std::chrono::steady_clock::now();
  pods.Start();
  if (!pods.WaitForSync(Context::Background().WithTimeout(std::chrono::minutes(2)))) return 2;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const std::size_t peak = FieldKiB("VmHWM:");
  std::printf(
      "{\"pods\": %zu, \"sync_seconds\": %.2f, \"empty_kib\": %zu, \"resident_kib\": %zu, "
      "\"peak_kib\": %zu}\n",
      pods.size(), seconds, before, FieldKiB("VmRSS:"), peak);
  return peak <= kBarKiB ? 0 : 1;
}

int Main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--watch") return Watch(argv[2]);
  const std::size_t pods = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 10000;
  auto server = net::testing::RawServer::Start(
      [pods](net::testing::RawConnection& connection, int) { Serve(connection, pods); });
  if (!server) return 2;
  const std::string url = fmt::format("http://127.0.0.1:{}", (*server)->port());
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", argv[0], "--watch", url.c_str(), nullptr);
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

}  // namespace
}  // namespace paddleop::kube

int main(int argc, char** argv) { return paddleop::kube::Main(argc, argv); }
