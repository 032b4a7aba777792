// Events are served under two groups, core/v1 and events.k8s.io/v1, with different names for the
// same fields. They are stored once, in core's form.
#pragma once

#include <memory>

#include "api/meta/json.h"
#include "standalone/apiserver/stored_object.h"

namespace paddleop::standalone::apiserver {

// An object of `kind` in the form that is stored, and back. Kinds with one form come back as given.
api::Json ToStored(const Kind& kind, api::Json object);
api::Json FromStored(const Kind& kind, api::Json object);

// A stored object in the form of `kind`, one of those that it is served under.
std::shared_ptr<const StoredObject> ShownAs(const Kind& kind, const StoredObject& object);
ObjectPtr ShownAs(const Kind& kind, ObjectPtr object);

}  // namespace paddleop::standalone::apiserver
