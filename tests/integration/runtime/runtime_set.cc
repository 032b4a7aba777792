#include "integration/runtime/runtime_set.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/crypto.h"
#include "net/http_client.h"
#include "runtime/server/testing/auth_dir.h"
#include "volume/peer/local_peer.h"

namespace paddleop::testing {
namespace {

using runtime::JobResult;
using runtime::JobState;

std::uint16_t FreePort() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.sin_port);
}

Result<pid_t> Spawn(std::vector<std::string> argv, const std::string& log) {
  ASSIGN_OR_RETURN(const UniqueFd out, OpenFile(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC));
  std::vector<char*> pointers;
  for (std::string& arg : argv) pointers.push_back(arg.data());
  pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoFail("fork");
  if (pid == 0) {
    ::dup2(out.get(), STDOUT_FILENO);
    ::dup2(out.get(), STDERR_FILENO);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  return pid;
}

double SumMetric(const std::string& text, const std::string& name, const std::string& label) {
  double sum = 0;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with(name) || line.find(label) == std::string::npos) continue;
    sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
  }
  return sum;
}

}  // namespace

Result<std::unique_ptr<RuntimeSet>> RuntimeSet::Start(const RuntimeSetOptions& options) {
  ASSIGN_OR_RETURN(auto dir, TempDir::Create("runtime"));
  std::unique_ptr<RuntimeSet> set(new RuntimeSet(options, std::move(dir)));
  std::vector<std::string> redis_args;
  if (options.redis_durable) redis_args = {"--appendonly", "--config", "appendfsync always"};
  ASSIGN_OR_RETURN(auto redis, Peer::Start("redis", redis_args));
  set->redis_.emplace(std::move(redis));
  ASSIGN_OR_RETURN(auto minio, Peer::Start("minio", {"--bucket", "volume", "--bucket", "source"}));
  set->minio_.emplace(std::move(minio));
  set->meta_url_ = set->redis_->Get("url");
  set->nodes_.resize(options.partitions);
  RETURN_IF_ERROR(set->WriteSecrets());
  for (std::uint32_t i = 0; i < options.partitions; ++i) {
    set->nodes_[i].port = FreePort();
    RETURN_IF_ERROR(MakeDirectories(set->CacheDir(i)));
    RETURN_IF_ERROR(set->Restart(i));
  }
  for (std::uint32_t i = 0; i < options.partitions; ++i) RETURN_IF_ERROR(set->WaitReady(i));
  RETURN_IF_ERROR(set->PutPeers());
  return set;
}

RuntimeSet::~RuntimeSet() {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) Kill(i);
}

Result<void> RuntimeSet::WriteSecrets() {
  const std::string volume = Path("volume");
  RETURN_IF_ERROR(MakeDirectories(volume));
  const auto put = [&](const char* key, const std::string& value) {
    return WriteFileAtomic(volume + "/" + key, value + "\n", 0600);
  };
  RETURN_IF_ERROR(put("name", "samples"));
  RETURN_IF_ERROR(put("storage", "minio"));
  RETURN_IF_ERROR(put("bucket", minio_->Get("endpoint") + "/volume"));
  RETURN_IF_ERROR(put("metaurl", meta_url_));
  RETURN_IF_ERROR(put("access-key", minio_->Get("access_key")));
  RETURN_IF_ERROR(put("secret-key", minio_->Get("secret_key")));
  for (std::uint32_t i = 0; i < options_.partitions; ++i) {
    RETURN_IF_ERROR(
        runtime::testing::WriteAuthDir(Path("auth-" + std::to_string(i)), authority_, i));
  }
  return {};
}

std::string RuntimeSet::Log(std::uint32_t i) const {
  auto text = paddleop::ReadFile(Path("log-" + std::to_string(i)));
  return text ? *text : "";
}

void RuntimeSet::Kill(std::uint32_t i) {
  Node& node = nodes_[i];
  if (node.pid <= 0) return;
  ::kill(node.pid, SIGKILL);
  ::waitpid(node.pid, nullptr, 0);
  node.pid = -1;
}

