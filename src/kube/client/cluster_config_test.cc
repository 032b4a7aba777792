#include "kube/client/cluster_config.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include "base/posix.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"

namespace paddleop::kube {
namespace {

using ::testing::HasSubstr;

// A kubeconfig with one context whose cluster and user have these fields.
std::string Kubeconfig(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
         "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: team}\n"
         "- name: there\n  context: {cluster: c2}\n"
         "clusters:\n- name: c\n  cluster: {" +
         cluster +
         "}\n- name: c2\n  cluster: {server: 'http://other:8080/'}\n"
         "users:\n- name: u\n  user: {" +
         user + "}\n";
}

Result<ClusterConfig> Parse(const std::string& cluster, const std::string& user,
                            const std::string& context = "") {
  return ParseKubeconfig(Kubeconfig(cluster, user), "/base", context);
}

std::string MessageOf(const Result<ClusterConfig>& result) {
  return result ? "" : result.error().message();
}

TEST(Kubeconfig, ReadsCertificatesInlineAndAsFiles) {
  auto config = Parse("server: 'https://h:6443', certificate-authority-data: Q0E=",
                      "client-certificate-data: Q0VSVA==, client-key-data: S0VZ");
  ASSERT_OK(config);
  EXPECT_EQ(config->server, "https://h:6443");
  EXPECT_EQ(config->ns, "team");
  EXPECT_EQ(config->tls.ca_pem, "CA");
  EXPECT_EQ(config->tls.cert_pem, "CERT");
  EXPECT_EQ(config->tls.key_pem.Reveal(), "KEY");
  EXPECT_EQ(config->credentials, nullptr);

  config = Parse("server: 'https://h', certificate-authority: ca.crt, tls-server-name: n",
                 "client-certificate: /abs/c.crt, client-key: ../k.key");
  ASSERT_OK(config);
  EXPECT_EQ(config->tls.ca_file, "/base/ca.crt");
  EXPECT_EQ(config->tls.cert_file, "/abs/c.crt");
  EXPECT_EQ(config->tls.key_file, "/k.key");
  EXPECT_EQ(config->tls.server_name, "n");
  EXPECT_FALSE(config->tls.insecure_skip_verify);
}

TEST(Kubeconfig, ChoosesTheContext) {
  const auto config = Parse("server: 'https://h'", "token: t", "there");
  ASSERT_OK(config);
  EXPECT_EQ(config->server, "http://other:8080");
  EXPECT_EQ(config->ns, "default");
  EXPECT_EQ(config->credentials, nullptr);
  EXPECT_THAT(MessageOf(Parse("server: 'https://h'", "token: t", "nowhere")),
              HasSubstr("no entry \"nowhere\" in contexts"));
}

TEST(Kubeconfig, ReadsTokensAndTokenFiles) {
  auto config = Parse("server: 'https://h', insecure-skip-tls-verify: true", "token: abc");
  ASSERT_OK(config);
  EXPECT_TRUE(config->tls.insecure_skip_verify);
  auto credential = config->credentials->Get(Context::Background());
  ASSERT_OK(credential);
  EXPECT_EQ(credential->token.Reveal(), "abc");

  const auto dir = TempDir::Create();
  ASSERT_OK(dir);
  ASSERT_OK(WriteFileAtomic(dir->File("t"), "from-file\n"));
  config = Parse("server: 'https://h'", "token: abc, tokenFile: '" + dir->File("t") + "'");
  ASSERT_OK(config);
  credential = config->credentials->Get(Context::Background());
  ASSERT_OK(credential);
  EXPECT_EQ(credential->token.Reveal(), "from-file");
}

TEST(Kubeconfig, ReadsExecPlugins) {
  const auto config =
      Parse("server: 'https://h'",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: ['-c', "
            "'echo \"{\\\"apiVersion\\\":\\\"client.authentication.k8s.io/v1\\\","
            "\\\"kind\\\":\\\"ExecCredential\\\",\\\"status\\\":{\\\"token\\\":\\\"$WHO\\\"}}\"'], "
            "env: [{name: WHO, value: plugin}]}");
  ASSERT_OK(config);
  const auto credential = config->credentials->Get(Context::Background());
  ASSERT_OK(credential);
  EXPECT_EQ(credential->token.Reveal(), "plugin");
}

TEST(Kubeconfig, RefusalsSayWhatToDo) {
  EXPECT_THAT(MessageOf(Parse("server: h", "token: t")), HasSubstr("no http or https URL"));
  EXPECT_THAT(MessageOf(Parse("server: 'https://h', certificate-authority-data: '%'", "token: t")),
              HasSubstr("certificate-authority-data is not base64"));
  EXPECT_THAT(MessageOf(Parse("server: 'https://h'", "username: a, password: b")),
              HasSubstr("basic authentication"));
  EXPECT_THAT(MessageOf(Parse("server: 'https://h'", "auth-provider: {name: gcp}")),
              HasSubstr("use exec"));
  EXPECT_THAT(MessageOf(Parse("server: 'https://h'", "exec: {command: x, apiVersion: v0}")),
              HasSubstr("v1beta1"));
  EXPECT_THAT(MessageOf(ParseKubeconfig("a: [", "/", "")), HasSubstr("line"));
  EXPECT_CODE(ParseKubeconfig("", "/", ""), Code::kInvalid);
  EXPECT_CODE(ParseKubeconfig("- 1", "/", ""), Code::kInvalid);
  EXPECT_CODE(ParseKubeconfig("contexts: 7\ncurrent-context: x", "/", ""), Code::kInvalid);
  EXPECT_CODE(LoadKubeconfig("/nonexistent/config"), Code::kNotFound);
}

TEST(InCluster, ReadsTheServiceAccount) {
  const auto dir = TempDir::Create();
  ASSERT_OK(dir);
  ASSERT_OK(WriteFileAtomic(dir->File("token"), "one"));
  ASSERT_OK(WriteFileAtomic(dir->File("namespace"), "system\n"));
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_CODE(InClusterConfig(dir->path()), Code::kNotFound);
  ::setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "6443", 1);
  paddleop::testing::ManualClock clock;
  const auto config = InClusterConfig(dir->path(), clock);
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ::unsetenv("KUBERNETES_SERVICE_PORT");
  ASSERT_OK(config);
  EXPECT_EQ(config->server, "https://[fd00::1]:6443");
  EXPECT_EQ(config->ns, "system");
  EXPECT_EQ(config->tls.ca_file, dir->File("ca.crt"));
  // The kubelet renews the token; we follow.
  EXPECT_EQ(config->credentials->Get(Context::Background())->token.Reveal(), "one");
  ASSERT_OK(WriteFileAtomic(dir->File("token"), "two"));
  EXPECT_EQ(config->credentials->Get(Context::Background())->token.Reveal(), "one");
  clock.Advance(std::chrono::seconds(61));
  EXPECT_EQ(config->credentials->Get(Context::Background())->token.Reveal(), "two");
  ASSERT_OK(WriteFileAtomic(dir->File("token"), "three"));
  config->credentials->Invalidate();
  EXPECT_EQ(config->credentials->Get(Context::Background())->token.Reveal(), "three");
}

}  // namespace
}  // namespace paddleop::kube
