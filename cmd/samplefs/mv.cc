#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

Result<void> Move(Tool& tool, volume::MetaStore& meta, const std::string& from,
                  const std::string& to, bool no_replace) {
  ASSIGN_OR_RETURN(auto source, ResolveParent(tool, meta, from));
  volume::Ino parent{};
  std::string name;
  auto existing = meta.Resolve(tool.ctx(), Tool::Caller(), volume::kRootIno, to);
  if (existing && existing->attr.type == volume::FileType::kDirectory) {
    parent = existing->ino;
    name = source.second;
  } else {
    ASSIGN_OR_RETURN(auto target, ResolveParent(tool, meta, to));
    parent = target.first.ino;
    name = target.second;
  }
  RETURN_IF_ERROR(
      meta.Rename(tool.ctx(), Tool::Caller(), source.first.ino, source.second, parent, name,
                  no_replace ? volume::RenameMode::kNoReplace : volume::RenameMode::kReplace));
  return {};
}

}  // namespace

void AddMv(Command& program, Tool& tool) {
  struct Flags {
    std::string from;
    std::string to;
    bool no_replace = false;
  };
  auto flags = std::make_shared<Flags>();
  Command command = program.AddCommand("mv", "rename or move", [flags, &tool] {
    auto opened = tool.OpenVolume({.memory_cache_bytes = 0});
    if (!opened) return tool.Fail(opened.error());
    auto moved = Move(tool, (*opened)->meta(), flags->from, flags->to, flags->no_replace);
    return moved ? kExitDone : tool.Fail(moved.error());
  });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArgument("FROM", &flags->from, "path in the volume");
  command.AddArgument("TO", &flags->to, "new path, or a directory to move into");
  command.AddFlag("-n,--no-replace", &flags->no_replace, "fail if the new path exists");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
