#pragma once

#include <memory>

#include "base/metrics.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

// Counts, times and sizes of everything that passes (metrics.h). `registry` must outlive the store.
std::unique_ptr<ObjectStore> WithMetrics(std::unique_ptr<ObjectStore> inner,
                                         MetricsRegistry& registry);

}  // namespace paddleop::volume::object
