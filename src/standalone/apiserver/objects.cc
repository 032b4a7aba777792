#include "standalone/apiserver/objects.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/meta/time.h"
#include "base/crypto.h"
#include "standalone/apiserver/defaults.h"
#include "standalone/apiserver/event_forms.h"
#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/patch.h"
#include "standalone/apiserver/validation.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

// A patch that never finds the object unchanged is somebody's bug; the API gives up as well.
constexpr int kMaxTries = 50;

Json ParseStored(const ObjectPtr& object) { return Json::parse(object->json); }

// As the API makes them: without vowels, so that no words come out.
std::string RandomSuffix() {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (const char byte : RandomBytes(5)) {
    out += kLetters[static_cast<unsigned char>(byte) % kLetters.size()];
  }
  return out;
}

bool HasFinalizers(const Json& object) { return !ListAt(object, "metadata.finalizers").empty(); }

// Does something other than finalizers still hold an object that is being deleted?
bool AwaitsGrace(const Kind& kind, const Json& object) {
  if (kind.type.kind == "Namespace") return !ListAt(object, "spec.finalizers").empty();
  return kind.type.kind == "Pod" && NumberAt(object, "metadata.deletionGracePeriodSeconds") > 0;
}

void KeepField(const Json& before, Json& after, const char* name) {
  if (before.contains(name)) {
    after[name] = before[name];
  } else {
    after.erase(name);
  }
}

// What only the server writes.
void KeepServerFields(const Json& before, Json& after) {
  for (const char* name : {"uid", "creationTimestamp", "deletionTimestamp",
                           "deletionGracePeriodSeconds", "generation", "resourceVersion"}) {
    KeepField(before, after, name);
  }
  after.erase("managedFields");
  after.erase("selfLink");
}

// The CRDs' rules are not asked about an object of the wrong shape; the API says so.
bool KeepsRulesFromRunning(const Cause& cause) {
  return cause.reason == "FieldValueRequired" || cause.reason == "FieldValueTypeInvalid" ||
         cause.reason == "FieldValueTooLong" || cause.reason == "FieldValueTooMany";
}

bool SpecChanged(const Kind& kind, const Json& before, const Json& after) {
  if (!kind.custom) return before.value("spec", Json()) != after.value("spec", Json());
  Json a = before;
  Json b = after;
  for (Json* side : {&a, &b}) {
    side->erase("metadata");
    side->erase("status");
  }
  return a != b;
}

}  // namespace

Objects::Objects(Store& store, const SchemaSet& schemas, Clock& clock)
    : store_(store), schemas_(schemas), clock_(clock) {}

std::string Objects::Now(std::int64_t later_seconds) const {
  return api::FormatTime(std::chrono::floor<std::chrono::seconds>(clock_.WallNow()) +
                         std::chrono::seconds(later_seconds));
}

Answer<ObjectPtr> Objects::Get(const Kind& kind, const api::ObjectKey& key) const {
  auto object = store_.Get(StoredKind(kind), key);
  if (object == nullptr) return NotFound(kind, key.name);
  return ShownAs(kind, std::move(object));
}

Store::Snapshot Objects::List(const Kind& kind, const std::string& ns) const {
  auto all = store_.List(StoredKind(kind), ns);
  if (!kind.other_form()) return all;
  for (ObjectPtr& object : all.objects) object = ShownAs(kind, std::move(object));
  return all;
}

