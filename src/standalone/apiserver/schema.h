// What an object of a kind may look like: the schemas of built-in kinds as kube-apiserver publishes
// them, and those of our CRDs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/json.h"
#include "standalone/apiserver/api_error.h"
#include "standalone/apiserver/kinds.h"

namespace paddleop::standalone::apiserver {

// One node of a schema, compiled for checking. Nodes are shared and may refer to each other in
// circles.
struct SchemaNode {
  enum class Type { kAny, kObject, kArray, kString, kInteger, kNumber, kBoolean, kIntOrString };

  Type type = Type::kAny;
  std::string name;  // of a named schema: io.k8s.api.core.v1.ContainerPort
  std::string format;
  std::map<std::string, const SchemaNode*, std::less<>> properties;
  const SchemaNode* additional = nullptr;  // values of a map
  const SchemaNode* items = nullptr;
  std::vector<std::string> required;
  bool preserve_unknown = false;
  std::optional<std::string> default_json;
  std::int64_t max_items = -1;
  std::int64_t max_length = -1;
  std::vector<std::string> merge_keys;  // x-kubernetes-list-map-keys: no two items may share them
  // Of strategic merge patches.
  std::string patch_key;
  bool patch_merges = false;
  bool patch_retains_keys = false;
};

class SchemaSet {
 public:
  SchemaSet();
  ~SchemaSet();
  SchemaSet(const SchemaSet&) = delete;
  SchemaSet& operator=(const SchemaSet&) = delete;

  const SchemaNode& Of(const Kind& kind) const;
  const SchemaNode& Named(const std::string& name) const;

 private:
  class Compiler;
  std::map<std::string, std::unique_ptr<SchemaNode>> named_;
  std::vector<std::unique_ptr<SchemaNode>> nodes_;
};

// What reading an object by its schema has found.
struct SchemaFindings {
  std::vector<std::string> unknown;      // paths of fields nobody knows; they are taken out
  std::vector<std::string> wrong_types;  // of built-in kinds: cannot even be decoded
  std::vector<Cause> causes;             // what is wrong otherwise
};

// Takes unknown fields out of the object, puts defaults in, and says what is wrong with it.
// Built-in kinds are read as Go reads them: null is absent.
SchemaFindings ReadBySchema(const Kind& kind, const SchemaNode& schema, api::Json& object);

// The text of the built-in schemas.
std::string_view BuiltinSchemaText();

}  // namespace paddleop::standalone::apiserver
