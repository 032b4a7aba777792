#pragma once

#include <string_view>

#include "api/meta/json.h"
#include "base/status.h"

namespace paddleop::standalone::apiserver {

// Reads an object in Kubernetes' protobuf form ("k8s\0" and a runtime.Unknown), which
// `kubectl create namespace, configmap, secret, serviceaccount` and its deletions send. Other kinds
// are kNotSupported: whoever sends those can send JSON. kInvalid if the bytes are not what they
// say.
Result<api::Json> FromProtobuf(std::string_view body);

inline constexpr char kProtobufType[] = "application/vnd.kubernetes.protobuf";

}  // namespace paddleop::standalone::apiserver
