#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/batch/sample_set.h"

namespace paddleop::controllers::sampleset {

// The mountOptions attribute of the set's PersistentVolume: "cache-dir=...,cache-size=...,...",
// sorted by name. Options that are not set are left out; booleans are bare words.
std::string MountOptionsText(const api::SampleSetSpec& spec, const std::string& volume_name);

// What the reference gives a cache that nobody limits: more than any disk has.
inline constexpr std::int64_t kUnlimitedMib = 1073741824;

// MiB that the cache may use.
std::int64_t CacheSizeMib(const api::SampleSetSpec& spec);

}  // namespace paddleop::controllers::sampleset
