#include "standalone/apiserver/schema.h"

#include <nlohmann/json.hpp>

#include "api/batch/crd.h"
#include "base/check.h"
#include "standalone/apiserver/internal/json_path.h"

namespace paddleop::standalone::apiserver {

using api::Json;

// Compiles each named schema once; references point to it.
class SchemaSet::Compiler {
 public:
  Compiler(SchemaSet& set, const Json& texts) : set_(set), texts_(texts) {}

  const SchemaNode* Named(const std::string& name) {
    if (const auto known = set_.named_.find(name); known != set_.named_.end()) {
      return known->second.get();
    }
    const auto text = texts_.find(name);
    CHECK(text != texts_.end(), "schema {} is missing", name);
    // Known before its parts are read: they may refer back to it.
    auto& node = set_.named_[name];
    node = std::make_unique<SchemaNode>();
    SchemaNode* const filled = node.get();
    filled->name = name;
    Fill(*filled, *text);
    if (name.ends_with(".resource.Quantity") || name.ends_with(".intstr.IntOrString")) {
      filled->type = SchemaNode::Type::kIntOrString;
    }
    if (name.ends_with(".FieldsV1") || name.ends_with(".RawExtension")) {
      filled->preserve_unknown = true;
    }
    // Of new events only, which is a rule; those that came by core's group need none.
    if (name == "io.k8s.api.events.v1.Event") filled->required.clear();
    return filled;
  }

  const SchemaNode* Add(const Json& text) {
    std::string reference = TextAt(text, "$ref");
    for (const Json& part : ListAt(text, "allOf")) {
      if (reference.empty()) reference = TextAt(part, "$ref");
    }
    if (!reference.empty()) {
      return Named(reference.substr(reference.rfind('/') + 1));
    }
    set_.nodes_.push_back(std::make_unique<SchemaNode>());
    SchemaNode* const node = set_.nodes_.back().get();
    Fill(*node, text);
    return node;
  }

 private:
  static SchemaNode::Type TypeOf(const Json& text) {
    using Type = SchemaNode::Type;
    if (FlagAt(text, "x-kubernetes-int-or-string")) return Type::kIntOrString;
    const std::string type = TextAt(text, "type");
    if (type == "object") return Type::kObject;
    if (type == "array") return Type::kArray;
    if (type == "string") return Type::kString;
    if (type == "integer") return Type::kInteger;
    if (type == "number") return Type::kNumber;
    if (type == "boolean") return Type::kBoolean;
    return Type::kAny;
  }

  void Fill(SchemaNode& node, const Json& text) {
    node.type = TypeOf(text);
    node.format = TextAt(text, "format");
    node.preserve_unknown = FlagAt(text, "x-kubernetes-preserve-unknown-fields");
    if (const Json* properties = ValueAt(text, "properties")) {
      for (const auto& [name, schema] : properties->items()) {
        node.properties.emplace(name, Add(schema));
      }
    }
    if (const Json* values = ValueAt(text, "additionalProperties"); values && values->is_object()) {
      node.additional = Add(*values);
    }
    if (const Json* items = ValueAt(text, "items")) node.items = Add(*items);
    for (const Json& name : ListAt(text, "required")) node.required.push_back(name);
    if (const auto found = text.find("default"); found != text.end()) {
      node.default_json = found->dump();
    }
    if (text.contains("maxItems")) node.max_items = NumberAt(text, "maxItems");
    if (text.contains("maxLength")) node.max_length = NumberAt(text, "maxLength");
    for (const Json& key : ListAt(text, "x-kubernetes-list-map-keys")) {
      node.merge_keys.push_back(key);
    }
    node.patch_key = TextAt(text, "x-kubernetes-patch-merge-key");
    const std::string strategy = TextAt(text, "x-kubernetes-patch-strategy");
    node.patch_merges = strategy.find("merge") != std::string::npos;
    node.patch_retains_keys = strategy.find("retainKeys") != std::string::npos;
  }

  SchemaSet& set_;
  const Json& texts_;
};

SchemaSet::SchemaSet() {
  // Descriptions are most of the text and nothing here reads them.
  const auto keep = [](int, Json::parse_event_t event, Json& parsed) {
    return event != Json::parse_event_t::key || parsed != "description";
  };
  Json texts = Json::parse(BuiltinSchemaText(), keep);
  // The descriptions' keys are gone; a property of that name never occurs in these kinds.
  constexpr char kMeta[] = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
  for (const Json& definition : api::CustomResourceDefinitions()) {
    const Json& version = definition["spec"]["versions"][0];
    const Kind* kind = FindKind(TextAt(definition, "spec.group"), TextAt(version, "name"),
                                TextAt(definition, "spec.names.plural"));
    CHECK(kind != nullptr, "a CRD that is not served");
    Json schema = version["schema"]["openAPIV3Schema"];
    schema["properties"]["metadata"] = {{"$ref", std::string("#/components/schemas/") + kMeta}};
    texts[kind->schema] = std::move(schema);
  }
  Compiler compiler(*this, texts);
  for (const Kind& kind : Kinds()) compiler.Named(kind.schema);
  for (const char* name : {"io.k8s.api.autoscaling.v1.Scale", "io.k8s.api.core.v1.Binding"}) {
    compiler.Named(name);
  }
}

SchemaSet::~SchemaSet() = default;

const SchemaNode& SchemaSet::Of(const Kind& kind) const { return Named(kind.schema); }

const SchemaNode& SchemaSet::Named(const std::string& name) const {
  const auto found = named_.find(name);
  CHECK(found != named_.end(), "no schema {}", name);
  return *found->second;
}

}  // namespace paddleop::standalone::apiserver
