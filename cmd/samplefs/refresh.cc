#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "fuse/control.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

int RunRefresh(Tool& tool, const std::string& directory) {
  const Context ctx = tool.ctx().WithTimeout(std::chrono::minutes(10));
  auto reply = fuse::CallMount(ctx, directory, "POST", "/refresh");
  if (!reply) return tool.Fail(reply.error());
  const auto json = nlohmann::json::parse(*reply, nullptr, false);
  if (tool.json) {
    tool.PrintJson(json);
    return kExitDone;
  }
  if (!json.value("changed", false)) {
    tool.Print("nothing has changed");
  } else {
    tool.Print(fmt::format("{} names and {} files and directories have changed; {} in all",
                           FormatCount(json.value("names", std::uint64_t{0})),
                           FormatCount(json.value("inodes", std::uint64_t{0})),
                           FormatCount(json.value("total", std::uint64_t{0}))));
  }
  return kExitDone;
}

}  // namespace

void AddRefresh(Command& program, Tool& tool) {
  auto directory = std::make_shared<std::string>();
  Command command = program.AddCommand("refresh", "bring a mount with --read-only up to date",
                                       [directory, &tool] { return RunRefresh(tool, *directory); });
  command.AddArgument("DIR", directory.get(), "mount point");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
