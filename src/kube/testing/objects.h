// Small objects for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace paddleop::kube::testing {

inline std::string ConfigMapJson(std::string_view name, std::string_view value = "1",
                                 std::string_view metadata = "") {
  return fmt::format(
      R"({{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{}"{}{}}},"data":{{"k":"{}"}}}})",
      name, metadata.empty() ? "" : ",", metadata, value);
}

inline std::string StatefulSetJson(std::string_view name, int replicas) {
  return fmt::format(
      R"({{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{{"name":"{0}"}},"spec":{{"replicas":{1},
      "serviceName":"{0}","selector":{{"matchLabels":{{"app":"{0}"}}}},"template":{{"metadata":{{"labels":{{"app":"{0}"}}}},
      "spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}})",
      name, replicas);
}

inline std::string PodJson(std::string_view name, std::string_view metadata = "") {
  return fmt::format(
      R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{}"{}{}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}})",
      name, metadata.empty() ? "" : ",", metadata);
}

}  // namespace paddleop::kube::testing
