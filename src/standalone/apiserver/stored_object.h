#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/meta/json.h"
#include "standalone/apiserver/kinds.h"

namespace paddleop::standalone::apiserver {

struct Owner {
  std::string uid;
  bool blocks_deletion = false;
};

// One version of one object: its JSON text, and what lists, watches and the collector look at.
// Never changed; shared by everybody who reads.
struct StoredObject {
  const Kind* kind = nullptr;
  std::string ns;
  std::string name;
  std::string uid;
  std::uint64_t revision = 0;
  std::string json;
  std::size_t version_at = 0;  // where in `json` the digits of resourceVersion are
  std::size_t version_size = 0;
  bool deleting = false;
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<std::pair<std::string_view, std::string>> fields;  // kind->selectable
  std::vector<Owner> owners;
  std::vector<std::string> finalizers;

  api::ObjectKey key() const { return {ns, name}; }
  std::optional<std::string> Label(std::string_view label) const;
  // Also metadata.name and metadata.namespace; nullopt if the kind has no such field.
  std::optional<std::string> Field(std::string_view field) const;
};

using ObjectPtr = std::shared_ptr<const StoredObject>;

// Makes a version of an object; its metadata has the types the schema asks for.
std::shared_ptr<StoredObject> MakeObject(const Kind& kind, api::Json json, std::uint64_t revision);
// Puts the revision into the text.
void SetRevision(StoredObject& object, std::uint64_t revision);

}  // namespace paddleop::standalone::apiserver
