// Names, labels and places of what a set has in the cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/batch/sample_set.h"
#include "controllers/common/runtimes.h"

namespace paddleop::controllers::sampleset {

// On a volume, besides the labels of everything that a set has: where the set is.
inline constexpr char kSetNamespaceLabel[] = "paddlepaddle.org/sampleset-namespace";
// Digest of what a StatefulSet was made from.
inline constexpr char kTemplateAnnotation[] = "paddlepaddle.org/template";
// When the token before the present one was replaced.
inline constexpr char kRotatedAnnotation[] = "paddlepaddle.org/token-rotated";

inline constexpr char kStorageClass[] = "paddle-operator";
inline constexpr char kCapacity[] = "10Pi";
inline constexpr char kSamplefsCsi[] = "csi.samplefs.paddlepaddle.org";
inline constexpr char kJuicefsCsi[] = "csi.juicefs.com";

// Where a runtime pod finds its files.
inline constexpr char kAuthDirectory[] = "/etc/samplefs/auth";
inline constexpr char kVolumeDirectory[] = "/etc/samplefs/volume";

std::string FinalizerOf(const std::string& set);       // paddlepaddle.org/sampleset-<set>
std::string StatefulSetName(const std::string& set);   // <set>-runtime
std::string ServiceName(const std::string& set);       // <set>-runtime-service
std::string VolumeSecretName(const std::string& set);  // <set>-volume

// Keys of a volume's Secret; the first four are needed.
inline constexpr std::string_view kVolumeKeys[] = {"name",    "storage",    "bucket",
                                                   "metaurl", "access-key", "secret-key"};
inline constexpr std::size_t kNeededVolumeKeys = 4;

// Was this object, which may be missing, made for the set?
template <class T>
bool IsOurs(const api::SampleSet& set, const std::shared_ptr<const T>& object) {
  return object && object->metadata.Label(kSetUidLabel) == set.metadata.uid;
}

// The index of runtime pod `pod` of the set, or nullopt.
std::optional<std::int32_t> RuntimeIndex(std::string_view set, std::string_view pod);

// The set's name in cluster scope: its own, or with the first part of its UID where another
// namespace has one of that name.
std::string LongName(const api::ObjectMeta& set);

struct CacheDirectory {
  std::string medium;  // MEM, SSD, HDD, or empty
  std::string path;
};
// The directories of all levels, in order; without levels, one in memory named as the volume.
// `volume_name` is unambiguous in the cluster, so two sets never share one by accident.
std::vector<CacheDirectory> CacheDirectories(const api::SampleSetSpec& spec,
                                             const std::string& volume_name);

// kInvalid names the field: a directory that belongs to the system, a path that leaves the set, too
// many of something, a source that nobody can read. What api::Validate checks is not repeated.
Result<void> CheckSpec(const api::SampleSetSpec& spec);
// May a host directory hold a cache?
bool IsSystemDirectory(std::string_view path);

}  // namespace paddleop::controllers::sampleset
