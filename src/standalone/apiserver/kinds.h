// The kinds that this API server has: one table, from which paths, discovery, OpenAPI and storage
// are made.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/object_meta.h"

namespace paddleop::standalone::apiserver {

struct Subresource {
  std::string_view name;
  std::string_view kind;
  std::string_view group;
  std::string_view version;
  std::vector<std::string_view> verbs;
};

struct Kind {
  std::size_t id = 0;         // its place in the table
  std::size_t stored_id = 0;  // of the kind whose objects these are; its own but for one
  api::ResourceType type;
  std::string_view singular;
  std::vector<std::string_view> short_names;
  std::vector<std::string_view> categories;
  std::string schema;                        // its name in OpenAPI
  bool custom = false;                       // one of ours: a CRD in a cluster
  bool read_only = false;                    // made by the server itself
  bool has_status = false;                   // the status is written through its subresource only
  bool has_generation = false;               // counts changes of the spec
  std::vector<Subresource> subresources;     // for discovery; handlers know what they do
  std::vector<std::string_view> selectable;  // fields of fieldSelector, beside name and namespace

  // "pods", "paddlejobs.batch.paddlepaddle.org": messages and storage.
  std::string FullName() const;
  // "Pod", "PaddleJob.batch.paddlepaddle.org"
  std::string FullKind() const;
  std::vector<std::string_view> Verbs() const;
  // Another form of objects that are stored as another kind.
  bool other_form() const { return stored_id != id; }
};

std::span<const Kind> Kinds();
// Null if there is none.
const Kind* FindKind(std::string_view group, std::string_view version, std::string_view plural);
const Kind* FindKindByName(std::string_view full_name);
const Kind& StoredKind(const Kind& kind);
// The one with this kind name of the built-in core group: for our own use.
const Kind& CoreKind(std::string_view kind);

}  // namespace paddleop::standalone::apiserver
