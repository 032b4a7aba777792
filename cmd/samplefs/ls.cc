#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

struct LsFlags {
  std::vector<std::string> paths;
  bool long_form = false;
  bool recursive = false;
  bool all = false;
};

std::string ModeText(const volume::Attr& attr) {
  static constexpr std::string_view kTypes = "?-dlpbcs";
  std::string text(1, kTypes[static_cast<std::size_t>(attr.type)]);
  for (int shift : {6, 3, 0}) {
    const int bits = attr.mode >> shift;
    text += (bits & 4) ? 'r' : '-';
    text += (bits & 2) ? 'w' : '-';
    text += (bits & 1) ? 'x' : '-';
  }
  if (attr.mode & 04000) text[3] = text[3] == 'x' ? 's' : 'S';
  if (attr.mode & 02000) text[6] = text[6] == 'x' ? 's' : 'S';
  if (attr.mode & 01000) text[9] = text[9] == 'x' ? 't' : 'T';
  return text;
}

std::string TimeText(const volume::Timestamp& time) {
  const std::time_t seconds = time.seconds;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min);
}

class Lister {
 public:
  Lister(Tool& tool, volume::MetaStore& meta, const LsFlags& flags)
      : tool_(tool), meta_(meta), flags_(flags) {}

  Result<void> List(const std::string& path) {
    ASSIGN_OR_RETURN(auto entry,
                     meta_.Resolve(tool_.ctx(), Tool::Caller(), volume::kRootIno, path));
    if (entry.attr.type != volume::FileType::kDirectory) {
      Show(path, path, entry.ino, entry.attr);
      return {};
    }
    std::string prefix = path;
    while (prefix.ends_with('/')) prefix.pop_back();
    return ListDirectory(prefix, entry.ino);
  }

 private:
  void Show(const std::string& path, std::string_view name, volume::Ino ino,
            const volume::Attr& attr) {
    if (tool_.json) {
      tool_.PrintJson({{"path", path},
                       {"inode", volume::ToInt(ino)},
                       {"type", TypeName(attr.type)},
                       {"mode", fmt::format("{:04o}", attr.mode)},
                       {"uid", attr.uid},
                       {"gid", attr.gid},
                       {"length", attr.length},
                       {"mtime", attr.mtime.seconds}});
    } else if (flags_.long_form) {
      tool_.Print(fmt::format("{} {:>3} {:>5} {:>5} {:>12} {} {}", ModeText(attr), attr.nlink,
                              attr.uid, attr.gid, attr.length, TimeText(attr.mtime),
                              flags_.recursive ? std::string_view(path) : name));
    } else {
      tool_.Print(flags_.recursive ? std::string_view(path) : name);
    }
  }

  Result<void> ListDirectory(const std::string& path, volume::Ino ino) {
    std::string cursor;
    std::vector<std::pair<std::string, volume::Ino>> below;
    do {
      ASSIGN_OR_RETURN(auto page,
                       meta_.ReadDir(tool_.ctx(), Tool::Caller(), ino, cursor, 4096, true));
      for (const auto& entry : page.entries) {
        if (!flags_.all && entry.name.starts_with('.')) continue;
        const std::string full = path + "/" + entry.name;
        Show(full, entry.name, entry.ino, entry.attr.value_or(volume::Attr{.type = entry.type}));
        if (flags_.recursive && entry.type == volume::FileType::kDirectory)
          below.emplace_back(full, entry.ino);
      }
      cursor = page.next;
    } while (!cursor.empty());
    for (const auto& [full, child] : below) RETURN_IF_ERROR(ListDirectory(full, child));
    return {};
  }

  Tool& tool_;
  volume::MetaStore& meta_;
  const LsFlags& flags_;
};

int RunLs(Tool& tool, const LsFlags& flags) {
  auto opened = tool.OpenVolume({.read_only = true, .memory_cache_bytes = 0});
  if (!opened) return tool.Fail(opened.error());
  Lister lister(tool, (*opened)->meta(), flags);
  int code = kExitDone;
  for (const auto& path : flags.paths.empty() ? std::vector<std::string>{"/"} : flags.paths) {
    auto listed = lister.List(path);
    if (!listed) code = tool.Fail(listed.error().Wrap(path));
  }
  return code;
}

}  // namespace

void AddLs(Command& program, Tool& tool) {
  auto flags = std::make_shared<LsFlags>();
  Command command =
      program.AddCommand("ls", "list directories", [flags, &tool] { return RunLs(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments("PATH", &flags->paths, "paths in the volume; the root if there is none",
                       false);
  command.AddFlag("-l,--long", &flags->long_form, "with attributes");
  command.AddFlag("-R,--recursive", &flags->recursive, "with all that lies below");
  command.AddFlag("-a,--all", &flags->all, "with names that begin with a dot");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
