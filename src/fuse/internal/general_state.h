// What the files of the general mode share.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <stop_token>
#include <string_view>

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "fuse/general_fs.h"
#include "fuse/internal/arrival_mark.h"
#include "fuse/internal/call.h"
#include "fuse/internal/known_versions.h"
#include "fuse/internal/refusals.h"
#include "volume/vfs/dir_stream.h"

namespace paddleop::fuse {

class GeneralFs::State {
 public:
  State(volume::Vfs& the_vfs, OpStats& the_stats, const Logger& the_log,
        const GeneralOptions& the_options, std::function<void()> on_ready);
  ~State();

  static State& Of(fuse_req_t request) { return *static_cast<State*>(fuse_req_userdata(request)); }

  // Runs `work` here, or on the pool if too many requests wait for data already. The work owns its
  // call.
  void RunIo(std::move_only_function<void()> work);
  // The second half of that, for who has no turn.
  void RunInPool(std::move_only_function<void()> work);

  std::shared_ptr<volume::DirStream> Directory(std::uint64_t handle);
  std::uint64_t AddDirectory(std::shared_ptr<volume::DirStream> stream);
  void RemoveDirectory(std::uint64_t handle);

  // kExpired if the kernel came to the inode by a name that it has lost, to the trash or for good.
  // `other_ways` says that it need not have been by a name; then each thread is refused only once,
  // which makes the kernel look for the name again. `writes`: what is written there would be lost.
  Result<void> CheckName(const Call& call, volume::Ino ino, const volume::Attr& attr,
                         bool other_ways, bool writes);
  // What to tell of a refusal: kExpired in place of kPermission where it was for the trash, and the
  // kernel does not know that the inode is there.
  Status WhyRefused(Call& call, Status status);
  // Whether the directory of a name that was not found is gone or thrown away, and the kernel knows
  // nothing of that: its own name may stand for another directory by now.
  bool LostDirectory(volume::Ino ino, const std::optional<volume::Attr>& attr) const;
  bool LostDirectory(Call& call, volume::Ino ino);
  // The same for a name that was looked for there and not found, until the thread asks again: then
  // it came by a descriptor or by its working directory, and the name is not there.
  bool RefusesLost(Call& call, volume::Ino ino, std::string_view name);
  // For operations that make something, where nothing but the directory can be missing.
  Status WhyNotMade(volume::Ino directory, Status status) const;

  volume::Vfs& vfs;
  OpStats& stats;
  const Logger& log;
  const GeneralOptions options;
  std::function<void()> ready;
  const std::size_t inline_io;  // how many threads of the session may have work for data
  std::stop_source stop;
  Interrupts interrupts;
  ToldLengths told;
  ArrivalMark mark;
  TrashedInodes trashed;
  Refusals refusals;
  std::atomic<std::uint64_t> changes{0};               // made through this mount so far
  std::function<void(volume::Ino)> forget_attributes;  // makes the kernel ask again
  CallEnvironment env;
  KnownVersions versions;
  std::atomic<std::size_t> waiting{0};  // threads of the session with work for data, see IoTurn

 private:
  Mutex mutex_;
  std::uint64_t last_directory_ GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, std::shared_ptr<volume::DirStream>> directories_ GUARDED_BY(mutex_);

 public:
  ThreadPool pool;
};

// While it lives, a thread of the session counts among those that may wait for data; without a turn
// it must not wait.
class IoTurn {
 public:
  explicit IoTurn(GeneralFs::State& state);
  ~IoTurn() { --state_.waiting; }
  IoTurn(const IoTurn&) = delete;
  IoTurn& operator=(const IoTurn&) = delete;
  bool here() const { return here_; }

 private:
  GeneralFs::State& state_;
  const bool here_;
};

// The handlers, by file.
void AddNameOperations(fuse_lowlevel_ops& ops);
void AddFileOperations(fuse_lowlevel_ops& ops);
void AddDirectoryOperations(fuse_lowlevel_ops& ops);
void AddXattrOperations(fuse_lowlevel_ops& ops);

}  // namespace paddleop::fuse
