#include "fuse/internal/kernel_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

namespace paddleop::fuse {
namespace {

struct Flag {
  std::string_view name;
  unsigned long bit;
  bool set;
};

// Options that are flags of mount(2); what mount(8) keeps for itself is no flag and is dropped
// before it comes here.
constexpr std::array<Flag, 17> kFlags = {{{"ro", MS_RDONLY, true},
                                          {"rw", MS_RDONLY, false},
                                          {"suid", MS_NOSUID, false},
                                          {"nosuid", MS_NOSUID, true},
                                          {"dev", MS_NODEV, false},
                                          {"nodev", MS_NODEV, true},
                                          {"exec", MS_NOEXEC, false},
                                          {"noexec", MS_NOEXEC, true},
                                          {"async", MS_SYNCHRONOUS, false},
                                          {"sync", MS_SYNCHRONOUS, true},
                                          {"atime", MS_NOATIME, false},
                                          {"noatime", MS_NOATIME, true},
                                          {"relatime", MS_RELATIME, true},
                                          {"norelatime", MS_RELATIME, false},
                                          {"diratime", MS_NODIRATIME, false},
                                          {"nodiratime", MS_NODIRATIME, true},
                                          {"dirsync", MS_DIRSYNC, true}}};

}  // namespace

Result<UniqueFd> OpenDevice() {
  UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (device.valid()) return device;
  if (errno == ENOENT || errno == ENODEV || errno == ENXIO) {
    return Fail(Code::kNotSupported,
                "this machine has no FUSE (/dev/fuse): load the kernel module with 'modprobe "
                "fuse', or give the container the device");
  }
  if (errno == EACCES || errno == EPERM) {
    return Fail(Code::kPermission,
                "not permitted to use /dev/fuse: run as root, or let the container use the device");
  }
  return ErrnoFail("open /dev/fuse");
}

Result<void> MountDevice(const UniqueFd& device, const SessionOptions& options) {
  unsigned long flags = MS_NOSUID | MS_NODEV;
  if (options.read_only) flags |= MS_RDONLY;
  std::string data = fmt::format("fd={},rootmode=40000,user_id={},group_id={},default_permissions",
                                 device.get(), ::geteuid(), ::getegid());
  if (options.allow_other) data += ",allow_other";
  for (const std::string& option : options.options) {
    bool is_flag = false;
    for (const Flag& flag : kFlags) {
      if (flag.name != option) continue;
      flags = flag.set ? flags | flag.bit : flags & ~flag.bit;
      is_flag = true;
    }
    if (!is_flag) data += "," + option;
  }
  if (::mount(options.source.c_str(), options.mount_point.c_str(), "fuse.samplefs", flags,
              data.c_str()) == 0) {
    return {};
  }
  switch (errno) {
    case EPERM:
    case EACCES:
      return Fail(Code::kPermission,
                  "not permitted to mount at {}: run as root; a container also needs the "
                  "capability SYS_ADMIN",
                  options.mount_point);
    case ENODEV:
      return Fail(Code::kNotSupported, "this kernel has no FUSE: load it with 'modprobe fuse'");
    case EBUSY:
      return Fail(Code::kUnavailable, "{} is busy: another mount is there", options.mount_point);
    case EINVAL:
      return Fail(Code::kInvalid, "the kernel refused the mount options \"{}\"", data);
    default:
      return ErrnoFail("mount at {}", options.mount_point);
  }
}

unsigned LibraryMaxRead(const SessionOptions& options) {
  constexpr std::string_view kName = "max_read=";
  unsigned most = 0;
  if (::geteuid() == 0) return most;
  for (const std::string& option : options.options) {
    if (option.starts_with(kName))
      std::from_chars(option.data() + kName.size(), option.data() + option.size(), most);
  }
  return most;
}

std::vector<std::string> LibraryArguments(const SessionOptions& options) {
  std::vector<std::string> words = {
      "samplefs", "-o", "fsname=" + options.source + ",subtype=samplefs,default_permissions"};
  if (options.read_only) words.insert(words.end(), {"-o", "ro"});
  if (options.allow_other) words.insert(words.end(), {"-o", "allow_other"});
  for (const std::string& option : options.options) words.insert(words.end(), {"-o", option});
  return words;
}

}  // namespace paddleop::fuse