// Takes the object by its schema; says what has no place in it.
Answer<void> Objects::Read(const Kind& kind, Json& object, const WriteOptions& options) const {
  auto found = ReadBySchema(kind, schemas_.Of(kind), object);
  const std::string version(kind.type.version);
  if (!found.wrong_types.empty()) {
    return BadRequest(fmt::format("{} in version \"{}\" cannot be handled as a {}: json: {}",
                                  kind.type.kind, version, kind.type.kind,
                                  found.wrong_types.front()));
  }
  std::vector<std::string> odd;
  odd.reserve(options.duplicates.size() + found.unknown.size());
  for (const std::string& field : options.duplicates) {
    odd.push_back(fmt::format("duplicate field {}", Quoted(field)));
  }
  for (const std::string& field : found.unknown) {
    odd.push_back(fmt::format("unknown field {}", Quoted(field)));
  }
  if (!odd.empty() && options.fields == FieldValidation::kStrict && !options.patch.empty()) {
    return InvalidRequest(
        {InvalidValue("patch", Quoted(options.patch),
                      fmt::format("strict decoding error: {}", fmt::join(odd, ", ")))});
  }
  if (!odd.empty() && options.fields == FieldValidation::kStrict) {
    return BadRequest(
        fmt::format("{} in version \"{}\" cannot be handled as a {}: strict decoding "
                    "error: {}",
                    kind.type.kind, version, kind.type.kind, fmt::join(odd, ", ")));
  }
  if (options.fields == FieldValidation::kWarn && options.warnings != nullptr) {
    options.warnings->insert(options.warnings->end(), odd.begin(), odd.end());
  }
  if (!found.causes.empty()) {
    if (kind.custom &&
        std::any_of(found.causes.begin(), found.causes.end(), KeepsRulesFromRunning)) {
      found.causes.push_back(InvalidValue(
          "<nil>", "\"null\"",
          "some validation rules were not checked because the object was invalid; correct the "
          "existing errors to complete validation"));
    }
    return Invalid(kind, TextAt(object, "metadata.name"), std::move(found.causes));
  }
  return {};
}

Answer<void> Objects::CheckNamespace(const Kind& kind, const std::string& ns,
                                     std::string_view name) const {
  if (!kind.type.namespaced) return {};
  const Kind& spaces = CoreKind("Namespace");
  const auto space = store_.Latest(spaces, {"", ns});
  if (space == nullptr) return NotFound(spaces, ns);
  if (space->deleting) {
    return Forbidden(kind, name,
                     fmt::format("unable to create new content in namespace {} because it is being "
                                 "terminated",
                                 ns));
  }
  return {};
}

Answer<ObjectPtr> Objects::Create(const Kind& kind, const std::string& ns, Json body,
                                  const WriteOptions& options) {
  Json& metadata = body["metadata"];
  if (!metadata.is_object()) metadata = Json::object();
  if (!TextAt(metadata, "resourceVersion").empty()) {
    return BadRequest("resourceVersion should not be set on objects to be created");
  }
  if (kind.type.namespaced) metadata["namespace"] = ns;
  const bool generated =
      TextAt(metadata, "name").empty() && !TextAt(metadata, "generateName").empty();
  if (generated) metadata["name"] = TextAt(metadata, "generateName").substr(0, 58) + RandomSuffix();
  RETURN_IF_ERROR(CheckNamespace(kind, ns, TextAt(metadata, "name")));
  if (kind.has_status) body.erase("status");
  RETURN_IF_ERROR(Read(kind, body, options));
  for (const char* name : {"managedFields", "selfLink", "deletionTimestamp",
                           "deletionGracePeriodSeconds", "generation", "resourceVersion"}) {
    body["metadata"].erase(name);
  }
  body["metadata"]["uid"] = RandomUuid();
  body["metadata"]["creationTimestamp"] = Now();
  if (kind.has_generation) body["metadata"]["generation"] = 1;
  SetDefaults(kind, body, true);
  if (auto causes = ValidateObject(kind, body, nullptr); !causes.empty()) {
    return Invalid(kind, TextAt(body, "metadata.name"), std::move(causes));
  }
  const std::string name = TextAt(body, "metadata.name");
  if (options.dry_run) {
    if (store_.Latest(StoredKind(kind), {ns, name}) != nullptr) return AlreadyExists(kind, name);
    auto made = MakeObject(kind, std::move(body), 0);
    return ObjectPtr(std::move(made));
  }
  auto made = store_.Put(StoredKind(kind), nullptr, ToStored(kind, std::move(body)));
  if (made) return ShownAs(kind, *std::move(made));
  if (IsAlreadyExists(made.error())) return AlreadyExists(kind, name);
  return Internal(made.error());
}

