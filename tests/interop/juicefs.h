// The official client as a test's other side: its commands, and its mount.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/posix.h"
#include "base/status.h"
#include "support/peer.h"

namespace paddleop::testing {

class Juicefs {
 public:
  // Finds (on first use: builds) the program. Its files and caches go to `home`.
  static Result<Juicefs> Find(std::string home);

  // Runs a sub-command to its end; a failure carries what it printed. Returns standard output and
  // error.
  Result<std::string> Run(const std::vector<std::string>& args) const;
  // Both forms of fsck, and gc, find nothing wrong.
  Result<void> CheckClean(const std::string& meta_url) const;

  // Mounted until the object goes.
  class Mount {
   public:
    Mount(const Juicefs& juicefs, std::string path) : juicefs_(&juicefs), path_(std::move(path)) {}
    ~Mount();
    Mount(const Mount&) = delete;
    Mount& operator=(const Mount&) = delete;
    const std::string& path() const { return path_; }

   private:
    const Juicefs* juicefs_;
    std::string path_;
  };
  Result<std::unique_ptr<Mount>> MountAt(const std::string& meta_url, const std::string& path,
                                         const std::vector<std::string>& options = {}) const;

 private:
  Juicefs(std::string program, std::string home)
      : program_(std::move(program)), home_(std::move(home)) {}

  std::string program_;
  std::string home_;
};

}  // namespace paddleop::testing
