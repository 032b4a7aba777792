#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

struct RmFlags {
  std::vector<std::string> paths;
  bool recursive = false;
  bool skip_trash = false;
};

Result<std::uint64_t> Remove(Tool& tool, volume::MetaStore& meta, const std::string& path,
                             const RmFlags& flags) {
  ASSIGN_OR_RETURN(auto where, ResolveParent(tool, meta, path));
  if (flags.recursive) {
    ASSIGN_OR_RETURN(const auto done,
                     meta.RemoveTree(tool.ctx(), Tool::Caller(), where.first.ino, where.second,
                                     {.skip_trash = flags.skip_trash}));
    return done.removed;
  }
  auto removed =
      meta.Unlink(tool.ctx(), Tool::Caller(), where.first.ino, where.second, flags.skip_trash);
  if (!removed && removed.error().code() == Code::kIsDirectory) {
    return paddleop::Fail(Code::kIsDirectory, "is a directory; use rmr, or rm --recursive");
  }
  if (!removed) return std::unexpected(std::move(removed).error());
  return 1;
}

int RunRm(Tool& tool, const RmFlags& flags) {
  auto opened = tool.OpenVolume({.memory_cache_bytes = 0});
  if (!opened) return tool.Fail(opened.error());
  std::uint64_t removed = 0;
  std::size_t failed = 0;
  for (const auto& path : flags.paths) {
    auto done = Remove(tool, (*opened)->meta(), path, flags);
    if (!done) {
      tool.Fail(done.error().Wrap(path));
      ++failed;
    } else {
      removed += *done;
    }
  }
  // The data of removed files is deleted by this process: nobody else may be there to do it soon.
  if (auto drained = (*opened)->meta().DrainDeletions(tool.ctx()); !drained)
    return tool.Fail(drained.error());
  if (tool.json) {
    tool.PrintJson({{"removed", removed}, {"failed", failed}});
  } else if (flags.recursive) {
    tool.Print(fmt::format("{} entries removed", FormatCount(removed)));
  }
  if (failed == 0) return kExitDone;
  return failed < flags.paths.size() ? kExitPartly : kExitFailed;
}

}  // namespace

void AddRm(Command& program, Tool& tool) {
  auto flags = std::make_shared<RmFlags>();
  Command command =
      program.AddCommand("rm", "remove files", [flags, &tool] { return RunRm(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments("PATH", &flags->paths, "paths in the volume");
  command.AddFlag("-r,--recursive", &flags->recursive, "remove directories with all they hold");
  command.AddFlag("--skip-trash", &flags->skip_trash, "remove at once, without the trash");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
