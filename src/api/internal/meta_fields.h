// Field lists of the meta structs, for the .cc files of this room that nest them.
#pragma once

#include "api/internal/fields.h"
#include "api/meta/condition.h"
#include "api/meta/object_meta.h"

namespace paddleop::api {

template <class Io>
void Describe(Io& io, OwnerReference& r) {
  io("apiVersion", r.api_version);
  io("kind", r.kind);
  io("name", r.name);
  io("uid", r.uid);
  io("controller", r.controller);
  io("blockOwnerDeletion", r.block_owner_deletion);
}

template <class Io>
void Describe(Io& io, ObjectMeta& m) {
  io("name", m.name);
  io("generateName", m.generate_name);
  io("namespace", m.ns);
  io("uid", m.uid);
  io("resourceVersion", m.resource_version);
  io("generation", m.generation);
  io("creationTimestamp", m.creation_timestamp);
  io("deletionTimestamp", m.deletion_timestamp);
  io("labels", m.labels);
  io("annotations", m.annotations);
  io("ownerReferences", m.owner_references);
  io("finalizers", m.finalizers);
  if constexpr (Io::kReading)
    m.annotations.erase("kubectl.kubernetes.io/last-applied-configuration");
}

template <class Io>
void Describe(Io& io, ObjectReference& r) {
  io("apiVersion", r.api_version);
  io("kind", r.kind);
  io("namespace", r.ns);
  io("name", r.name);
  io("uid", r.uid);
}

template <class Io>
void Describe(Io& io, Condition& c) {
  io.Required("type", c.type);
  io.Required("status", c.status);
  io("observedGeneration", c.observed_generation);
  io("lastTransitionTime", c.last_transition_time);
  io.Required("reason", c.reason);
  io.Required("message", c.message);
}

}  // namespace paddleop::api
