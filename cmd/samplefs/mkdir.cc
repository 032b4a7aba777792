#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

Result<void> MakeOne(Tool& tool, volume::MetaStore& meta, const std::string& path, bool parents) {
  if (!parents) {
    ASSIGN_OR_RETURN(auto where, ResolveParent(tool, meta, path));
    RETURN_IF_ERROR(meta.Mkdir(tool.ctx(), Tool::Caller(), where.first.ino, where.second, 0777));
    return {};
  }
  volume::Ino at = volume::kRootIno;
  std::string_view rest = path;
  while (!rest.empty()) {
    const auto slash = std::min(rest.find('/'), rest.size());
    const std::string_view name = rest.substr(0, slash);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (name.empty()) continue;
    auto made = meta.Mkdir(tool.ctx(), Tool::Caller(), at, name, 0777);
    if (!made && IsAlreadyExists(made.error()))
      made = meta.Lookup(tool.ctx(), Tool::Caller(), at, name);
    if (!made) return std::unexpected(std::move(made).error());
    at = made->ino;
  }
  return {};
}

}  // namespace

void AddMkdir(Command& program, Tool& tool) {
  struct Flags {
    std::vector<std::string> paths;
    bool parents = false;
  };
  auto flags = std::make_shared<Flags>();
  Command command = program.AddCommand("mkdir", "make directories", [flags, &tool] {
    auto opened = tool.OpenVolume({.memory_cache_bytes = 0});
    if (!opened) return tool.Fail(opened.error());
    int code = kExitDone;
    for (const auto& path : flags->paths) {
      auto made = MakeOne(tool, (*opened)->meta(), path, flags->parents);
      if (!made) code = tool.Fail(made.error().Wrap(path));
    }
    return code;
  });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments("PATH", &flags->paths, "paths in the volume");
  command.AddFlag("-p,--parents", &flags->parents,
                  "make missing parents; fine if the path is there");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
