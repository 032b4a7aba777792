#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/metrics.h"
#include "volume/data/source.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::data {

// The files of a volume as objects, to import from: keys are paths below `directory`. For reading,
// and deleting (into the volume's trash) for --delete-src. Symbolic links and other special files
// are not shown. Blocks the caller: put WithThreads around it.
//
// kNotFound if there is no such directory; `directory` may also be a file, which is then the key
// that `single` is set to.
struct VolumeSource {
  std::unique_ptr<object::ObjectStore> store;
  std::string single;
  VolumePlace place;  // whose keys the store shows
};
Result<VolumeSource> OpenVolumeSource(const Context& ctx, const std::string& meta_url,
                                      const std::string& directory, const Logger& log,
                                      MetricsRegistry& metrics);

}  // namespace paddleop::volume::data
