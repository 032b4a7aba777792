#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/context.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "mounter/mount_process.h"

namespace paddleop::mounter {

struct MounterOptions {
  std::string program = "samplefs";
  std::string directory;  // one directory below it for each mount
  std::chrono::milliseconds ready_timeout{60'000};
  std::chrono::milliseconds stop_timeout{20'000};
  std::chrono::milliseconds look{1'000};  // how often processes are looked at
  // Is the volume mounted at the directory? Replaced in tests, which cannot mount.
  std::function<bool(const std::string&)> is_mounted = IsMounted;
  // A mount process ended under these users. The volume is mounted again at the same place, where
  // those who hold the old mount do not see it; or it could not be, and will be tried again. Called
  // from any thread, without locks.
  std::function<void(const std::vector<std::string>& users, const Result<void>& mounted)> replaced =
      [](const std::vector<std::string>&, const Result<void>&) {};
};

struct MountRequest {
  std::string id;  // names the mount: letters, digits, '-', '.', '_'
  std::string meta_url;
  bool read_only = false;
  std::string options;  // "cache-dir=/a,cache-size=100": for -o
};

// Thread-safe.
class Mounter {
 public:
  // Takes up what an earlier one has left in the directory.
  static Result<std::unique_ptr<Mounter>> Create(MounterOptions options, const Logger& log);
  // Leaves the mounts as they are.
  ~Mounter();

  // The directory at which the volume is mounted, for `user` until Release(). The first user starts
  // the process and waits until it serves. kUnavailable has the end of what the process said.
  Result<std::string> Mount(const Context& ctx, const MountRequest& request,
                            const std::string& user);
  // The user needs none of its mounts any more; those that nobody uses are unmounted.
  void Release(const Context& ctx, const std::string& user);
  // Unmounts everything; the last call.
  void Shutdown();

 private:
  struct Entry {
    Mutex busy;  // held while the mount starts or stops; never taken with mutex_ held
    MountRequest request;
    ProcessIdentity process;
    std::set<std::string> users;
    bool serving = false;
    // Of a mount that cannot be made again.
    Backoff backoff{{.initial = std::chrono::seconds(1), .maximum = std::chrono::seconds(30)}};
    std::chrono::steady_clock::time_point retry_at;
  };

  Mounter(MounterOptions options, const Logger& log) : options_(std::move(options)), log_(log) {}
  void TakeUp();
  Result<void> Start(const Context& ctx, Entry& entry);
  Result<void> WaitUntilServing(const Context& ctx, const Entry& entry) const;
  void Stop(Entry& entry);
  void Watch(const Context& ctx);
  void LookAfter(const Context& ctx, Entry& entry);
  std::shared_ptr<Entry> Find(const std::string& id);
  std::vector<std::shared_ptr<Entry>> All();
  std::string PathOf(const std::string& id, const char* name) const;

  const MounterOptions options_;
  const Logger& log_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_ GUARDED_BY(mutex_);
  std::jthread watcher_;
};

}  // namespace paddleop::mounter