Answer<Json> Objects::Prepare(const Kind& kind, std::string_view subresource, const Json& before,
                              Json after, const WriteOptions& options) const {
  const std::string name = TextAt(before, "metadata.name");
  if (!after.is_object() || !after.contains("metadata") || !after["metadata"].is_object()) {
    return Invalid(kind, name, {Required("metadata", "an object has metadata")});
  }
  const std::string uid = TextAt(after, "metadata.uid");
  if (!uid.empty() && uid != TextAt(before, "metadata.uid")) {
    return Conflict(
        kind, name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid,
                    TextAt(before, "metadata.uid")));
  }
  const std::string version = TextAt(after, "metadata.resourceVersion");
  if (!version.empty() && version != TextAt(before, "metadata.resourceVersion")) {
    return ModifiedMeanwhile(kind, name);
  }
  if (subresource == "status") {
    Json next = before;
    KeepField(after, next, "status");
    if (!kind.custom) {
      for (const char* field : {"labels", "annotations", "finalizers"}) {
        KeepField(after["metadata"], next["metadata"], field);
      }
    }
    after = std::move(next);
  } else if (kind.has_status) {
    KeepField(before, after, "status");
  }
  RETURN_IF_ERROR(Read(kind, after, options));
  KeepServerFields(before["metadata"], after["metadata"]);
  SetDefaults(kind, after, false);
  if (kind.has_generation && subresource.empty() && SpecChanged(kind, before, after)) {
    after["metadata"]["generation"] = NumberAt(before, "metadata.generation") + 1;
  }
  if (after != before) {
    if (auto causes = ValidateObject(kind, after, &before); !causes.empty()) {
      return Invalid(kind, name, std::move(causes));
    }
  }
  return after;
}

Answer<ObjectPtr> Objects::Replace(const Kind& kind, const ObjectPtr& before, Json after,
                                   bool dry_run) {
  if (dry_run) return ObjectPtr(MakeObject(kind, std::move(after), before->revision));
  const bool free = before->deleting && !HasFinalizers(after) && !AwaitsGrace(kind, after);
  auto written = free ? store_.Remove(before)
                      : store_.Put(*before->kind, before, ToStored(kind, std::move(after)));
  if (written) return ShownAs(kind, *std::move(written));
  if (IsConflict(written.error())) return ModifiedMeanwhile(kind, before->name);
  return Internal(written.error());
}

Answer<ObjectPtr> Objects::Modify(const Kind& kind, const api::ObjectKey& key,
                                  std::string_view subresource, bool versioned,
                                  const WriteOptions& options, const Make& make) {
  for (int tries = 1;; ++tries) {
    const ObjectPtr before = store_.Latest(StoredKind(kind), key);
    if (before == nullptr) return NotFound(kind, key.name);
    const Json current = FromStored(kind, ParseStored(before));
    ASSIGN_OR_RETURN(Json made, make(current));
    ASSIGN_OR_RETURN(Json after, Prepare(kind, subresource, current, std::move(made), options));
    if (after == current) return ShownAs(kind, before);
    auto written = Replace(kind, before, std::move(after), options.dry_run);
    if (written || written.error().code != 409 || versioned || tries >= kMaxTries) return written;
  }
}

Answer<ObjectPtr> Objects::Update(const Kind& kind, const api::ObjectKey& key,
                                  std::string_view subresource, Json body,
                                  const WriteOptions& options) {
  const bool versioned = !TextAt(body, "metadata.resourceVersion").empty();
  if (!versioned && kind.custom) {
    return Invalid(
        kind, key.name,
        {InvalidValue("metadata.resourceVersion", "0x0", "must be specified for an update")});
  }
  if (kind.type.namespaced && body.contains("metadata") && body["metadata"].is_object()) {
    body["metadata"]["namespace"] = key.ns;
  }
  return Modify(kind, key, subresource, versioned, options,
                [&](const Json&) -> Answer<Json> { return body; });
}

