#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <set>

#include "api/meta/time.h"
#include "standalone/apiserver/schema.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;
using Type = SchemaNode::Type;

std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kObject:
      return "object";
    case Type::kArray:
      return "array";
    case Type::kString:
      return "string";
    case Type::kInteger:
    case Type::kIntOrString:
      return "integer";
    case Type::kNumber:
      return "number";
    case Type::kBoolean:
      return "boolean";
    case Type::kAny:
      break;
  }
  return "any";
}

std::string_view FoundName(const Json& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  return "null";
}

// A value's kind, and a field's type, as Go's decoder calls them: clients print its words.
std::string_view GoFound(const Json& value) {
  if (value.is_number()) return "number";
  return value.is_boolean() ? "bool" : FoundName(value);
}

// io.k8s.api.core.v1.ContainerPort: {"v1", "ContainerPort"}
std::pair<std::string, std::string> GoNames(const std::string& schema) {
  const auto last = schema.rfind('.');
  if (last == std::string::npos) return {"", schema};
  const auto before = schema.rfind('.', last - 1);
  return {schema.substr(before + 1, last - before - 1), schema.substr(last + 1)};
}

std::string GoType(const SchemaNode& schema) {
  switch (schema.type) {
    case Type::kInteger:
      return schema.format == "int32" ? "int32" : "int64";
    case Type::kNumber:
      return "float64";
    case Type::kBoolean:
      return "bool";
    case Type::kArray:
      return "[]" + (schema.items == nullptr ? std::string("string") : GoType(*schema.items));
    case Type::kObject:
      if (!schema.name.empty()) {
        const auto [package, name] = GoNames(schema.name);
        return package + "." + name;
      }
      if (schema.additional != nullptr) return "map[string]" + GoType(*schema.additional);
      break;
    default:
      break;
  }
  return std::string(TypeName(schema.type));
}

// "spec.containers[1].ports": without the numbers.
std::string WithoutIndices(const std::string& path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    inside = c == '[' || (inside && c != ']');
    if (!inside && c != ']') out += c;
  }
  return out;
}

bool Fits(const SchemaNode& schema, const Json& value) {
  switch (schema.type) {
    case Type::kObject:
      return value.is_object();
    case Type::kArray:
      return value.is_array();
    case Type::kString:
      return value.is_string();
    case Type::kInteger:
      return value.is_number_integer();
    case Type::kNumber:
      return value.is_number();
    case Type::kBoolean:
      return value.is_boolean();
    case Type::kIntOrString:
      return value.is_number() || value.is_string();
    case Type::kAny:
      return true;
  }
  return true;
}

// Walks object and schema together.
class Reader {
 public:
  Reader(const Kind& kind, SchemaFindings& findings) : custom_(kind.custom), findings_(findings) {}

  void Read(const SchemaNode& schema, Json& value, const std::string& path) {
    if (!Fits(schema, value)) return WrongType(schema, value, path);
    if (value.is_object()) {
      ReadObject(schema, value, path);
    } else if (value.is_array()) {
      ReadArray(schema, value, path);
    } else {
      CheckScalar(schema, value, path);
    }
  }

 private:
  static std::string Join(const std::string& path, const std::string& name) {
    return path.empty() ? name : fmt::format("{}.{}", path, name);
  }

  void WrongType(const SchemaNode& schema, const Json& value, const std::string& path) {
    if (custom_ && !path.starts_with("metadata")) {
      findings_.causes.push_back(
          {"FieldValueTypeInvalid",
           fmt::format("Invalid value: {}: {} in body must be of type {}: {}",
                       Quoted(FoundName(value)), path, TypeName(schema.type),
                       Quoted(FoundName(value))),
           path});
    } else {
      findings_.wrong_types.push_back(CannotUnmarshal(std::string(GoFound(value)), schema, path));
    }
  }

  std::string CannotUnmarshal(const std::string& what, const SchemaNode& schema,
                              const std::string& path) const {
    return fmt::format("cannot unmarshal {} into Go struct field {}.{} of type {}", what, struct_,
                       WithoutIndices(path), GoType(schema));
  }

  // Status is what programs report: a required field missing there is their zero value.
  bool ChecksRequired(const std::string& path) const {
    return custom_ ||
           !(path == "status" || path.starts_with("status.") || path.starts_with("metadata"));
  }

  void ReadObject(const SchemaNode& schema, Json& value, const std::string& path) {
    const std::string outer = struct_;
    if (!schema.name.empty()) struct_ = GoNames(schema.name).second;
    ReadFields(schema, value, path);
    struct_ = outer;
  }

