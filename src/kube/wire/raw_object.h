// Objects as the API server sent them, with the fields that every kind has read out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kube/wire/resource.h"

namespace paddleop::kube {

using OwnerReference = api::OwnerReference;

// One object: its JSON text, whatever its kind, and what this room must know of it. Nothing is lost
// but metadata.managedFields, which no reader of ours wants and which is often half of an object.
struct RawObject {
  std::string json;
  std::string api_version;
  std::string kind;
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::int64_t generation = 0;
  bool deleting = false;  // has a deletionTimestamp
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<OwnerReference> owners;
  std::vector<std::string> finalizers;

  ObjectKey key() const { return {ns, name}; }
  // The label's value, or nullopt.
  std::optional<std::string_view> Label(std::string_view label) const;
  // The owner that manages the object, or nullptr.
  const OwnerReference* Controller() const;
};

// Reads an object. kInvalid if the text is not JSON or its metadata have wrong types; a missing
// name is fine (generateName).
Result<RawObject> ParseObject(std::string_view json);

// A piece of a list. An empty `continue_token` says that it was the last one.
struct ListPage {
  std::vector<RawObject> items;
  std::string resource_version;  // of the whole list, the same on every page
  std::string continue_token;
};

// Reads a reply to a list request. Items without apiVersion and kind (the API server leaves them
// out) get those of the list.
Result<ListPage> ParseList(std::string json);

// Is version `a` later than `b`? Versions of one resource are decimal numbers that grow; anything
// else compares as unknown, and the answer is false.
bool LaterVersion(std::string_view a, std::string_view b);

}  // namespace paddleop::kube
