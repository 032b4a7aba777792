#include "kube/client/cluster_config.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>

#include "base/crypto.h"
#include "base/posix.h"
#include "kube/wire/patch.h"

namespace paddleop::kube {
namespace {

std::string Text(const YAML::Node& node, const char* field) {
  const YAML::Node value = node[field];
  return value && value.IsScalar() ? value.Scalar() : "";
}

bool Flag(const YAML::Node& node, const char* field) { return Text(node, field) == "true"; }

std::string Resolve(const std::string& base_dir, const std::string& path) {
  if (path.empty() || path.starts_with('/')) return path;
  return (std::filesystem::path(base_dir) / path).lexically_normal().string();
}

// The entry called `name` of a list such as clusters[]; its `member`.
Result<YAML::Node> Entry(const YAML::Node& root, const char* list, const char* member,
                         const std::string& name) {
  const YAML::Node entries = root[list];
  if (entries && entries.IsSequence()) {
    for (const YAML::Node& entry : entries) {
      if (!entry.IsMap() || Text(entry, "name") != name) continue;
      const YAML::Node value = entry[member];
      if (value && value.IsMap()) return YAML::Node(value);
      return Fail(Code::kInvalid, "kubeconfig: {} \"{}\" has no {}", list, name, member);
    }
  }
  return Fail(Code::kInvalid, "kubeconfig: no entry \"{}\" in {}", name, list);
}

Result<std::string> Decoded(const YAML::Node& node, const char* field) {
  std::string text = Text(node, field);
  if (text.empty()) return text;
  auto bytes = Base64Decode(text);
  if (!bytes) return Fail(Code::kInvalid, "kubeconfig: {} is not base64", field);
  return bytes;
}

Result<void> ReadCluster(const YAML::Node& cluster, const std::string& base_dir,
                         ClusterConfig& out) {
  out.server = Text(cluster, "server");
  while (out.server.ends_with('/')) out.server.pop_back();
  if (!out.server.starts_with("https://") && !out.server.starts_with("http://"))
    return Fail(Code::kInvalid, "kubeconfig: server \"{}\" is no http or https URL",
                RedactUrl(out.server));
  if (!Text(cluster, "proxy-url").empty())
    return Fail(Code::kNotSupported,
                "kubeconfig: proxy-url is not supported; set HTTPS_PROXY in the environment");
  out.tls.ca_file = Resolve(base_dir, Text(cluster, "certificate-authority"));
  ASSIGN_OR_RETURN(out.tls.ca_pem, Decoded(cluster, "certificate-authority-data"));
  out.tls.insecure_skip_verify = Flag(cluster, "insecure-skip-tls-verify");
  out.tls.server_name = Text(cluster, "tls-server-name");
  return {};
}

// spec.cluster of what a plugin is told when it asks for it.
std::string ClusterJson(const YAML::Node& cluster) {
  std::string out = fmt::format(R"({{"server":{})", JsonString(Text(cluster, "server")));
  if (const std::string ca = Text(cluster, "certificate-authority-data"); !ca.empty())
    out += R"(,"certificate-authority-data":)" + JsonString(ca);
  if (const std::string name = Text(cluster, "tls-server-name"); !name.empty())
    out += R"(,"tls-server-name":)" + JsonString(name);
  if (Flag(cluster, "insecure-skip-tls-verify")) out += R"(,"insecure-skip-tls-verify":true)";
  return out + "}";
}

Result<ExecPlugin> ReadPlugin(const YAML::Node& exec, const YAML::Node& cluster,
                              const std::string& base_dir) {
  ExecPlugin plugin;
  plugin.command = Text(exec, "command");
  if (plugin.command.empty()) return Fail(Code::kInvalid, "kubeconfig: exec has no command");
  if (plugin.command.contains('/')) plugin.command = Resolve(base_dir, plugin.command);
  plugin.api_version = Text(exec, "apiVersion");
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1")
    return Fail(
        Code::kNotSupported,
        "kubeconfig: exec apiVersion \"{}\": v1 and v1beta1 of client.authentication.k8s.io "
        "are supported",
        plugin.api_version);
  if (Text(exec, "interactiveMode") == "Always")
    return Fail(Code::kNotSupported,
                "kubeconfig: exec plugin {} wants a terminal (interactiveMode: Always); use a "
                "token or certificate",
                plugin.command);
  for (const YAML::Node& argument : exec["args"]) plugin.args.push_back(argument.as<std::string>());
  for (const YAML::Node& variable : exec["env"])
    plugin.env[Text(variable, "name")] = Text(variable, "value");
  plugin.install_hint = Text(exec, "installHint");
  if (Flag(exec, "provideClusterInfo")) plugin.cluster_json = ClusterJson(cluster);
  return plugin;
}

Result<void> ReadUser(const YAML::Node& user, const YAML::Node& cluster,
                      const std::string& base_dir, Clock& clock, ClusterConfig& out) {
  out.tls.cert_file = Resolve(base_dir, Text(user, "client-certificate"));
  out.tls.key_file = Resolve(base_dir, Text(user, "client-key"));
  ASSIGN_OR_RETURN(out.tls.cert_pem, Decoded(user, "client-certificate-data"));
  ASSIGN_OR_RETURN(std::string key, Decoded(user, "client-key-data"));
  out.tls.key_pem = Secret(std::move(key));
  if (!Text(user, "username").empty())
    return Fail(Code::kNotSupported,
                "kubeconfig: username and password: API servers dropped basic authentication; use "
                "a token");
  if (user["auth-provider"])
    return Fail(Code::kNotSupported,
                "kubeconfig: auth-provider was removed from Kubernetes; use exec");
  // The file wins over the value, as in kubectl: the value is what the file held when it was
  // written.
  if (const std::string file = Text(user, "tokenFile"); !file.empty()) {
    out.credentials = TokenFileCredentials(Resolve(base_dir, file), clock);
  } else if (const std::string token = Text(user, "token"); !token.empty()) {
    out.credentials = TokenCredentials(Secret(token));
  } else if (const YAML::Node exec = user["exec"]; exec && exec.IsMap()) {
    ASSIGN_OR_RETURN(ExecPlugin plugin, ReadPlugin(exec, cluster, base_dir));
    out.credentials = ExecCredentials(std::move(plugin), clock);
  }
  return {};
}

Result<ClusterConfig> Read(const YAML::Node& root, const std::string& base_dir, std::string context,
                           Clock& clock) {
  if (!root.IsMap()) return Fail(Code::kInvalid, "kubeconfig: not a YAML mapping");
  if (context.empty()) context = Text(root, "current-context");
  if (context.empty())
    return Fail(Code::kInvalid, "kubeconfig: no current-context; name a context");
  ASSIGN_OR_RETURN(const YAML::Node chosen, Entry(root, "contexts", "context", context));
  ASSIGN_OR_RETURN(const YAML::Node cluster,
                   Entry(root, "clusters", "cluster", Text(chosen, "cluster")));
  ClusterConfig out;
  RETURN_IF_ERROR(ReadCluster(cluster, base_dir, out));
  if (const std::string user_name = Text(chosen, "user"); !user_name.empty()) {
    ASSIGN_OR_RETURN(const YAML::Node user, Entry(root, "users", "user", user_name));
    RETURN_IF_ERROR(ReadUser(user, cluster, base_dir, clock, out));
  }
  if (const std::string ns = Text(chosen, "namespace"); !ns.empty()) out.ns = ns;
  return out;
}

}  // namespace

Result<ClusterConfig> ParseKubeconfig(std::string_view yaml, const std::string& base_dir,
                                      const std::string& context, Clock& clock) {
  // yaml-cpp throws on bad syntax and on wrong types.
  try {
    return Read(YAML::Load(std::string(yaml)), base_dir, context, clock);
  } catch (const YAML::Exception& e) {
    return Fail(Code::kInvalid, "kubeconfig: line {}: {}", e.mark.line + 1, e.msg);
  }
}

Result<ClusterConfig> LoadKubeconfig(const std::string& path, const std::string& context,
                                     Clock& clock) {
  auto text = ReadFile(path, 4 << 20);
  if (!text) return std::unexpected(std::move(text).error().Wrap("kubeconfig"));
  auto config =
      ParseKubeconfig(*text, std::filesystem::path(path).parent_path().string(), context, clock);
  if (!config) return std::unexpected(std::move(config).error().Wrap(path));
  return config;
}

Result<ClusterConfig> InClusterConfig(const std::string& dir, Clock& clock) {
  const std::string host = GetEnv("KUBERNETES_SERVICE_HOST");
  const std::string port = GetEnv("KUBERNETES_SERVICE_PORT", "443");
  if (host.empty())
    return Fail(Code::kNotFound, "not in a cluster: KUBERNETES_SERVICE_HOST is not set");
  ClusterConfig out;
  out.server = fmt::format("https://{}:{}", host.contains(':') ? "[" + host + "]" : host, port);
  out.tls.ca_file = dir + "/ca.crt";
  out.credentials = TokenFileCredentials(dir + "/token", clock);
  ASSIGN_OR_RETURN(out.ns, ReadFile(dir + "/namespace", 4096));
  while (!out.ns.empty() && (out.ns.back() == '\n' || out.ns.back() == ' ')) out.ns.pop_back();
  return out;
}

Result<ClusterConfig> LoadClusterConfig(const std::string& path, const std::string& context,
                                        Clock& clock) {
  if (!path.empty()) return LoadKubeconfig(path, context, clock);
  if (const std::string env = GetEnv("KUBECONFIG"); !env.empty())
    return LoadKubeconfig(env, context, clock);
  if (!GetEnv("KUBERNETES_SERVICE_HOST").empty()) return InClusterConfig(kServiceAccountDir, clock);
  return LoadKubeconfig(GetEnv("HOME") + "/.kube/config", context, clock);
}

}  // namespace paddleop::kube
