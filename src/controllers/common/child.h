// What every object that a controller creates has in common.
#pragma once

#include <string>

#include "api/meta/object_meta.h"

namespace paddleop::controllers {

// metadata.ownerReferences with `owner` as the one that manages the object.
api::Json OwnerReferences(const api::ResourceType& type, const api::ObjectMeta& owner);

// Metadata of a namespaced child: name, the owner's namespace, labels, owner reference.
api::Json ChildMetadata(const api::ResourceType& type, const api::ObjectMeta& owner,
                        const std::string& name, const api::StringMap& labels);

// Is the object managed by this owner?
bool IsControlledBy(const api::ObjectMeta& object, const api::ObjectMeta& owner);

// "a, b, c and 7 more": for messages about many objects.
std::string JoinNames(const std::vector<std::string>& names, std::size_t most = 8);

}  // namespace paddleop::controllers
