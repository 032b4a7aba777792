// JSON as the api room passes it around. The library's full header stays in .cc files.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::api {

using Json = nlohmann::json;

// A piece of JSON nobody here looks into (a pod template, say), kept as compact text: it goes out
// as it came in, and costs no more memory than its bytes. Empty text means absent.
struct RawJson {
  std::string text;

  bool empty() const { return text.empty(); }
  bool operator==(const RawJson&) const = default;
};

// kInvalid with the position if `text` is not one JSON value.
Result<Json> ParseJson(std::string_view text);
// Compact, keys sorted, bytes that are not UTF-8 replaced.
std::string DumpJson(const Json& value);

// Block-style YAML of any JSON value; strings that YAML could read as something else are quoted.
std::string ToYaml(const Json& value);

// Reads an object of a kind (Pod, PaddleJob, ...) from its JSON text: what informers call.
template <class T>
Result<T> ParseAs(std::string_view text);

}  // namespace paddleop::api
