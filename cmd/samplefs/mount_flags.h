// Flags of `samplefs mount`, by the names that `juicefs mount` has.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "common/command.h"
#include "samplefs/cache_flags.h"

namespace paddleop::cmd {

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one per process, in the help's order
struct MountFlags {
  std::string mount_point;
  bool background = false;
  std::string log_file;
  std::vector<std::string> options;  // -o
  bool read_only = false;
  std::string subdir;
  std::string attr_cache = "1s";
  std::string entry_cache = "1s";
  std::string dir_entry_cache = "1s";
  std::string negative_entry_cache = "0s";
  bool enable_xattr = false;  // they are enabled anyway
  bool disable_xattr = false;
  bool writeback_cache = false;
  std::string heartbeat = "12s";
  bool no_background_jobs = false;
  std::string get_timeout = "60s";
  std::string put_timeout = "60s";
  std::string io_timeout = "60s";
  std::string exit_timeout = "60s";
  std::int64_t io_retries = 0;
  std::int64_t upload_limit = -1;  // not given
  std::int64_t download_limit = -1;
  std::int64_t prefetch = 1;
  bool cache_large_write = false;
  CacheFlags cache;
  std::int64_t max_uploads = 20;
  std::int64_t max_downloads = 0;  // not given
  std::string buffer_size = "128M";
  std::string max_readahead = "32M";
  std::string metrics;
  std::int64_t threads = 0;
  std::string refresh = "0s";
  bool no_keep_pages = false;
  std::string umask;  // empty: that of each program
  bool check_storage = false;
  bool update_fstab = false;
  bool fake = false;
  std::string log_level;  // of -o; empty: not given

  // Of the kernel's and libfuse's own, from -o.
  std::vector<std::string> kernel_options;
  bool allow_other = false;
  // Flags of the official client that mean nothing here: what was given, by name.
  std::map<std::string, std::string> ignored_values;
  std::map<std::string, bool> ignored_flags;
  // One line for each that was given, after ApplyMountOptions.
  std::vector<std::string> ignored;
  // Flags of the official client that must not be ignored: what was given, by name.
  std::map<std::string, std::string> refused_values;
};

void AddMountFlags(Command& command, MountFlags* flags);
// Reads `options`: what the kernel knows stays for it, "cache-size=1024" and the like are our flags
// without dashes, and what mount(8) writes for itself is dropped. kInvalid names what is neither.
Result<void> ApplyMountOptions(MountFlags* flags);
// Flags that were given and mean nothing in the mode that was chosen, comma-separated.
std::string FlagsOfTheOtherMode(const MountFlags& flags);
// Whether the flag, without its dashes, is followed by a value.
bool TakesValue(const std::string& name);

// "1.5s", "100ms", "2m", "1h", "1d", or a number of seconds. kInvalid names the flag.
Result<double> ParseSeconds(std::string_view flag, std::string_view text);
// "300M", "1G", or a number of MiB, in bytes.
Result<std::uint64_t> ParseMebibytes(std::string_view flag, std::string_view text);
// "022": permission bits in octal.
Result<std::uint16_t> ParseUmask(std::string_view text);

// Whether a program of this name was started by mount(8).
bool IsMountHelper(const std::string& program);
// The command line that mount(8) gives to a helper called mount.samplefs, as one of ours; anything
// else comes back as it is.
std::vector<std::string> TranslateMountHelper(int argc, char** argv);

}  // namespace paddleop::cmd
