#include "samplefs/mount_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>

#include "base/bytes.h"

namespace paddleop::cmd {
namespace {

constexpr std::array kKernelFlags = {"suid",     "nosuid",  "dev",        "nodev",    "exec",
                                     "noexec",   "async",   "sync",       "atime",    "noatime",
                                     "relatime", "dirsync", "nodiratime", "diratime", "norelatime"};
// Written into fstab for mount(8) and systemd.
constexpr std::array kForMount = {"defaults", "auto",      "noauto",   "user",
                                  "nouser",   "users",     "owner",    "group",
                                  "nofail",   "_netdev",   "nonempty", "default_permissions",
                                  "debug",    "big_writes"};

// Flags of `juicefs mount` that change nothing here; each takes a value unless it says so.
struct Ignored {
  const char* name;
  bool takes_value;
  const char* why;
};
constexpr std::array<Ignored, 33> kIgnored = {{
    {"no-usage-report", false, "nothing is ever reported"},
    {"backup-meta", true, "metadata is not backed up by mounts"},
    {"backup-skip-trash", false, "metadata is not backed up by mounts"},
    {"open-cache", true, "opening a file always asks the volume"},
    {"open-cache-limit", true, "opening a file always asks the volume"},
    {"skip-dir-nlink", true, "link counts are always kept"},
    {"sort-dir", false, "listings are sorted where the volume can"},
    {"enable-ioctl", false, "ioctl is not served"},
    {"writeback", false, "data is uploaded before close returns"},
    {"upload-delay", true, "data is uploaded before close returns"},
    {"cache-items", true, "the cache is bounded by its size"},
    {"cache-scan-interval", true, "the cache directory is its own index"},
    {"cache-partial-only", false, "whole blocks are cached"},
    {"max-deletes", true, "deletion has one thread"},
    {"no-syslog", false, "the log never goes to syslog"},
    {"disable-transparent-hugepage", false, "memory comes and goes in blocks"},
    {"max-fuse-io", true, "requests are as large as the kernel makes them, up to 1 MiB"},
    {"skip-dir-mtime", true, "times of directories are always kept"},
    {"fast-statfs", false, "the volume's counters are asked"},
    {"readdir-cache", false, "data-set mode keeps listings anyway, general mode never"},
    {"max-stage-write", true, "data is uploaded before close returns"},
    {"upload-hours", true, "data is uploaded before close returns"},
    {"cache-mode", true, "cached blocks are the owner's alone"},
    {"cache-eviction", true, "what is pinned stays, the rest makes room, longest unread first"},
    {"cache-expire", true, "cached blocks stay until their room is needed"},
    {"custom-labels", true, "metrics have no labels of the user's"},
    {"consul", true, "mounts register nowhere"},
    {"atime-mode", true, "reading does not change the access time"},
    {"enable-cap", false, "capabilities of programs are not stored"},
    {"enable-selinux", false, "security labels are not stored"},
    {"prefix-internal", false, "there are no internal files"},
    {"storage-class", true, "objects get the class that their bucket gives them"},
    {"force", false, "what is mounted already must be unmounted first"},
}};

// Flags of `juicefs mount` that are not served here. Who gives them relies on them.
struct Refused {
  const char* name;
  const char* why;
};
constexpr std::array<Refused, 4> kRefused = {{
    {"root-squash", "the kernel lets root do everything before the mount is asked"},
    {"all-squash", "the kernel checks permissions for the user it sees"},
    {"bucket", "a mount uses the store of the volume's setting; see 'juicefs config'"},
    {"storage", "a mount uses the store of the volume's setting; see 'juicefs config'"},
}};

Result<void> Refuse(const Refused& refused) {
  return Fail(Code::kInvalid, "--{} is not supported: {}", refused.name, refused.why);
}

struct Setting {
  bool flag = false;
  std::function<bool(const std::string&)> set;  // false if it does not take the value
};

// Our flags by name without dashes, as they may come in -o.
std::map<std::string, Setting> ByName(MountFlags* f) {
  const auto text = [](std::string* target) {
    return Setting{.flag = false, .set = [target](const std::string& v) {
                     *target = v;
                     return true;
                   }};
  };
  const auto number = [](std::int64_t* target) {
    return Setting{.flag = false, .set = [target](const std::string& v) {
                     const char* const end = v.data() + v.size();
                     const auto parsed = std::from_chars(v.data(), end, *target);
                     return parsed.ec == std::errc() && parsed.ptr == end;
                   }};
  };
  const auto list = [](std::vector<std::string>* target) {
    return Setting{.flag = false, .set = [target](const std::string& v) {
                     target->push_back(v);
                     return true;
                   }};
  };
  const auto flag = [](bool* target) {
    return Setting{.flag = true, .set = [target](const std::string&) { return *target = true; }};
  };
  return {{"read-only", flag(&f->read_only)},
          {"subdir", text(&f->subdir)},
          {"sub-dir", text(&f->subdir)},
          {"attr-cache", text(&f->attr_cache)},
          {"entry-cache", text(&f->entry_cache)},
          {"dir-entry-cache", text(&f->dir_entry_cache)},
          {"negative-entry-cache", text(&f->negative_entry_cache)},
          {"negative-dir-entry-cache", text(&f->negative_entry_cache)},
          {"enable-xattr", flag(&f->enable_xattr)},
          {"disable-xattr", flag(&f->disable_xattr)},
          {"writeback_cache", flag(&f->writeback_cache)},
          {"heartbeat", text(&f->heartbeat)},
          {"no-bgjob", flag(&f->no_background_jobs)},
          {"get-timeout", text(&f->get_timeout)},
          {"put-timeout", text(&f->put_timeout)},
          {"io-timeout", text(&f->io_timeout)},
          {"exit-timeout", text(&f->exit_timeout)},
          {"io-retries", number(&f->io_retries)},
          {"upload-limit", number(&f->upload_limit)},
          {"download-limit", number(&f->download_limit)},
          {"prefetch", number(&f->prefetch)},
          {"cache-large-write", flag(&f->cache_large_write)},
          {"cache-dir", list(&f->cache.directories)},
          {"cache-size", list(&f->cache.sizes)},
          {"free-space-ratio", list(&f->cache.free_space_ratios)},
          {"verify-cache-checksum", text(&f->cache.checksum)},
          {"max-uploads", number(&f->max_uploads)},
          {"max-downloads", number(&f->max_downloads)},
          {"buffer-size", text(&f->buffer_size)},
          {"max-readahead", text(&f->max_readahead)},
          {"metrics", text(&f->metrics)},
          {"umask", text(&f->umask)},
          {"check-storage", flag(&f->check_storage)},
          {"update-fstab", flag(&f->update_fstab)},
          {"fake", flag(&f->fake)},
          {"background", flag(&f->background)},
          {"log", text(&f->log_file)},
          {"log-level", text(&f->log_level)},
          {"threads", number(&f->threads)},
          {"refresh", text(&f->refresh)},
          {"no-keep-pages", flag(&f->no_keep_pages)}};
}

Result<void> ApplyOne(const std::string& option, const std::map<std::string, Setting>& ours,
                      MountFlags* flags) {
  const auto equals = option.find('=');
  const std::string name = option.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  const auto is = [&](const char* other) { return name == other; };
  if (name.empty() || name.starts_with("x-") || std::ranges::any_of(kForMount, is)) return {};
  if (name == "allow_other") {
    flags->allow_other = true;
    return {};
  }
  // mount(8) says rw for every line of fstab that does not say ro: the mode decides.
  if (name == "ro") flags->read_only = true;
  if (name == "ro" || name == "rw") return {};
  if (std::ranges::any_of(kKernelFlags, is) || name == "max_read") {
    flags->kernel_options.push_back(option);
    return {};
  }
  for (const Ignored& ignored : kIgnored) {
    if (name != ignored.name) continue;
    flags->ignored.push_back(fmt::format("{} ({})", name, ignored.why));
    return {};
  }
  for (const Refused& refused : kRefused) {
    if (name == refused.name) return Refuse(refused);
  }
  const auto known = ours.find(name);
  if (known == ours.end())
    return Fail(Code::kInvalid, "unknown mount option \"{}\"; see 'samplefs mount --help'", name);
  if (known->second.flag != value.empty()) {
    return Fail(Code::kInvalid, "mount option \"{}\" {}", name,
                known->second.flag ? "takes no value" : "needs a value");
  }
  if (!known->second.set(value))
    return Fail(Code::kInvalid, R"(mount option "{}" is "{}"; give a number)", name, value);
  return {};
}

}  // namespace

void AddMountFlags(Command& command, MountFlags* f) {
  command.AddFlag("-d,--background", &f->background, "run in the background once it is mounted");
  command.AddOption("-o", &f->options,
                    "options as in fstab, comma-separated: the kernel's (ro, noatime, allow_other, "
                    "...) and any flag of this command without its dashes");
  command.AddOption("--log", &f->log_file,
                    "where the log goes in the background (/var/log/samplefs.log, or "
                    "~/.samplefs/samplefs.log)");
  command.AddFlag("--read-only", &f->read_only,
                  "data-set mode: a fast read-only view of the volume as it is now");
  command.AddOption("--subdir", &f->subdir, "mount this directory of the volume");
  command.AddOption("--attr-cache", &f->attr_cache, "how long the kernel may keep attributes");
  command.AddOption("--entry-cache", &f->entry_cache, "how long it may keep names of files");
  command.AddOption("--dir-entry-cache", &f->dir_entry_cache,
                    "how long it may keep names of directories");
  command.AddOption("--negative-entry-cache,--negative-dir-entry-cache", &f->negative_entry_cache,
                    "how long it may remember that a name does not exist");
  command.AddFlag("--enable-xattr", &f->enable_xattr,
                  "extended attributes (they are always enabled)");
  command.AddFlag("--disable-xattr", &f->disable_xattr,
                  "no extended attributes: a request less for each write");
  command.AddFlag("--writeback_cache", &f->writeback_cache,
                  "let the kernel gather small writes; for a volume with one writer");
  command.AddOption("--umask", &f->umask,
                    "for new files and directories, in octal, instead of that of each program");
  command.AddOption("--heartbeat", &f->heartbeat, "how often the mount tells that it is alive");
  command.AddFlag("--no-bgjob", &f->no_background_jobs, "leave cleaning up to other clients");
  command.AddOption("--get-timeout", &f->get_timeout,
                    "a download that takes longer is given up and tried again");
  command.AddOption("--put-timeout", &f->put_timeout,
                    "an upload that takes longer is given up and tried again");
  command.AddOption("--io-timeout", &f->io_timeout,
                    "how long a request waits for servers that are away before it fails");
  command.AddOption("--exit-timeout", &f->exit_timeout,
                    "how long the process may take to end, whatever it waits for");
  command.AddOption("--io-retries", &f->io_retries,
                    "how often a failed request is repeated; 0: as long as --io-timeout lasts");
  command.AddOption("--upload-limit", &f->upload_limit,
                    "megabits uploaded per second, 0 for no limit (default: as the volume says)");
  command.AddOption("--download-limit", &f->download_limit,
                    "megabits downloaded per second, 0 for no limit (default: as the volume says)");
  command.AddOption("--prefetch", &f->prefetch,
                    "data-set mode: 0 fetches no packs ahead of their use; how many it fetches "
                    "else depends on their use");
  f->cache.Add(command);
  command.AddFlag(
      "--cache-large-write", &f->cache_large_write,
      "keep full blocks in the cache when they are written, not only when they are read");
  command.AddOption("--max-uploads", &f->max_uploads, "uploads at the same time");
  command.AddOption("--max-downloads", &f->max_downloads,
                    "downloads at the same time (default: 32, in data-set mode 12)");
  command.AddOption("--buffer-size", &f->buffer_size, "memory for data on its way, in MiB");
  command.AddOption("--max-readahead", &f->max_readahead,
                    "how far to fetch ahead of a sequential reader, in MiB");
  command.AddOption("--metrics", &f->metrics, "serve /metrics on this address (127.0.0.1:9567)");
  command.AddOption("--threads", &f->threads,
                    "threads that take the kernel's requests; 0: as many as fit the machine");
  command.AddOption("--refresh", &f->refresh,
                    "data-set mode: look for a newer state this often; 0s: only when told");
  command.AddFlag("--no-keep-pages", &f->no_keep_pages,
                  "data-set mode: when not all of the data fit into memory, leave to the kernel "
                  "what stays there");
  command.AddFlag("--check-storage", &f->check_storage,
                  "try the object store before mounting: write, read and delete an object, or in "
                  "data-set mode read one");
  command.AddFlag("--update-fstab", &f->update_fstab,
                  "write the line that mounts as this one does into /etc/fstab");
  command.AddFlag("--fake", &f->fake, "check the command line and mount nothing, as 'mount -f'");
  for (const Refused& refused : kRefused) {
    command.AddOption(fmt::format("--{}", refused.name), &f->refused_values[refused.name],
                      fmt::format("not supported: {}", refused.why));
  }
  for (const Ignored& ignored : kIgnored) {
    const std::string name = fmt::format("--{}", ignored.name);
    const std::string help = fmt::format("accepted without effect: {}", ignored.why);
    if (ignored.takes_value) {
      command.AddOption(name, &f->ignored_values[ignored.name], help);
    } else {
      command.AddFlag(name, &f->ignored_flags[ignored.name], help);
    }
  }
}

Result<void> ApplyMountOptions(MountFlags* flags) {
  const auto ours = ByName(flags);
  for (const std::string& list : flags->options) {
    std::size_t at = 0;
    while (at <= list.size()) {
      const std::size_t comma = std::min(list.find(',', at), list.size());
      RETURN_IF_ERROR(ApplyOne(list.substr(at, comma - at), ours, flags));
      at = comma + 1;
    }
  }
  for (const Refused& refused : kRefused) {
    if (!flags->refused_values[refused.name].empty()) return Refuse(refused);
  }
  for (const Ignored& ignored : kIgnored) {
    if (flags->ignored_flags[ignored.name] || !flags->ignored_values[ignored.name].empty())
      flags->ignored.push_back(fmt::format("{} ({})", ignored.name, ignored.why));
  }
  return {};
}

std::string FlagsOfTheOtherMode(const MountFlags& flags) {
  const MountFlags defaults;
  std::string names;
  const auto note = [&](const char* name, const auto& given, const auto& fallback) {
    if (given != fallback) names += (names.empty() ? "--" : ", --") + std::string(name);
  };
  if (!flags.read_only) {
    note("refresh", flags.refresh, defaults.refresh);
    note("prefetch", flags.prefetch, defaults.prefetch);
    note("no-keep-pages", flags.no_keep_pages, defaults.no_keep_pages);
    return names;
  }
  note("attr-cache", flags.attr_cache, defaults.attr_cache);
  note("entry-cache", flags.entry_cache, defaults.entry_cache);
  note("dir-entry-cache", flags.dir_entry_cache, defaults.dir_entry_cache);
  note("negative-entry-cache", flags.negative_entry_cache, defaults.negative_entry_cache);
  note("enable-xattr", flags.enable_xattr, defaults.enable_xattr);
  note("disable-xattr", flags.disable_xattr, defaults.disable_xattr);
  note("writeback_cache", flags.writeback_cache, defaults.writeback_cache);
  note("umask", flags.umask, defaults.umask);
  note("cache-large-write", flags.cache_large_write, defaults.cache_large_write);
  note("max-uploads", flags.max_uploads, defaults.max_uploads);
  note("upload-limit", flags.upload_limit, defaults.upload_limit);
  note("put-timeout", flags.put_timeout, defaults.put_timeout);
  note("heartbeat", flags.heartbeat, defaults.heartbeat);
  note("no-bgjob", flags.no_background_jobs, defaults.no_background_jobs);
  return names;
}

bool TakesValue(const std::string& name) {
  for (const Ignored& ignored : kIgnored) {
    if (name == ignored.name) return ignored.takes_value;
  }
  MountFlags none;
  const auto ours = ByName(&none);
  const auto known = ours.find(name);
  return known != ours.end() && !known->second.flag;
}

Result<double> ParseSeconds(std::string_view flag, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  static const std::map<std::string_view, double> kUnits = {
      {"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  const auto factor = kUnits.find(unit);
  // What comes of it is counted in milliseconds of 31 bits in places; and not "inf" or "nan".
  constexpr double kMostDays = 20;
  if (error != std::errc() || factor == kUnits.end() || !(number >= 0) ||
      number * factor->second > kMostDays * 86400) {
    return Fail(Code::kInvalid,
                "--{} is \"{}\"; give a time such as 1s, 100ms, 5m or 1h, {} days at most", flag,
                text, kMostDays);
  }
  return number * factor->second;
}

Result<std::uint64_t> ParseMebibytes(std::string_view flag, std::string_view text) {
  const bool plain =
      !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  auto size = ParseSize(plain ? std::string(text) + "M" : std::string(text));
  if (!size) return std::unexpected(std::move(size).error().Wrap(fmt::format("--{}", flag)));
  return *size;
}

Result<std::uint16_t> ParseUmask(std::string_view text) {
  std::uint16_t bits = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, bits, 8);
  if (error != std::errc() || end != last || bits > 0777)
    return Fail(Code::kInvalid, "--umask is \"{}\"; give permission bits such as 022", text);
  return bits;
}

bool IsMountHelper(const std::string& program) {
  return program.substr(program.rfind('/') + 1) == "mount.samplefs";
}

std::vector<std::string> TranslateMountHelper(int argc, char** argv) {
  std::vector<std::string> given(argv, argv + argc);
  if (given.empty() || !IsMountHelper(given[0])) return given;
  // mount.samplefs VOLUME DIR [-sfnv] [-N namespace] [-o options] [-t type]
  std::vector<std::string> out = {given[0], "mount", "-d"};
  for (std::size_t i = 1; i < given.size(); ++i) {
    if (given[i] == "-o" && i + 1 < given.size()) {
      out.insert(out.end(), {"-o", given[++i]});
    } else if ((given[i] == "-N" || given[i] == "-t") && i + 1 < given.size()) {
      ++i;
    } else if (!given[i].starts_with('-')) {
      out.push_back(given[i]);
    } else if (given[i].find('f') != std::string::npos) {
      out.emplace_back("--fake");
    }
  }
  return out;
}

}  // namespace paddleop::cmd
