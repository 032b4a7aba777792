// Patches as values: what we mean to change, and nothing else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paddleop::kube {

// Writes only if the object is still this one; empty fields are not checked. A mismatch is
// kConflict.
struct Preconditions {
  std::string uid;
  std::string resource_version;

  bool empty() const { return uid.empty() && resource_version.empty(); }
};

enum class PatchType {
  kJson,       // RFC 6902
  kMerge,      // RFC 7386
  kStrategic,  // built-in kinds only; lists merge by key
};

struct ObjectPatch {
  PatchType type = PatchType::kMerge;
  std::string body;
  std::string subresource;  // "status" or empty
  Preconditions preconditions;
};

// Builds an RFC 6902 patch. Values are JSON text; use JsonString() for strings.
//
//   JsonPatch().Test("/metadata/uid", JsonString(uid)).Remove("/metadata/finalizers/0").Build();
class JsonPatch {
 public:
  // The server refuses the whole patch with kConflict when the value there is another.
  JsonPatch& Test(std::string_view path, std::string_view value_json);
  JsonPatch& Add(std::string_view path, std::string_view value_json);
  JsonPatch& Replace(std::string_view path, std::string_view value_json);
  JsonPatch& Remove(std::string_view path);

  bool empty() const { return operations_.empty(); }
  ObjectPatch Build(std::string subresource = "") const;

 private:
  std::vector<std::string> operations_;
};

// `text` as a JSON string, with its quotes.
std::string JsonString(std::string_view text);
// `part` as one part of a JSON pointer: "a/b" becomes "a~1b".
std::string PointerPart(std::string_view part);

ObjectPatch MergePatch(std::string body, std::string subresource = "",
                       Preconditions preconditions = {});

// The merge patch that turns `before` into `after`, or nullopt when they are equal. Objects are
// compared field by field, so what is in neither text is left alone on the server; lists are
// replaced whole. kInvalid if a text is not JSON.
Result<std::optional<std::string>> MergeDifference(std::string_view before, std::string_view after);

// The body to send: the preconditions worked into it in the way its type has for that.
Result<std::string> PatchBody(const ObjectPatch& patch);
// Has this RFC 6902 body a "test"?
bool HasTest(std::string_view json_patch);
// "application/merge-patch+json" and so on.
std::string_view PatchContentType(PatchType type);

}  // namespace paddleop::kube
