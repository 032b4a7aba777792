// An object with metadata, spec and status: the outline our three kinds share.
#pragma once

#include "api/internal/meta_fields.h"

namespace paddleop::api::internal {

template <class T>
struct Outline {
  std::string api_version;
  std::string kind;
  T object;
};

template <class Io, class T>
void Describe(Io& io, Outline<T>& o) {
  io("apiVersion", o.api_version);
  io("kind", o.kind);
  io("metadata", o.object.metadata);
  io("spec", o.object.spec);
  io("status", o.object.status);
}

// kInvalid also if the document says that it is another kind; list items say nothing.
template <class T>
Result<T> ReadObject(const Json& json) {
  ASSIGN_OR_RETURN(auto read, Read<Outline<T>>(json));
  if (!read.kind.empty() && read.kind != T::kType.kind) {
    return Fail(Code::kInvalid, "kind: expected {}, found {}", T::kType.kind, read.kind);
  }
  return std::move(read.object);
}

template <class T>
Json WriteObject(const T& object) {
  return Write(Outline<T>{T::kType.ApiVersion(), std::string(T::kType.kind), object});
}

}  // namespace paddleop::api::internal
