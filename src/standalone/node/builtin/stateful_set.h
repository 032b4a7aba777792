// What a StatefulSet wants, decided from what is there. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "standalone/node/kubelet/pod_spec.h"

namespace paddleop::standalone::node {

struct StatefulSetSpec {
  api::ObjectMeta metadata;
  std::int32_t replicas = 1;
  bool parallel = false;   // podManagementPolicy
  bool on_delete = false;  // updateStrategy
  std::string service_name;
  std::string revision;  // of the template: NAME-HASH
  api::RawJson pod_template;
  api::RawJson claim_templates;
  api::RawJson status;

  static Result<StatefulSetSpec> Parse(std::string_view json);
};

struct StatefulSetPlan {
  std::vector<std::string> create_claims;  // JSON, before the pods
  std::vector<std::string> create_pods;    // JSON
  std::vector<std::string> delete_pods;    // names
  std::string status;                      // JSON
};

// `pods` are those that the set controls, in any order.
Result<StatefulSetPlan> DecideStatefulSet(const StatefulSetSpec& set,
                                          const std::vector<std::shared_ptr<const PodSpec>>& pods);

}  // namespace paddleop::standalone::node