  void ReadFields(const SchemaNode& schema, Json& value, const std::string& path) {
    for (auto it = value.begin(); it != value.end();) {
      const auto known = schema.properties.find(it.key());
      const SchemaNode* const field =
          known != schema.properties.end() ? known->second : schema.additional;
      if (field == nullptr && !schema.preserve_unknown &&
          (!schema.properties.empty() || schema.type == Type::kObject) && !IsFreeForm(schema)) {
        findings_.unknown.push_back(Join(path, it.key()));
        it = value.erase(it);
        continue;
      }
      if (it->is_null() && DropsNull(field)) {
        it = value.erase(it);
        continue;
      }
      if (field != nullptr) Read(*field, *it, Join(path, it.key()));
      ++it;
    }
    AddDefaults(schema, value);
    if (!ChecksRequired(path)) return;
    for (const std::string& name : schema.required) {
      if (!value.contains(name)) findings_.causes.push_back(Required(Join(path, name)));
    }
  }

  // An object of which nothing is said may hold anything (RawExtension, FieldsV1).
  bool IsFreeForm(const SchemaNode& schema) const {
    return !custom_ && schema.properties.empty() && schema.additional == nullptr;
  }

  bool DropsNull(const SchemaNode* field) const {
    if (field == nullptr) return false;
    return !custom_ || field->default_json.has_value() || field->format == "date-time";
  }

  // Of built-in kinds the published defaults are Go's zero values; the real ones are in
  // defaults.cc.
  void AddDefaults(const SchemaNode& schema, Json& value) const {
    if (!custom_) return;
    for (const auto& [name, field] : schema.properties) {
      if (field->default_json && !value.contains(name) && name != "metadata") {
        value[name] = Json::parse(*field->default_json);
      }
    }
  }

  void ReadArray(const SchemaNode& schema, Json& value, const std::string& path) {
    if (schema.max_items >= 0 && value.size() > static_cast<std::size_t>(schema.max_items)) {
      findings_.causes.push_back(
          {"FieldValueTooMany",
           fmt::format("Too many: {}: must have at most {} items", value.size(), schema.max_items),
           path});
    }
    if (schema.items == nullptr) return;
    for (std::size_t i = 0; i < value.size(); ++i) {
      Read(*schema.items, value[i], fmt::format("{}[{}]", path, i));
    }
    if (custom_ && !schema.merge_keys.empty()) CheckKeys(schema, value, path);
  }

  void CheckKeys(const SchemaNode& schema, const Json& value, const std::string& path) {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (!value[i].is_object()) return;
      Json key = Json::object();
      for (const std::string& name : schema.merge_keys) {
        if (value[i].contains(name)) key[name] = value[i][name];
      }
      if (!seen.insert(key.dump()).second) {
        findings_.causes.push_back(DuplicateValue(fmt::format("{}[{}]", path, i), key.dump()));
      }
    }
  }

  void CheckScalar(const SchemaNode& schema, const Json& value, const std::string& path) {
    if (value.is_string() && schema.max_length >= 0 &&
        value.get_ref<const std::string&>().size() > static_cast<std::size_t>(schema.max_length)) {
      findings_.causes.push_back(
          {"FieldValueTooLong",
           fmt::format("Too long: may not be more than {} bytes", schema.max_length), path});
    }
    if (value.is_string() && schema.format == "date-time" &&
        !api::ParseMicroTime(value.get_ref<const std::string&>())) {
      const std::string text = value.get<std::string>();
      if (custom_ && !path.starts_with("metadata")) {
        findings_.causes.push_back(InvalidValue(
            path, Quoted(text),
            fmt::format("{} in body must be of type date-time: {}", path, Quoted(text))));
      } else {
        findings_.wrong_types.push_back(
            fmt::format("parsing time {} of field {}", Quoted(text), path));
      }
    }
    if (schema.format == "int32" && value.is_number_integer() &&
        (value.is_number_unsigned() ? value.get<std::uint64_t>() > 2147483647ULL
                                    : value.get<std::int64_t>() < -2147483648LL)) {
      if (custom_) {
        findings_.causes.push_back(
            InvalidValue(path, value.dump(),
                         fmt::format("{} in body must be of type int32: {}", path, value.dump())));
      } else {
        findings_.wrong_types.push_back(CannotUnmarshal("number " + value.dump(), schema, path));
      }
    }
  }

  const bool custom_;
  SchemaFindings& findings_;
  std::string struct_;  // Go's name for the object that is being read
};

}  // namespace

SchemaFindings ReadBySchema(const Kind& kind, const SchemaNode& schema, Json& object) {
  SchemaFindings findings;
  Reader(kind, findings).Read(schema, object, "");
  return findings;
}

}  // namespace paddleop::standalone::apiserver
