#include "samplefs/mount_fstab.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/posix.h"
#include "base/secret.h"
#include "samplefs/background.h"
#include "samplefs/mount_flags.h"

namespace paddleop::cmd {
namespace {

constexpr char kFstab[] = "/etc/fstab";
constexpr char kHelper[] = "/sbin/mount.samplefs";

// As fstab(5) and the kernel write blanks.
std::string EscapeField(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\\') {
      out += fmt::format("\\{:03o}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::vector<std::string> FieldsOf(std::string_view line) {
  std::vector<std::string> fields;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    fields.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return fields;
}

// The value of the flag at `at`, written "--name=value" or "--name value"; `at` moves behind it.
std::string TakeValue(const std::vector<std::string>& words, std::size_t& at) {
  const auto equals = words[at].find('=');
  if (equals != std::string::npos) return words[at].substr(equals + 1);
  return at + 1 < words.size() ? words[++at] : "";
}

// What means the same in whichever directory it is read.
std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

std::string AbsoluteVolume(const std::string& volume) {
  constexpr std::string_view kScheme = "sqlite3://";
  if (!volume.starts_with(kScheme)) return volume;
  return std::string(kScheme) + AbsolutePath(volume.substr(kScheme.size()));
}

}  // namespace

Result<std::string> FstabLine(const std::vector<std::string>& arguments, const std::string& volume,
                              const std::string& mount_point) {
  std::string options = "_netdev";
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.starts_with("--")) {
      // Of the short ones only -o has a value, perhaps behind others: "-do ro".
      const std::size_t o = word.starts_with('-') ? word.find('o') : std::string::npos;
      if (o == std::string::npos) continue;
      options +=
          "," + EscapeField(o + 1 < word.size() ? word.substr(o + 1) : TakeValue(arguments, i));
      continue;
    }
    const std::string name = word.substr(2, word.find('=') - 2);
    if (name == "background" || name == "update-fstab" || name == "json") continue;
    if (!TakesValue(name)) {
      if (!word.ends_with("=false")) options += "," + name;
      continue;
    }
    options += "," + name;
    std::string value = TakeValue(arguments, i);
    if (name == "log") value = AbsolutePath(value);
    if (value.find(',') != std::string::npos)
      return Fail(Code::kInvalid, "--{} has a comma, which fstab has no way to write", name);
    options += "=" + EscapeField(value);
  }
  return fmt::format("{} {} samplefs {} 0 0", EscapeField(AbsoluteVolume(volume)),
                     EscapeField(mount_point), options);
}

Result<void> CheckFstabReaders(const std::string& volume, mode_t mode) {
  if ((mode & (S_IRGRP | S_IROTH)) == 0 || RedactUrl(volume) == volume) return {};
  return Fail(Code::kPermission,
              "{} is left as it is, since others can read it and VOLUME has a password: 'chmod 600 "
              "{}' first, or give the password in META_PASSWORD",
              kFstab, kFstab);
}

std::string WithFstabLine(const std::string& text, const std::string& line) {
  const auto wanted = FieldsOf(line);
  std::string out;
  bool written = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string present = text.substr(at, end - at);
    at = end + 1;
    const auto fields = FieldsOf(present);
    const bool ours = fields.size() >= 3 && !fields[0].starts_with('#') && fields[1] == wanted[1] &&
                      fields[2] == wanted[2];
    if (ours && written) continue;
    out += (ours ? line : present) + "\n";
    written = written || ours;
  }
  if (!written) out += line + "\n";
  return out;
}

Result<void> UpdateFstab(const std::string& volume, const std::string& mount_point) {
  ASSIGN_OR_RETURN(const auto arguments, OwnArguments());
  if (arguments.empty() || IsMountHelper(arguments[0])) return {};
  if (::geteuid() != 0) return Fail(Code::kPermission, "only root may change {}", kFstab);
  ASSIGN_OR_RETURN(const std::string line, FstabLine(arguments, volume, mount_point));
  struct stat present = {};
  // Who keeps passwords there has taken it from others.
  const mode_t mode = ::stat(kFstab, &present) == 0 ? present.st_mode & 07777 : 0644;
  RETURN_IF_ERROR(CheckFstabReaders(volume, mode));
  const auto text = ReadFile(kFstab);
  if (!text && !IsNotFound(text.error())) return std::unexpected(text.error());
  const std::string updated = WithFstabLine(text ? *text : "", line);
  if (!text || updated != *text) RETURN_IF_ERROR(WriteFileAtomic(kFstab, updated, mode));
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return std::unexpected(ErrnoStatus(error.value(), "/proc/self/exe"));
  if (::symlink(program.c_str(), kHelper) != 0 && errno != EEXIST)
    return ErrnoFail("symlink {}", kHelper);
  return {};
}

}  // namespace paddleop::cmd
