#include "standalone/apiserver/patch.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "standalone/apiserver/internal/json_path.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr std::size_t kMaxOperations = 10'000;  // as kube-apiserver

constexpr char kDirective[] = "$patch";
constexpr char kRetainKeys[] = "$retainKeys";
constexpr std::string_view kDeleteFrom = "$deleteFromPrimitiveList/";
constexpr std::string_view kOrder = "$setElementOrder/";

Answer<Json> JsonPatch(const Json& object, const Json& patch) {
  if (!patch.is_array()) return BadRequest("a JSON patch must be a list of operations");
  if (patch.size() > kMaxOperations) {
    return BadRequest(fmt::format("the JSON patch has {} operations, at most {} are allowed",
                                  patch.size(), kMaxOperations));
  }
  try {
    return object.patch(patch);
  } catch (const Json::parse_error& e) {
    return BadRequest(fmt::format("error decoding patch: {}", e.what()));
  } catch (const Json::exception&) {
    // The API says no more either.
    return Refusal(ApiError{422,
                            "Invalid",
                            "the server rejected our request due to an error in our request",
                            "",
                            "",
                            "",
                            {}});
  }
}

// Strategic merge, by the rules of apimachinery's strategicpatch: fields merge, lists with a merge
// key merge by it, other lists are replaced; directives ($patch, $setElementOrder, ...) say the
// rest.
class StrategicMerge {
 public:
  Answer<Json> Object(const SchemaNode* schema, Json target, const Json& patch) {
    const std::string directive = TextAt(patch, kDirective);
    if (directive == "delete") return Json::object();
    if (directive == "replace") {
      Json out = patch;
      out.erase(kDirective);
      return out;
    }
    if (!target.is_object()) target = Json::object();
    if (const Json& retained = ListAt(patch, kRetainKeys); !retained.empty()) {
      for (auto it = target.begin(); it != target.end();) {
        it = std::find(retained.begin(), retained.end(), it.key()) == retained.end()
                 ? target.erase(it)
                 : std::next(it);
      }
    }
    for (const auto& [name, value] : patch.items()) {
      if (name == kDirective || name == kRetainKeys) continue;
      if (std::string_view(name).starts_with(kOrder)) continue;
      if (std::string_view(name).starts_with(kDeleteFrom)) {
        RemoveValues(target, name.substr(kDeleteFrom.size()), value);
        continue;
      }
      if (value.is_null()) {
        target.erase(name);
        continue;
      }
      const SchemaNode* const field = FieldOf(schema, name);
      ASSIGN_OR_RETURN(Json merged,
                       Value(field, target.contains(name) ? target[name] : Json(), value));
      target[name] = std::move(merged);
    }
    Reorder(schema, target, patch);
    return target;
  }

 private:
  static const SchemaNode* FieldOf(const SchemaNode* schema, const std::string& name) {
    if (schema == nullptr) return nullptr;
    const auto known = schema->properties.find(name);
    return known != schema->properties.end() ? known->second : schema->additional;
  }

  Answer<Json> Value(const SchemaNode* schema, Json target, const Json& patch) {
    if (patch.is_object()) return Object(schema, std::move(target), patch);
    if (!patch.is_array() || schema == nullptr || !schema->patch_merges) return patch;
    if (!target.is_array()) target = Json::array();
    return schema->patch_key.empty() ? Scalars(std::move(target), patch)
                                     : Items(*schema, std::move(target), patch);
  }

  static Json Scalars(Json target, const Json& patch) {
    for (const Json& value : patch) {
      if (std::find(target.begin(), target.end(), value) == target.end()) target.push_back(value);
    }
    return target;
  }

  Answer<Json> Items(const SchemaNode& schema, Json target, const Json& patch) {
    const std::string& key = schema.patch_key;
    for (const Json& item : patch) {
      if (item.is_object() && TextAt(item, kDirective) == "replace" && item.size() == 1) {
        target = Json::array();  // the whole list is replaced by the other items
      }
    }
    for (const Json& item : patch) {
      if (!item.is_object()) return BadRequest("a list of objects can only be patched by objects");
      const std::string directive = TextAt(item, kDirective);
      if (directive == "replace" && item.size() == 1) continue;
      if (!item.contains(key)) {
        return BadRequest(
            fmt::format("map: {} does not contain declared merge key: {}", item.dump(), key));
      }
      const auto same = [&](const Json& other) {
        return other.is_object() && other.contains(key) && other[key] == item[key];
      };
      const auto found = std::find_if(target.begin(), target.end(), same);
      if (directive == "delete") {
        if (found != target.end()) target.erase(found);
        continue;
      }
      if (found == target.end()) {
        ASSIGN_OR_RETURN(Json made, Object(schema.items, Json::object(), item));
        target.push_back(std::move(made));
      } else {
        ASSIGN_OR_RETURN(*found, Object(schema.items, *found, item));
      }
    }
    return target;
  }

  static void RemoveValues(Json& target, const std::string& name, const Json& values) {
    if (!target.contains(name) || !target[name].is_array() || !values.is_array()) return;
    Json kept = Json::array();
    for (const Json& value : target[name]) {
      if (std::find(values.begin(), values.end(), value) == values.end()) kept.push_back(value);
    }
    target[name] = std::move(kept);
  }

  // $setElementOrder: named items in the given order; others keep their place before or after them.
  static void Reorder(const SchemaNode* schema, Json& target, const Json& patch) {
    for (const auto& [name, order] : patch.items()) {
      if (!std::string_view(name).starts_with(kOrder) || !order.is_array()) continue;
      const std::string list = name.substr(kOrder.size());
      if (!target.contains(list) || !target[list].is_array()) continue;
      const SchemaNode* const field = FieldOf(schema, list);
      const std::string key = field == nullptr ? "" : field->patch_key;
      const auto place = [&](const Json& item) {
        for (std::size_t i = 0; i < order.size(); ++i) {
          const bool same = key.empty() ? order[i] == item
                                        : order[i].is_object() && item.is_object() &&
                                              order[i].contains(key) && item.contains(key) &&
                                              order[i][key] == item[key];
          if (same) return i;
        }
        return order.size();
      };
      Json& items = target[list];
      std::stable_sort(items.begin(), items.end(),
                       [&](const Json& a, const Json& b) { return place(a) < place(b); });
    }
  }
};

}  // namespace

Answer<Json> ApplyPatch(const Kind& kind, const SchemaNode& schema, const Json& object,
                        std::string_view content_type, std::string_view patch) {
  const bool strategic = content_type == "application/strategic-merge-patch+json";
  if (content_type == "application/apply-patch+yaml" ||
      content_type == "application/apply-patch+cbor") {
    return UnsupportedMediaType(
        "server-side apply is not supported by this API server: use client-side apply "
        "(kubectl apply without --server-side), a merge patch or a JSON patch");
  }
  if ((strategic && kind.custom) || (!strategic && content_type != "application/json-patch+json" &&
                                     content_type != "application/merge-patch+json")) {
    return UnsupportedMediaType(fmt::format(
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json{}",
        kind.custom ? "" : ", application/strategic-merge-patch+json"));
  }
  auto parsed = api::ParseJson(patch);
  if (!parsed) return BadRequest(fmt::format("error decoding patch: {}", parsed.error().message()));
  if (content_type == "application/json-patch+json") return JsonPatch(object, *parsed);
  if (!parsed->is_object()) return BadRequest("error decoding patch: the patch must be an object");
  if (strategic) return StrategicMerge().Object(&schema, object, *parsed);
  Json out = object;
  out.merge_patch(*parsed);
  return out;
}

}  // namespace paddleop::standalone::apiserver
