// A thin client for people: what kubectl does first, for machines without it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/json.h"
#include "base/context.h"
#include "base/status.h"
#include "kube/client/cluster_config.h"
#include "net/http_client.h"

namespace paddleop::cmd {

// What the five commands have in common.
struct ClientFlags {
  std::string kubeconfig;
  std::string context;
  std::string ns;
  bool all_namespaces = false;
  std::vector<std::string> files;
  std::vector<std::string> words;  // RESOURCE [NAME...], or POD
  std::string output;
  std::string selector;
  std::string container;
  bool watch = false;
  bool follow = false;
  bool previous = false;
  bool no_wait = false;
  std::int64_t tail = -1;
};

int RunApply(const ClientFlags& flags);
int RunGet(const ClientFlags& flags);
int RunDescribe(const ClientFlags& flags);
int RunLogs(const ClientFlags& flags);
int RunDelete(const ClientFlags& flags);

struct ApiResource {
  std::string group;
  std::string version;
  std::string plural;
  std::string kind;
  bool namespaced = true;

  // "paddlejob.batch.paddlepaddle.org": how results are named.
  std::string Label() const;
};

class ApiClient {
 public:
  static Result<std::unique_ptr<ApiClient>> Connect(const ClientFlags& flags);

  // The namespace of the flags, or of the kubeconfig.
  const std::string& ns() const { return ns_; }

  struct Call {
    std::string method = "GET";
    std::string target;
    std::string body = {};
    std::string content_type = "application/json";
    std::string accept = "application/json";
  };
  // The body of a 2xx reply; otherwise what the server says.
  Result<std::string> Do(const Context& ctx, const Call& call);
  Result<api::Json> DoJson(const Context& ctx, const Call& call);
  Result<void> Stream(const Context& ctx, const Call& call, const net::BodySink& sink);

  // By plural, singular, short name or kind, also "plural.group". kNotFound says what there is.
  Result<ApiResource> Find(const Context& ctx, const std::string& name);
  Result<ApiResource> FindKind(const Context& ctx, const std::string& api_version,
                               const std::string& kind);
  // `ns` and `name` may be empty.
  static std::string Path(const ApiResource& resource, const std::string& ns,
                          const std::string& name);

 private:
  ApiClient(kube::ClusterConfig config, std::string ns, std::unique_ptr<net::HttpClient> http);
  Result<net::HttpRequest> Make(const Context& ctx, const Call& call);
  Result<void> Discover(const Context& ctx);

  const kube::ClusterConfig config_;
  const std::string ns_;
  const std::unique_ptr<net::HttpClient> http_;
  struct Known {
    ApiResource resource;
    std::vector<std::string> names;
  };
  std::vector<Known> known_;
};

// Every object of a YAML or JSON file; "-" is standard input; lists are taken apart.
Result<std::vector<api::Json>> ReadManifests(const std::vector<std::string>& files);

// Says on standard error what went wrong, and returns the exit code for it.
int ClientFailed(const char* command, const Status& status);

}  // namespace paddleop::cmd
