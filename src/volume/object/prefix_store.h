#pragma once

#include "volume/object/forwarding_store.h"

namespace paddleop::volume::object {

// The part of a store whose keys begin with `prefix`, seen without it. The prefix is text, not a
// directory: "data" and "data/" differ.
std::unique_ptr<ObjectStore> WithPrefix(std::unique_ptr<ObjectStore> inner, std::string prefix);

}  // namespace paddleop::volume::object