Answer<ObjectPtr> Objects::Patch(const Kind& kind, const api::ObjectKey& key,
                                 std::string_view subresource, std::string_view content_type,
                                 std::string_view patch, const WriteOptions& options) {
  WriteOptions with_patch = options;
  with_patch.patch = patch;
  return Modify(
      kind, key, subresource, false, with_patch, [&](const Json& current) -> Answer<Json> {
        ASSIGN_OR_RETURN(Json after,
                         ApplyPatch(kind, schemas_.Of(kind), current, content_type, patch));
        for (const char* field : {"apiVersion", "kind"}) {
          if (after.value(field, Json()) != current.value(field, Json())) {
            return BadRequest(fmt::format("the patch changes {}, which cannot be changed", field));
          }
        }
        return after;
      });
}

Json Objects::MarkDeleted(const Kind& kind, Json object, std::int64_t grace,
                          const DeleteRequest& request) const {
  Json& metadata = object["metadata"];
  const bool already = metadata.contains("deletionTimestamp");
  if (!already || grace < NumberAt(metadata, "deletionGracePeriodSeconds")) {
    metadata["deletionTimestamp"] = Now(grace);
    metadata["deletionGracePeriodSeconds"] = grace;
  }
  if (!already && kind.has_generation) {
    metadata["generation"] = NumberAt(metadata, "generation") + 1;
  }
  if (kind.type.kind == "Namespace") {
    metadata.erase("deletionGracePeriodSeconds");
    object["status"]["phase"] = "Terminating";
  }
  const char* held = request.propagation == kube::Propagation::kForeground ? "foregroundDeletion"
                     : request.propagation == kube::Propagation::kOrphan   ? "orphan"
                                                                           : nullptr;
  if (held != nullptr && !already) {
    Json& finalizers = metadata["finalizers"];
    if (!finalizers.is_array()) finalizers = Json::array();
    if (std::find(finalizers.begin(), finalizers.end(), held) == finalizers.end()) {
      finalizers.push_back(held);
    }
  }
  return object;
}

Answer<Objects::Deleted> Objects::Delete(const Kind& kind, const api::ObjectKey& key,
                                         const DeleteRequest& request) {
  if (kind.type.kind == "Namespace" && key.name == "default") {
    return Forbidden(kind, key.name, "this namespace may not be deleted");
  }
  for (int tries = 1;; ++tries) {
    const ObjectPtr before = store_.Latest(StoredKind(kind), key);
    if (before == nullptr) return NotFound(kind, key.name);
    if (!request.uid.empty() && request.uid != before->uid) {
      return Conflict(
          kind, key.name,
          fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}",
                      request.uid, before->uid));
    }
    if (!request.resource_version.empty() &&
        request.resource_version != std::to_string(before->revision)) {
      return Conflict(kind, key.name,
                      fmt::format("Precondition failed: ResourceVersion in precondition: {}, "
                                  "ResourceVersion in object meta: {}",
                                  request.resource_version, before->revision));
    }
    const Json current = ParseStored(before);
    std::int64_t grace = 0;
    if (kind.type.kind == "Pod") {
      const std::string phase = TextAt(current, "status.phase");
      const bool runs =
          !TextAt(current, "spec.nodeName").empty() && phase != "Succeeded" && phase != "Failed";
      grace =
          request.grace_seconds.value_or(NumberAt(current, "spec.terminationGracePeriodSeconds"));
      if (!runs) grace = 0;
    }
    Json marked = MarkDeleted(kind, current, grace, request);
    const bool gone = !HasFinalizers(marked) && !AwaitsGrace(kind, marked);
    if (request.dry_run) return Deleted{ShownAs(kind, before), gone};
    if (!gone && marked == current) return Deleted{ShownAs(kind, before), false};
    // Who watches pods is told first that one is going, also where it goes at once.
    const bool told = kind.type.kind == "Pod" && marked != current;
    auto written = gone && !told ? store_.Remove(before)
                                 : store_.Put(*before->kind, before, std::move(marked));
    if (gone && told && written) written = store_.Remove(*written);
    if (written) return Deleted{ShownAs(kind, *std::move(written)), gone};
    if (!IsConflict(written.error())) return Internal(written.error());
    if (tries >= kMaxTries) return ModifiedMeanwhile(kind, key.name);
  }
}

}  // namespace paddleop::standalone::apiserver
