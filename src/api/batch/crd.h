#pragma once

#include <string_view>
#include <vector>

#include "api/meta/json.h"

namespace paddleop::api {

// The CustomResourceDefinitions of PaddleJob, SampleSet and SampleJob, in this order: structural
// schemas, printer columns, and the rules of rules.h as CEL.
std::vector<Json> CustomResourceDefinitions();

// The three as one YAML stream: what `paddle-operator crds` prints and deploy/v1/crd.yaml contains.
std::string CrdManifest();

// The structural schema that kube-apiserver's own OpenAPI gives for a core type: PodTemplateSpec,
// NodeAffinity or Toleration. Made by tools/pod_schema.
const Json& CoreSchema(std::string_view type);

}  // namespace paddleop::api
