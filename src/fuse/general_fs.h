#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/log.h"
#include "fuse/op_stats.h"
#include "volume/vfs/vfs.h"

struct fuse_lowlevel_ops;

namespace paddleop::fuse {

class ArrivalMark;

struct GeneralOptions {
  volume::Ino root = volume::kRootIno;  // the directory that becomes the mount's root
  // How long the kernel may remember attributes and names, in seconds.
  double attr_timeout = 1;
  double entry_timeout = 1;
  double dir_entry_timeout = 1;
  double negative_timeout = 0;
  // How long a request waits for servers that are away before it fails with EIO. Data has the
  // deadline of VfsOptions besides.
  std::chrono::milliseconds io_timeout{60'000};
  bool xattr = true;
  // Instead of that of each program, for what is new.
  std::optional<std::uint16_t> umask = {};
  bool writeback_cache = false;     // the kernel gathers small writes; other clients see them later
  unsigned max_read = 0;            // LibraryMaxRead
  std::size_t max_background = 64;  // requests that the kernel may have under way for read-ahead
  std::size_t threads = 64;         // of the session, at most
};

// General mode: reading and writing with POSIX semantics, close-to-open between clients.
//
// Requests run on the session's threads; when many of them wait for data, further ones go to a
// pool, so that a store that hangs cannot take the threads that answer for metadata.
class GeneralFs {
 public:
  // `vfs` and `stats` outlive this object. `ready` is called once the kernel has said hello.
  GeneralFs(volume::Vfs& vfs, OpStats& stats, const Logger& log, const GeneralOptions& options,
            std::function<void()> ready);
  ~GeneralFs();

  static const fuse_lowlevel_ops& Operations();
  // What the operations expect as userdata.
  void* userdata();

  // How to make the kernel forget the attributes of a file that it takes to have another length.
  // Before the first request.
  void OnStaleAttributes(std::function<void(volume::Ino)> forget);
  // Of what the kernel sends.
  ArrivalMark& mark();
  // Breaks off what waits for something and may be broken off: the mount is going away.
  void Cancel();
  // Waits until everything handed to the pool is answered.
  void Drain();

  class State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::fuse
