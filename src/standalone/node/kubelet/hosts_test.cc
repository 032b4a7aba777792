#include "standalone/node/kubelet/hosts.h"

#include <gtest/gtest.h>

namespace paddleop::standalone::node {
namespace {

std::shared_ptr<PodSpec> Pod(const std::string& ns, const std::string& name,
                             const std::string& ip) {
  auto pod = std::make_shared<PodSpec>();
  pod->metadata.ns = ns;
  pod->metadata.name = name;
  pod->metadata.labels = {{"name", name}, {"app", "x"}};
  pod->hostname = name;
  pod->subdomain = "all";
  pod->pod_ip = ip;
  return pod;
}

std::shared_ptr<api::Service> ServiceOf(const std::string& ns, const std::string& name,
                                        api::StringMap selector) {
  auto service = std::make_shared<api::Service>();
  service->metadata.ns = ns;
  service->metadata.name = name;
  service->selector = std::move(selector);
  return service;
}

TEST(HostsFile, NamesThePodAndTheServices) {
  const auto a = Pod("n", "a", "10.0.0.1");
  const auto b = Pod("n", "b", "10.0.0.2");
  const auto other = Pod("m", "b", "10.0.0.3");
  const std::string text =
      HostsFile(*a, "10.0.0.1",
                {ServiceOf("n", "b", {{"name", "b"}}), ServiceOf("n", "all", {{"app", "x"}}),
                 ServiceOf("m", "b", {{"name", "b"}}), ServiceOf("n", "none", {})},
                {a, b, other});
  EXPECT_NE(text.find("\n10.0.0.1 a.all.n.svc.cluster.local a\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n10.0.0.2 b.n.svc.cluster.local b.n.svc b.n b\n"), std::string::npos);
  EXPECT_NE(text.find("\n10.0.0.2 b.all.n.svc.cluster.local b.all.n.svc b.all.n b.all\n"),
            std::string::npos);
  EXPECT_NE(text.find("\n10.0.0.3 b.m.svc.cluster.local b.m.svc b.m\n"), std::string::npos);
  EXPECT_EQ(text.find("none"), std::string::npos);
}

}  // namespace
}  // namespace paddleop::standalone::node