Result<void> RuntimeSet::Restart(std::uint32_t i) {
  Kill(i);
  Node& node = nodes_[i];
  const std::string n = std::to_string(i);
  std::vector<std::string> argv = {BinDir() + "/samplefs",
                                   "runtime",
                                   "--set=set",
                                   "--namespace=ns",
                                   "--pod-name=set-runtime-" + n,
                                   "--listen=127.0.0.1:" + std::to_string(node.port),
                                   "--auth-dir=" + Path("auth-" + n),
                                   "--volume-dir=" + Path("volume"),
                                   "--cache-dir=" + CacheDir(i),
                                   "--cache-size=" + std::to_string(options_.cache_mib),
                                   "--free-space-ratio=0.001",
                                   "--source-dir=" + Path("source"),
                                   "--log-level=info"};
  argv.insert(argv.end(), options_.flags.begin(), options_.flags.end());
  ASSIGN_OR_RETURN(node.pid, Spawn(std::move(argv), Path("log-" + n)));
  ASSIGN_OR_RETURN(node.client,
                   runtime::OpenRuntimeClient({.address = "127.0.0.1:" + std::to_string(node.port),
                                               .tls_name = runtime::RuntimeTlsName("set", "ns", i),
                                               .ca_pem = authority_.cert_pem(),
                                               .token = Secret(runtime::testing::kToken),
                                               .timeout = std::chrono::seconds(60)}));
  return {};
}

Result<runtime::CacheInfo> RuntimeSet::WaitReady(std::uint32_t i) {
  Result<runtime::CacheInfo> info = Fail(Code::kDeadline, "never asked");
  const bool ready = WaitFor(
      [&] {
        info = client(i).GetCacheInfo(ctx_);
        return info && info->ready;
      },
      std::chrono::seconds(90), std::chrono::milliseconds(50));
  if (ready) return info;
  return Fail(Code::kDeadline, "runtime {} is not ready: {}\n{}", i,
              info ? info->message : info.error().message(), Log(i));
}

Result<void> RuntimeSet::PutPeers() {
  runtime::PeerTable table{.generation = 1};
  for (std::uint32_t i = 0; i < options_.partitions; ++i) {
    table.peers.push_back({i, "127.0.0.1:" + std::to_string(nodes_[i].port),
                           runtime::RuntimeTlsName("set", "ns", i)});
  }
  for (std::uint32_t i = 0; i < options_.partitions; ++i) {
    RETURN_IF_ERROR(client(i).PutPeers(ctx_, table));
  }
  return {};
}

Result<JobResult> RuntimeSet::RunJob(const runtime::JobRequest& request,
                                     std::chrono::seconds patience) {
  Result<JobResult> result = Fail(Code::kUnavailable, "not posted");
  const bool ended = WaitFor(
      [&] {
        const bool post = !result || result->state == JobState::kNeedsCredentials;
        result = post ? client(0).Post(ctx_, request)
                      : client(0).GetResult(ctx_, request.kind, request.name);
        if (!result && result.error().code() == Code::kInvalid) return true;
        return result && Finished(result->state);
      },
      patience, std::chrono::milliseconds(50));
  if (!ended) {
    return Fail(Code::kDeadline, "job {} is {}", request.name,
                result ? std::string(StateName(result->state)) + ": " + result->message
                       : result.error().message());
  }
  return result;
}

Result<runtime::CacheInfo> RuntimeSet::Total() {
  runtime::CacheInfo sum;
  for (std::uint32_t i = 0; i < options_.partitions; ++i) {
    ASSIGN_OR_RETURN(const auto info, client(i).GetCacheInfo(ctx_));
    sum.total_size = std::max(sum.total_size, info.total_size);
    sum.total_files = std::max(sum.total_files, info.total_files);
    sum.cached_size += info.cached_size;
    sum.pinned_size += info.pinned_size;
    sum.reads.local += info.reads.local;
    sum.reads.peer += info.reads.peer;
    sum.reads.store += info.reads.store;
  }
  return sum;
}

