#include <unistd.h>

#include "base/posix.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

Result<void> PrintFile(Tool& tool, volume::Vfs& vfs, const std::string& path) {
  ASSIGN_OR_RETURN(const auto entry,
                   vfs.meta().Resolve(tool.ctx(), Tool::Caller(), volume::kRootIno, path));
  ASSIGN_OR_RETURN(const auto opened,
                   vfs.Open(tool.ctx(), Tool::Caller(), entry.ino, {.read = true}));
  std::vector<std::byte> buffer(1 << 20);
  for (std::uint64_t offset = 0;;) {
    ASSIGN_OR_RETURN(const std::size_t n, vfs.Read(tool.ctx(), opened.handle, offset, buffer));
    if (n == 0) break;
    RETURN_IF_ERROR(WriteAll(STDOUT_FILENO, {reinterpret_cast<const char*>(buffer.data()), n}));
    offset += n;
  }
  return vfs.Release(tool.ctx(), opened.handle);
}

int RunCat(Tool& tool, const std::vector<std::string>& paths) {
  // One file after the other, from its beginning: four blocks ahead keep a store busy.
  auto opened = tool.OpenVolume({.read_only = true,
                                 .memory_cache_bytes = 24ULL << 20,
                                 .max_downloads = 6,
                                 .buffer_bytes = 24ULL << 20,
                                 .vfs = {.max_readahead = 16ULL << 20}});
  if (!opened) return tool.Fail(opened.error());
  int code = kExitDone;
  for (const auto& path : paths) {
    auto printed = PrintFile(tool, (*opened)->vfs(), path);
    if (!printed) code = tool.Fail(printed.error().Wrap(path));
  }
  return code;
}

}  // namespace

void AddCat(Command& program, Tool& tool) {
  auto paths = std::make_shared<std::vector<std::string>>();
  Command command =
      program.AddCommand("cat", "print files", [paths, &tool] { return RunCat(tool, *paths); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments("PATH", paths.get(), "files in the volume");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
