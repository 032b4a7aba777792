#include "standalone/node/kubelet/environment.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::standalone::node {
namespace {

class FakeConfig final : public ConfigSource {
 public:
  Result<api::ConfigMap> GetConfigMap(const Context&, const api::ObjectKey& key) override {
    if (key.name != "settings") return Fail(Code::kNotFound, "no {}", key.name);
    api::ConfigMap map;
    map.data = {{"A", "from map"}, {"B", "b"}};
    return map;
  }
  Result<api::SecretObject> GetSecret(const Context&, const api::ObjectKey& key) override {
    if (key.name != "keys") return Fail(Code::kNotFound, "no {}", key.name);
    api::SecretObject secret;
    secret.data.emplace("token", Secret("s3cret"));
    return secret;
  }
};

Result<Environment> Of(const std::string& container_json) {
  const auto pod = PodSpec::Parse(R"({"metadata":{"name":"p","namespace":"n","uid":"u",
      "labels":{"app":"x"}},"spec":{"containers":[)" +
                                  container_json + "]}}");
  EXPECT_OK(pod);
  FakeConfig config;
  return ContainerEnvironment(Context::Background(), *pod, pod->containers[0],
                              {.node_name = "node-1", .host_ip = "10.0.0.1", .pod_ip = "10.0.0.9"},
                              {{"PATH", "/bin"}}, config);
}

std::string At(const Environment& env, const std::string& name) {
  for (const auto& [key, value] : env) {
    if (key == name) return value;
  }
  return "(unset)";
}

TEST(Expand, FollowsKubernetes) {
  const Environment env = {{"A", "1"}, {"B", "2"}};
  EXPECT_EQ(Expand("$(A)-$(B)", env), "1-2");
  EXPECT_EQ(Expand("$$(A) $(C) $A $", env), "$(A) $(C) $A $");
  EXPECT_EQ(Expand("$(A", env), "$(A");
}

TEST(ContainerEnvironment, TakesEverySource) {
  const auto env = Of(R"json({"name":"c","resources":{"limits":{"cpu":"1500m","memory":"64Mi"}},
    "envFrom":[{"configMapRef":{"name":"settings"}},{"prefix":"K_","secretRef":{"name":"keys"}}],
    "env":[{"name":"A","value":"mine"},{"name":"JOINED","value":"$(A):$(B):$(NEXT)"},
      {"name":"NEXT","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}},
      {"name":"LABEL","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['app']"}}},
      {"name":"CPU","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}},
      {"name":"MEM","valueFrom":{"resourceFieldRef":{"resource":"limits.memory","divisor":"1Mi"}}},
      {"name":"KEY","valueFrom":{"secretKeyRef":{"name":"keys","key":"token"}}},
      {"name":"NONE","valueFrom":{"configMapKeyRef":{"name":"other","key":"x","optional":true}}}]})json");
  ASSERT_OK(env);
  EXPECT_EQ(At(*env, "PATH"), "/bin");
  EXPECT_EQ(At(*env, "A"), "mine");
  EXPECT_EQ(At(*env, "JOINED"), "mine:b:$(NEXT)");
  EXPECT_EQ(At(*env, "NEXT"), "10.0.0.9");
  EXPECT_EQ(At(*env, "LABEL"), "x");
  EXPECT_EQ(At(*env, "CPU"), "2");
  EXPECT_EQ(At(*env, "MEM"), "64");
  EXPECT_EQ(At(*env, "K_token"), "s3cret");
  EXPECT_EQ(At(*env, "KEY"), "s3cret");
  EXPECT_EQ(At(*env, "NONE"), "(unset)");
}

TEST(ContainerEnvironment, SaysWhatIsMissing) {
  const auto map = Of(R"({"name":"c","envFrom":[{"configMapRef":{"name":"gate"}}]})");
  ASSERT_CODE(map, Code::kNotFound);
  EXPECT_EQ(map.error().message(), "configmap \"gate\" not found");
  EXPECT_OK(Of(R"({"name":"c","envFrom":[{"configMapRef":{"name":"gate","optional":true}}]})"));
  const auto key = Of(R"({"name":"c","env":[{"name":"X","valueFrom":{"configMapKeyRef":
      {"name":"settings","key":"zzz"}}}]})");
  ASSERT_CODE(key, Code::kNotFound);
  EXPECT_EQ(key.error().message(), "couldn't find key zzz in ConfigMap n/settings");
}

}  // namespace
}  // namespace paddleop::standalone::node