Result<double> RuntimeSet::Metric(std::uint32_t i, const std::string& name,
                                  const std::string& label) {
  ASSIGN_OR_RETURN(
      auto http,
      net::HttpClient::Create({.tls = {.ca_pem = authority_.cert_pem(),
                                       .server_name = runtime::RuntimeTlsName("set", "ns", i)}}));
  ASSIGN_OR_RETURN(
      const auto response,
      http->Do(ctx_, {.url = "https://127.0.0.1:" + std::to_string(nodes_[i].port) + "/metrics"}));
  return SumMetric(response.body, name, label);
}

Result<double> RuntimeSet::StoreBytesRead() {
  double sum = 0;
  for (std::uint32_t i = 0; i < options_.partitions; ++i) {
    ASSIGN_OR_RETURN(const double fetched,
                     Metric(i, "paddleop_peer_blocks_fetched_total", "from=\"store\""));
    sum += fetched;
  }
  return sum;
}

Result<RuntimeSet::Reader> RuntimeSet::OpenReader(std::uint32_t i) {
  ASSIGN_OR_RETURN(const auto info, client(i).GetCacheInfo(ctx_));
  Reader reader{.metrics = std::make_unique<MetricsRegistry>()};
  ASSIGN_OR_RETURN(
      reader.volume,
      volume::Volume::Open(ctx_, meta_url_,
                           {.read_only = true,
                            .memory_cache_bytes = 0,
                            .cache = {.directories = {{.path = CacheDir(i),
                                                       .capacity = options_.cache_mib << 20,
                                                       .free_space_ratio = 0.001}}},
                            .peer = volume::MakeLocalPeer({CacheDir(i)}, info.volume_uuid)},
                           log_, *reader.metrics));
  return reader;
}

Result<std::string> RuntimeSet::Reader::ReadFile(const Context& ctx, const std::string& path) {
  volume::Vfs& vfs = volume->vfs();
  ASSIGN_OR_RETURN(const auto entry, vfs.meta().Resolve(ctx, {}, volume::kRootIno, path));
  ASSIGN_OR_RETURN(const auto opened, vfs.Open(ctx, {}, entry.ino, {.read = true}));
  std::string text(entry.attr.length, '\0');
  std::uint64_t at = 0;
  while (at < text.size()) {
    ASSIGN_OR_RETURN(
        const std::size_t n,
        vfs.Read(ctx, opened.handle, at, std::as_writable_bytes(std::span(text).subspan(at))));
    if (n == 0) break;
    at += n;
  }
  RETURN_IF_ERROR(vfs.Release(ctx, opened.handle));
  return text;
}

double RuntimeSet::Reader::StoreBytes() const {
  return SumMetric(metrics->Serialize(), "paddleop_object_bytes_total", "direction=\"read\"");
}

std::string ContentOf(const std::string& path, std::size_t size) {
  const std::string seed = Sha256(path);
  std::string text;
  text.reserve(size + seed.size());
  for (std::uint32_t i = 0; text.size() < size; ++i) {
    for (const char c : seed) text.push_back(static_cast<char>(c + static_cast<char>(i * 31)));
  }
  text.resize(size);
  return text;
}

Result<std::vector<std::string>> MakeFiles(const std::string& dir, std::size_t count,
                                           std::size_t size) {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string folder = fmt::format("class-{:03}", i / 50);
    if (i % 50 == 0) RETURN_IF_ERROR(MakeDirectories(dir + "/" + folder));
    paths.push_back(fmt::format("{}/{:05}.jpg", folder, i));
    ASSIGN_OR_RETURN(const UniqueFd fd,
                     OpenFile(dir + "/" + paths.back(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC));
    RETURN_IF_ERROR(WriteAll(fd.get(), ContentOf(paths.back(), size)));
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace paddleop::testing
