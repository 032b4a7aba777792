#include "kube/wire/resource.h"

#include <fmt/format.h>

namespace paddleop::kube {

std::string ResourceName(const GroupVersionResource& resource) {
  return resource.group.empty() ? std::string(resource.plural)
                                : fmt::format("{}.{}", resource.plural, resource.group);
}

}  // namespace paddleop::kube
