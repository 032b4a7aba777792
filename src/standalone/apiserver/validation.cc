#include "standalone/apiserver/validation.h"

#include <nlohmann/json.hpp>

#include "api/batch/rules.h"
#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/internal/kind_rules.h"
#include "standalone/apiserver/internal/names.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr std::size_t kMaxAnnotationBytes = 256u << 10;

void CheckName(const Kind& kind, const std::string& name, std::vector<Cause>& out) {
  if (name.empty()) {
    out.push_back(Required("metadata.name", "name or generateName is required"));
    return;
  }
  const auto wrong = kind.type.kind == "Namespace" ? WrongLabelName(name)
                     : kind.type.kind == "Service" ? WrongServiceName(name)
                                                   : WrongSubdomain(name);
  if (wrong) out.push_back(InvalidValue("metadata.name", Quoted(name), *wrong));
}

void CheckLabels(const Json& metadata, std::vector<Cause>& out) {
  const Json* labels = ValueAt(metadata, "labels");
  if (labels == nullptr) return;
  for (const auto& [key, value] : labels->items()) {
    if (const auto wrong = WrongQualifiedName(key)) {
      out.push_back(InvalidValue("metadata.labels", Quoted(key), *wrong));
    }
    if (!value.is_string()) continue;
    if (const auto wrong = WrongLabelValue(value.get_ref<const std::string&>())) {
      out.push_back(InvalidValue("metadata.labels", value.dump(), *wrong));
    }
  }
}

void CheckAnnotations(const Json& metadata, std::vector<Cause>& out) {
  const Json* annotations = ValueAt(metadata, "annotations");
  if (annotations == nullptr) return;
  std::size_t bytes = 0;
  for (const auto& [key, value] : annotations->items()) {
    std::string lower = key;
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (const auto wrong = WrongQualifiedName(lower)) {
      out.push_back(InvalidValue("metadata.annotations", Quoted(key), *wrong));
    }
    bytes += key.size() + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
  }
  if (bytes > kMaxAnnotationBytes) {
    out.push_back({"FieldValueTooLong",
                   fmt::format("Too long: may not be more than {} bytes", kMaxAnnotationBytes),
                   "metadata.annotations"});
  }
}

void CheckOwners(const Json& metadata, std::vector<Cause>& out) {
  int controllers = 0;
  const Json& owners = ListAt(metadata, "ownerReferences");
  for (std::size_t i = 0; i < owners.size(); ++i) {
    for (const char* field : {"apiVersion", "kind", "name", "uid"}) {
      if (TextAt(owners[i], field).empty()) {
        out.push_back(InvalidValue(fmt::format("metadata.ownerReferences[{}].{}", i, field), "\"\"",
                                   fmt::format("{} must not be empty", field)));
      }
    }
    controllers += FlagAt(owners[i], "controller") ? 1 : 0;
  }
  if (controllers > 1) {
    out.push_back(InvalidValue("metadata.ownerReferences", "...",
                               "Only one reference can have Controller set to true"));
  }
}

void CheckFinalizers(const Json& metadata, std::vector<Cause>& out) {
  for (const Json& finalizer : ListAt(metadata, "finalizers")) {
    if (!finalizer.is_string()) continue;
    const auto& text = finalizer.get_ref<const std::string&>();
    if (const auto wrong = WrongQualifiedName(text)) {
      out.push_back(InvalidValue("metadata.finalizers", Quoted(text), *wrong));
    } else if (text.find('/') == std::string::npos && text != "foregroundDeletion" &&
               text != "orphan" && text != "kubernetes") {
      out.push_back(
          InvalidValue("metadata.finalizers", Quoted(text),
                       "name is neither a standard finalizer name nor is it fully qualified"));
    }
  }
}

void CheckFixed(const Json& before, const Json& after, std::vector<Cause>& out) {
  for (const char* field : {"name", "namespace", "uid", "creationTimestamp"}) {
    const std::string path = std::string("metadata.") + field;
    if (TextAt(before, path) != TextAt(after, path)) {
      out.push_back(InvalidValue(path, Quoted(TextAt(after, path)), "field is immutable"));
    }
  }
  // Once an object is going away, nobody may hold it by a new finalizer.
  if (ValueAt(before, "metadata.deletionTimestamp") == nullptr) return;
  const Json& held = ListAt(before, "metadata.finalizers");
  std::string added;
  for (const Json& finalizer : ListAt(after, "metadata.finalizers")) {
    if (std::find(held.begin(), held.end(), finalizer) == held.end()) {
      added += (added.empty() ? "" : ", ") + finalizer.dump();
    }
  }
  if (!added.empty()) {
    out.push_back(ForbiddenField(
        "metadata.finalizers", fmt::format("no new finalizers can be added if the object is being "
                                           "deleted, found new finalizers []string{{{}}}",
                                           added)));
  }
}

template <class T>
void CheckRules(const Json& object, const Json* before, std::vector<Cause>& out) {
  const auto read = api::ParseAs<T>(object.dump());
  if (!read) {
    out.push_back(InvalidValue("spec", "\"object\"", read.error().message()));
    return;
  }
  std::vector<api::Violation> found;
  if (before == nullptr) {
    found = api::Validate(*read);
  } else {
    const auto old = api::ParseAs<T>(before->dump());
    found = old ? api::ValidateUpdate(*old, *read) : api::Validate(*read);
  }
  for (const auto& violation : found) {
    const bool root = violation.field.empty();
    const Json* value = root ? &object : ValueAt(object, violation.field);
    const char* type = value == nullptr || value->is_object() ? "object"
                       : value->is_array()                    ? "array"
                                                              : "string";
    out.push_back(InvalidValue(root ? "<nil>" : violation.field, Quoted(type), violation.message));
  }
}

}  // namespace

std::vector<Cause> ValidateObject(const Kind& kind, const Json& object, const Json* before) {
  std::vector<Cause> out;
  const Json* metadata = ValueAt(object, "metadata");
  static const Json kNone = Json::object();
  if (metadata == nullptr) metadata = &kNone;
  if (before == nullptr) CheckName(kind, TextAt(*metadata, "name"), out);
  CheckLabels(*metadata, out);
  CheckAnnotations(*metadata, out);
  CheckOwners(*metadata, out);
  CheckFinalizers(*metadata, out);
  if (before != nullptr) CheckFixed(*before, object, out);
  if (kind.type == api::PaddleJob::kType) {
    CheckRules<api::PaddleJob>(object, before, out);
  } else if (kind.type == api::SampleSet::kType) {
    CheckRules<api::SampleSet>(object, before, out);
  } else if (kind.type == api::SampleJob::kType) {
    CheckRules<api::SampleJob>(object, before, out);
  } else {
    CheckBuiltin(kind, object, before, out);
  }
  return out;
}

}  // namespace paddleop::standalone::apiserver
