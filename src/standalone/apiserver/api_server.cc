#include "standalone/apiserver/api_server.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "api/batch/crd.h"
#include "api/meta/time.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "standalone/apiserver/collector.h"
#include "standalone/apiserver/credentials.h"
#include "standalone/apiserver/handlers.h"
#include "standalone/apiserver/node_proxy.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr std::size_t kMaxBody = 3u << 20;  // as kube-apiserver

// Holds the data directory for this process alone.
Result<UniqueFd> LockDirectory(const std::string& dir) {
  const std::string path = dir + "/lock";
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const auto holder = ReadFile(path, 64);
    return Fail(Code::kAlreadyExists,
                "the data directory {} is in use by process {}: stop that one, or give another "
                "--data-dir",
                dir, holder && !holder->empty() ? *holder : "?");
  }
  if (::ftruncate(fd.get(), 0) != 0) return ErrnoFail("truncate {}", path);
  RETURN_IF_ERROR(WriteAll(fd.get(), std::to_string(::getpid())));
  return fd;
}

std::uint16_t LastPort(const std::string& file) {
  const auto text = ReadFile(file, 64);
  std::uint16_t port = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), port);
  return port;
}

// What every cluster has: namespaces, and the definitions of our kinds.
Answer<void> AddBasics(Objects& objects, Clock& clock) {
  for (const char* name : {"default", "kube-node-lease", "kube-system", "paddle-system"}) {
    if (objects.store().Latest(CoreKind("Namespace"), {"", name}) != nullptr) continue;
    RETURN_IF_ERROR(objects.Create(
        CoreKind("Namespace"), "",
        {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}}, {}));
  }
  const Kind* kind = FindKindByName("customresourcedefinitions.apiextensions.k8s.io");
  const std::string now =
      api::FormatTime(std::chrono::floor<std::chrono::seconds>(clock.WallNow()));
  for (Json definition : api::CustomResourceDefinitions()) {
    const std::string name = definition["metadata"]["name"];
    const ObjectPtr before = objects.store().Latest(*kind, {"", name});
    Json conditions = Json::array();
    for (const char* type : {"NamesAccepted", "Established"}) {
      conditions.push_back({{"type", type},
                            {"status", "True"},
                            {"lastTransitionTime", now},
                            {"reason", "BuiltIn"},
                            {"message", "this kind is part of the server"}});
    }
    definition["status"] = {{"acceptedNames", definition["spec"]["names"]},
                            {"conditions", std::move(conditions)},
                            {"storedVersions", {definition["spec"]["versions"][0]["name"]}}};
    if (before != nullptr) {
      Json old = Json::parse(before->json);
      if (old["spec"] == definition["spec"]) continue;
      definition["metadata"] = old["metadata"];
    } else {
      definition["metadata"]["uid"] = RandomUuid();
      definition["metadata"]["creationTimestamp"] = now;
      definition["metadata"]["generation"] = 1;
    }
    const auto written = objects.store().Put(*kind, before, std::move(definition));
    if (!written) return Internal(written.error());
  }
  return {};
}

class Server final : public ApiServer {
 public:
  Server(ApiServerOptions options, const Logger& log, MetricsRegistry& metrics, Clock& clock)
      : options_(std::move(options)), log_(log), metrics_(metrics), clock_(clock) {}
  ~Server() override { Stop(); }

  Result<void> Start() {
    RETURN_IF_ERROR(MakeDirectories(options_.data_dir, 0700));
    ASSIGN_OR_RETURN(lock_, LockDirectory(options_.data_dir));
    RETURN_IF_ERROR(OpenParts());
    return Listen();
  }

  const std::string& url() const override { return url_; }
  std::string kubeconfig_file() const override { return options_.data_dir + "/kubeconfig"; }
  const Secret& token() const override { return credentials_.token; }

  void Stop() override {
    if (proxy_) proxy_->Stop();
    if (http_) http_->Stop(std::chrono::seconds(1));
    if (watches_) watches_->Stop();
    if (collector_) collector_->Stop();
  }

