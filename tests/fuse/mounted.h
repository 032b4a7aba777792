// Volumes mounted for real by the built program.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/posix.h"
#include "base/process_identity.h"
#include "base/status.h"
#include "support/peer.h"

namespace paddleop::testing {

enum class Engine { kSqlite, kRedis };
std::string EngineName(Engine engine);

// A fresh volume in a directory of its own; its Redis server, if it has one, lives as long.
class TestVolume {
 public:
  static Result<std::unique_ptr<TestVolume>> Make(
      Engine engine, const std::vector<std::string>& format_options = {});

  const std::string& url() const { return url_; }
  const std::string& dir() const { return dir_.path(); }
  std::string objects() const { return dir_.File("objects"); }
  std::string cache() const { return dir_.File("cache"); }
  Peer& redis() { return *redis_; }

  // Runs a sub-command on this volume: Run("ls", {"/"}). A failure carries what it printed.
  Result<std::string> Run(const std::string& command, const std::vector<std::string>& args = {});

 private:
  explicit TestVolume(TempDir dir) : dir_(std::move(dir)) {}

  TempDir dir_;
  std::optional<Peer> redis_;
  std::string url_;
};

// A mount, taken away with its process when the object goes, whatever state it is in.
class TestMount {
 public:
  // Mounts below the volume's directory, with a cache directory of the volume's unless the options
  // name one.
  static Result<std::unique_ptr<TestMount>> Make(TestVolume& volume,
                                                 std::vector<std::string> options = {},
                                                 const std::string& name = "mnt");
  ~TestMount();

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }
  pid_t pid() const { return process_.pid; }
  // What `samplefs status DIR --json` says.
  Result<nlohmann::json> Status() const;
  // How many requests the kernel has sent so far.
  Result<std::uint64_t> Requests() const;
  // The value of a series, by the mount's socket; -1 if there is none of that name.
  double Metric(const std::string& series) const;
  // Unmounts and waits for the process.
  Result<void> Unmount(const std::vector<std::string>& options = {});
  std::string Log() const;

 private:
  TestMount(std::string path, std::string log) : path_(std::move(path)), log_(std::move(log)) {}

  std::string path_;
  std::string log_;
  ProcessIdentity process_;  // numbers are given to others soon: each thread has one
  bool mounted_ = true;
};

// A volume with ten files "f0" to "f9", written through a mount with a cache of its own; how many
// of them are not as they were written.
Result<std::unique_ptr<TestVolume>> VolumeWithFiles(
    Engine engine, const std::vector<std::string>& format_options = {});
int WrongFiles(const TestMount& mount);

// Options of `samplefs format` for a volume in a bucket of MinIO.
std::vector<std::string> OnMinio(const Peer& minio, const std::string& bucket);

// Runs the built program.
Result<ProcessResult> RunSamplefs(const std::vector<std::string>& args,
                                  std::chrono::seconds timeout = std::chrono::seconds(60));

// Bytes that depend on the seed, the same on every machine.
std::string Pattern(std::size_t size, unsigned seed);
// Whole files by plain system calls; errors carry errno's text.
Result<void> WriteWhole(const std::string& path, std::string_view content);
Result<std::string> ReadWhole(const std::string& path);
// The content, or the error in its place.
std::string Content(const std::string& path);
std::vector<std::string> ListNames(const std::string& directory);

// True once the process is gone, within that time.
bool Ended(pid_t pid, std::chrono::milliseconds timeout = std::chrono::seconds(60));
bool IsMounted(const std::string& path);

// Runs `body` as another user; its exit code.
int As(uid_t uid, gid_t gid, const std::function<int()>& body);

}  // namespace paddleop::testing
