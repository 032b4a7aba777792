// YAML and JSON files as objects.
#include <yaml-cpp/yaml.h>

#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "api_client.h"
#include "base/posix.h"

namespace paddleop::cmd {
namespace {

using api::Json;

constexpr int kMaxDepth = 100;

// A plain scalar means what YAML 1.2 says; a quoted one is text.
Json Scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, number);
      read.ec == std::errc() && read.ptr == end) {
    return number;
  }
  double real = 0;
  const bool numeric = text.find_first_not_of("+-.0123456789eE") == std::string::npos &&
                       text.find_first_of("0123456789") != std::string::npos;
  if (const auto read = std::from_chars(text.data(), end, real);
      numeric && read.ec == std::errc() && read.ptr == end) {
    return real;
  }
  return text;
}

Result<Json> FromYaml(const YAML::Node& node, int depth) {
  if (depth > kMaxDepth) return Fail(Code::kInvalid, "nested deeper than {} levels", kMaxDepth);
  if (node.IsMap()) {
    Json out = Json::object();
    for (const auto& entry : node) {
      ASSIGN_OR_RETURN(out[entry.first.Scalar()], FromYaml(entry.second, depth + 1));
    }
    return out;
  }
  if (node.IsSequence()) {
    Json out = Json::array();
    for (const auto& entry : node) {
      ASSIGN_OR_RETURN(Json item, FromYaml(entry, depth + 1));
      out.push_back(std::move(item));
    }
    return out;
  }
  if (node.IsScalar()) return Scalar(node);
  return Json(nullptr);
}

Result<std::string> ReadText(const std::string& file) {
  if (file == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  return ReadFile(file);
}

Result<std::vector<Json>> ParseDocuments(const std::string& file, const std::string& text) {
  std::vector<Json> out;
  try {
    for (const YAML::Node& node : YAML::LoadAll(text)) {
      if (!node || node.IsNull()) continue;
      ASSIGN_OR_RETURN(Json json, FromYaml(node, 0));
      out.push_back(std::move(json));
    }
  } catch (const YAML::Exception& e) {
    return Fail(Code::kInvalid, "{}: {}", file, e.what());
  }
  return out;
}

bool IsText(const Json& object, const char* name, bool needed) {
  return object.contains(name) ? object[name].is_string() : !needed;
}

// What the commands take for granted of an object.
Result<void> CheckObject(const std::string& file, const Json& object) {
  if (!object.is_object() || !IsText(object, "kind", true) || !IsText(object, "apiVersion", true)) {
    return Fail(Code::kInvalid, "{}: a document has no apiVersion and kind", file);
  }
  if (!object.contains("metadata")) return {};
  const Json& metadata = object["metadata"];
  if (metadata.is_object() && IsText(metadata, "name", false) &&
      IsText(metadata, "namespace", false)) {
    return {};
  }
  return Fail(Code::kInvalid, "{}: metadata of a {} must be an object; its name is text", file,
              object["kind"].get<std::string>());
}

}  // namespace

Result<std::vector<Json>> ReadManifests(const std::vector<std::string>& files) {
  std::vector<Json> out;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::string text, ReadText(file));
    ASSIGN_OR_RETURN(std::vector<Json> documents, ParseDocuments(file, text));
    for (Json& document : documents) {
      RETURN_IF_ERROR(CheckObject(file, document));
      if (document["kind"].get<std::string>().ends_with("List") && document.contains("items")) {
        for (const Json& item : document["items"]) {
          RETURN_IF_ERROR(CheckObject(file, item));
          out.push_back(item);
        }
      } else {
        out.push_back(std::move(document));
      }
    }
  }
  return out;
}

}  // namespace paddleop::cmd
