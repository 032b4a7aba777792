#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "fuse/op_stats.h"
#include "volume/vfs/data_set.h"

struct fuse_lowlevel_ops;

namespace paddleop::fuse {

struct DataSetFsOptions {
  // The kernel may keep what it was told until it is told otherwise.
  double timeout = 365.0 * 86400;
  unsigned max_read = 0;  // LibraryMaxRead
  std::size_t max_background = 128;
};

// Data-set mode: a read-only view in which the kernel asks for everything once. Opening, flushing
// and opening directories are answered ENOSYS, after which it never asks for them again, so that
// reading what is in the page cache costs no request at all.
//
// No handler waits for the network. As many as there are processors never wait for a disk either:
// of the others, each may read one cached block by itself; the data set's threads read the rest.
class DataSetFs {
 public:
  // `data` and `stats` outlive this object. `ready` is called once the kernel has said hello.
  DataSetFs(volume::DataSet& data, OpStats& stats, const DataSetFsOptions& options,
            std::function<void()> ready);
  ~DataSetFs();

  // Called with every name that the kernel looks up, for the directory it is looked for in; set
  // before the operations are.
  using OnLookup =
      std::function<void(const volume::DataSet::View& tree, volume::Tree::NodeIndex directory)>;
  void SetOnLookup(OnLookup on_lookup);

  // Called before the kernel is given bytes of a file, to keep in its memory; set before the
  // operations are used, too.
  using OnRead = std::function<void(volume::Ino file, std::uint64_t offset, std::uint64_t size)>;
  void SetOnRead(OnRead on_read);

  static const fuse_lowlevel_ops& Operations();
  // What the operations expect as userdata.
  void* userdata();

  class State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::fuse
