#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <thread>

#include "base/log.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "fuse/internal/own_mount.h"
#include "volume/vfs/data_set.h"

namespace paddleop::fuse {

// Who reads a whole data set looks its names up one by one, a request each. Once a part of a
// directory was asked for, the rest is brought to the kernel at once: the directory is listed
// through the mount itself, and every answer holds hundreds of names with their attributes. Nobody
// looks those up any more.
//
// What the kernel is given to remember is bounded, in all, by a share of the machine's memory.
//
// Thread-safe. Lists with a thread of its own, through a private copy of the mount, so that a mount
// point is never busy because of it. Where that is not permitted (without root), nothing is listed.
class NameFeeder {
 public:
  // All outlive this object.
  NameFeeder(volume::DataSet& data, OwnMount& mount, MetricsRegistry& metrics, const Logger& log);
  ~NameFeeder();

  // Somebody looked a name up in this directory. Cheap; never waits for the kernel.
  void Asked(const volume::DataSet::View& tree, volume::Tree::NodeIndex directory);

  // Ends after the listing under way, which needs the mount's answers until then.
  void Stop();

 private:
  struct Directory {
    std::size_t asked = 0;
    bool listed = false;
  };

  void Run(const std::stop_token& stop);
  // Names that were listed; none if the mount is not ours to list any more.
  Result<std::size_t> List(const std::stop_token& stop, volume::Ino directory);

  volume::DataSet& data_;
  OwnMount& mount_;
  const Logger& log_;
  MetricsRegistry::Counter& listed_;
  std::atomic<bool> ended_{false};

  Mutex mutex_;
  CondVar changed_;
  std::weak_ptr<const volume::Tree> tree_ GUARDED_BY(mutex_);  // whose directories they are
  std::map<volume::Ino, Directory> directories_ GUARDED_BY(mutex_);
  std::deque<volume::Ino> queue_ GUARDED_BY(mutex_);
  std::size_t room_ GUARDED_BY(mutex_);  // names that may still be listed

  std::jthread thread_;
};

// Worth a listing: enough of the names were asked for, and enough of them were not.
bool WorthListing(std::size_t asked, std::size_t names);

}  // namespace paddleop::fuse
