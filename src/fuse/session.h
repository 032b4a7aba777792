#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "volume/format/types.h"

struct fuse_lowlevel_ops;

namespace paddleop::fuse {

struct SessionOptions {
  std::string mount_point;
  std::string source;  // what the mount table shows as its device
  bool read_only = false;
  bool allow_other = false;
  std::vector<std::string> options;  // further options of the kernel and libfuse, as for -o
  // Threads that take requests: more are started, up to the maximum, while all are busy, and those
  // above `idle_threads` end one by one when they have not been needed for a while.
  std::size_t max_threads = 2;
  std::size_t idle_threads = 2;
  // What the kernel may fetch ahead of a sequential reader; set where we may (root). 0 leaves it.
  std::size_t readahead_kib = 0;
};

// This process may use FUSE. The error says what to do if not.
Result<void> CheckFuse();

// A mounted file system: the connection to the kernel and the threads that take its requests.
//
// Thread-safe.
class Session {
 public:
  // Mounts. The operations run with `userdata` (fuse_req_userdata) once Run is called; it outlives
  // the session. Errors say what to do: no FUSE here, not permitted, mount point missing or busy.
  static Result<std::unique_ptr<Session>> Mount(const fuse_lowlevel_ops& operations, void* userdata,
                                                const SessionOptions& options, const Logger& log);
  // Unmounts if that has not happened, and cuts the connection: whoever waits gets an error.
  ~Session();

  // Serves until the file system is unmounted or Stop is called. Requests that were handed to
  // others may still be answered afterwards.
  Result<void> Run();
  // Takes the mount away (open files do not hold it); what is open there is still served.
  void Detach();
  // The same, and makes Run return.
  void Stop();

  // What the kernel remembers of a name, or of a file or directory (attributes, pages, listing), is
  // wrong now. Never called from a thread that serves requests: the kernel may wait for one.
  void InvalidateEntry(volume::Ino parent, std::string_view name);
  void InvalidateInode(volume::Ino ino);
  // Only what it remembers of attributes. From any thread: the kernel waits for nobody.
  void InvalidateAttributes(volume::Ino ino);

  // Of the mounted device; nullopt if the mount table does not show it.
  std::optional<unsigned> device_minor() const;

 private:
  class State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::fuse
