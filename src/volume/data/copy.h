#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "volume/meta/meta_store.h"
#include "volume/vfs/vfs.h"

namespace paddleop::volume::data {

struct CopyReport {
  struct Failure {
    std::string path;
    Status error;
  };
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t bytes = 0;
  std::vector<Failure> failures;  // the copy goes on with the others
};

// Copies files and, with `recursive`, whole directories, one file after the other: for a handful of
// files. Modes and modification times are kept. An existing file of the same name is replaced.
class Copier {
 public:
  Copier(Vfs& vfs, Caller caller, bool recursive)
      : vfs_(vfs), caller_(std::move(caller)), recursive_(recursive) {}

  // A path of this machine to `name` in directory `parent`.
  void In(const Context& ctx, const std::string& local, Ino parent, const std::string& name);
  // An entry of the volume to a path of this machine.
  void Out(const Context& ctx, const Entry& from, const std::string& local);
  // Within the volume: the copy shares its data with the original.
  void Within(const Context& ctx, const Entry& from, Ino parent, const std::string& name,
              const std::string& path);

  const CopyReport& report() const { return report_; }

 private:
  Result<void> FileIn(const Context& ctx, const std::string& local, Ino parent,
                      const std::string& name);
  Result<void> FileOut(const Context& ctx, const Entry& from, const std::string& local);
  Result<void> FileWithin(const Context& ctx, const Entry& from, Ino parent,
                          const std::string& name);
  Result<void> DirectoryIn(const Context& ctx, const std::string& local, Ino parent,
                           const std::string& name);
  Result<void> DirectoryOut(const Context& ctx, const Entry& from, const std::string& local);
  Result<void> DirectoryWithin(const Context& ctx, const Entry& from, Ino parent,
                               const std::string& name, const std::string& path);
  Result<Ino> MakeDirectory(const Context& ctx, Ino parent, const std::string& name,
                            std::uint16_t mode);
  void Count(Result<void> result, const std::string& path);

  Vfs& vfs_;
  const Caller caller_;
  const bool recursive_;
  CopyReport report_;
};

}  // namespace paddleop::volume::data