 private:
  Result<void> OpenParts() {
    std::vector<std::string> names = {options_.address, "127.0.0.1", "::1", "localhost",
                                      "kubernetes.default.svc"};
    names.insert(names.end(), options_.names.begin(), options_.names.end());
    std::erase_if(names, [](const std::string& name) { return name == "0.0.0.0" || name == "::"; });
    ASSIGN_OR_RETURN(credentials_, OpenCredentials(options_.data_dir + "/pki", names));
    ASSIGN_OR_RETURN(store_, Store::Open(options_.data_dir + "/state.db"));
    schemas_ = std::make_unique<SchemaSet>();
    objects_ = std::make_unique<Objects>(*store_, *schemas_, clock_);
    watches_ = std::make_unique<WatchHub>(*store_);
    collector_ = std::make_unique<Collector>(*objects_, log_, clock_);
    store_->OnCommit([this] {
      watches_->Wake();
      collector_->Wake();
    });
    if (const auto added = AddBasics(*objects_, clock_); !added) {
      return Fail(Code::kInternal, "prepare {}: {}", options_.data_dir, added.error().message);
    }
    ASSIGN_OR_RETURN(proxy_, NodeProxy::Create(*store_, credentials_.token));
    handlers_ = std::make_unique<Handlers>(Handlers::Parts{.objects = objects_.get(),
                                                           .watches = watches_.get(),
                                                           .nodes = proxy_.get(),
                                                           .metrics = &metrics_,
                                                           .clock = &clock_},
                                           credentials_.token);
    return {};
  }

  Result<void> Listen() {
    const std::string port_file = options_.data_dir + "/port";
    net::HttpServerOptions http;
    http.address = options_.address;
    http.port = options_.port != 0 ? options_.port : LastPort(port_file);
    http.tls = {.cert_file = credentials_.cert_file, .key_file = credentials_.key_file};
    http.handler_threads = 32;  // writes wait for the disk together
    http.max_body_bytes = kMaxBody;
    http.metrics = &metrics_;
    http.log = &log_;
    const std::uint16_t wanted = http.port;
    auto server = net::HttpServer::Start(
        http, [handlers = handlers_.get()](const Context& ctx, const net::ServerRequest& request) {
          return handlers->Handle(ctx, request);
        });
    if (!server) {
      return std::unexpected(std::move(server).error().Wrap(
          fmt::format("listen on {}:{} (stop what uses that port, or give another --port)",
                      options_.address, wanted)));
    }
    http_ = *std::move(server);
    std::string host = options_.address;
    if (host == "0.0.0.0" || host == "::") host = "127.0.0.1";
    url_ =
        fmt::format("https://{}:{}", host.contains(':') ? "[" + host + "]" : host, http_->port());
    RETURN_IF_ERROR(WriteFileAtomic(port_file, std::to_string(http_->port()), 0644));
    return WriteFileAtomic(kubeconfig_file(), Kubeconfig(credentials_, url_), 0600);
  }

  const ApiServerOptions options_;
  const Logger& log_;
  MetricsRegistry& metrics_;
  Clock& clock_;
  UniqueFd lock_;
  Credentials credentials_;
  std::string url_;
  std::unique_ptr<SchemaSet> schemas_;
  // The store's thread wakes these two, so they outlive it; their own threads, which use the store,
  // have ended by then.
  std::unique_ptr<WatchHub> watches_;
  std::unique_ptr<Collector> collector_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<NodeProxy> proxy_;
  std::unique_ptr<Handlers> handlers_;
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace

Result<std::unique_ptr<ApiServer>> ApiServer::Start(ApiServerOptions options, const Logger& log,
                                                    MetricsRegistry& metrics, Clock& clock) {
  auto server = std::make_unique<Server>(std::move(options), log, metrics, clock);
  RETURN_IF_ERROR(server->Start());
  return std::unique_ptr<ApiServer>(std::move(server));
}

}  // namespace paddleop::standalone::apiserver
