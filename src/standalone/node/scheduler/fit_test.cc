#include "standalone/node/scheduler/fit.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::standalone::node {
namespace {

NodeView Node(const std::string& name, api::StringMap labels = {}) {
  NodeView node;
  node.name = name;
  node.labels = std::move(labels);
  node.ready = true;
  node.allocatable = {{"cpu", "4"}, {"memory", "8Gi"}};
  return node;
}

PodSpec Pod(const std::string& spec) {
  auto pod = PodSpec::Parse(R"({"metadata":{"name":"p"},"spec":)" + spec + "}");
  EXPECT_OK(pod);
  return *pod;
}

TEST(ChooseNode, SpreadsPodsThatDoNotCare) {
  const NodeView a = Node("a");
  const NodeView b = Node("b");
  const Choice choice = ChooseNode(Pod("{}"), {{.node = &a, .pods = 2}, {.node = &b, .pods = 1}});
  EXPECT_EQ(choice.node, "b");
}

TEST(ChooseNode, ObeysSelectorsAndAffinity) {
  const NodeView a = Node("a", {{"disk", "hdd"}, {"cores", "8"}});
  const NodeView b = Node("b", {{"disk", "ssd"}, {"cores", "32"}});
  const std::vector<Candidate> nodes = {{.node = &a}, {.node = &b, .pods = 9}};
  EXPECT_EQ(ChooseNode(Pod(R"({"nodeSelector":{"disk":"ssd"}})"), nodes).node, "b");
  const auto required = [](const std::string& terms) {
    return Pod(R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms":)" +
               terms + "}}}}");
  };
  EXPECT_EQ(ChooseNode(required(R"([{"matchExpressions":[{"key":"disk","operator":"In",
      "values":["ssd"]}]}])"),
                       nodes)
                .node,
            "b");
  EXPECT_EQ(ChooseNode(required(R"([{"matchExpressions":[{"key":"cores","operator":"Gt",
      "values":["16"]}]}])"),
                       nodes)
                .node,
            "b");
  EXPECT_EQ(ChooseNode(required(R"([{"matchFields":[{"key":"metadata.name","operator":"In",
      "values":["b"]}]}])"),
                       nodes)
                .node,
            "b");
  const Choice none = ChooseNode(required(R"([{"matchExpressions":[{"key":"disk",
      "operator":"DoesNotExist"}]},{}])"),
                                 nodes);
  EXPECT_EQ(none.node, "");
  EXPECT_EQ(none.message,
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.");
  const PodSpec prefers = Pod(R"({"affinity":{"nodeAffinity":{
      "preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"preference":
      {"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}}]}}})");
  EXPECT_EQ(ChooseNode(prefers, nodes).node, "b");
}

TEST(ChooseNode, SaysWhyNot) {
  NodeView cordoned = Node("a");
  cordoned.unschedulable = true;
  NodeView tainted = Node("b");
  tainted.taints = {{"gpu", "yes", "NoSchedule"}};
  const NodeView small = Node("c");
  const PodSpec pod = Pod(R"({"containers":[{"name":"c","resources":{"requests":{"cpu":"3"}}}]})");
  ResourceSum used;
  AddRequests(pod, used);
  const std::vector<Candidate> nodes = {
      {.node = &cordoned}, {.node = &tainted}, {.node = &small, .used = used}};
  EXPECT_EQ(ChooseNode(pod, nodes).message,
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint "
            "{gpu: yes}, 1 node(s) were unschedulable.");
  const PodSpec tolerant = Pod(R"({"tolerations":[{"key":"gpu","operator":"Exists"}]})");
  EXPECT_EQ(ChooseNode(tolerant, {{.node = &tainted}}).node, "b");
}

}  // namespace
}  // namespace paddleop::standalone::node
