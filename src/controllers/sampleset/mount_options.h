#pragma once

#include <string>
#include <vector>

#include "api/batch/sample_set.h"

namespace paddleop::controllers::sampleset {

// The mountOptions attribute of the set's PersistentVolume: "cache-dir=...,cache-size=...,...",
// sorted by name. Options that are not set are left out; booleans are bare words.
std::string MountOptionsText(const api::SampleSetSpec& spec, const std::string& volume_name);

// MiB that the cache may use; 0 if nobody limits it.
std::int64_t CacheSizeMib(const api::SampleSetSpec& spec);

}  // namespace paddleop::controllers::sampleset
