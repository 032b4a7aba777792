#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

int RunStatus(Tool& tool) {
  if (tool.IsPath()) return PrintMountStatus(tool);
  auto opened = tool.OpenVolume({.read_only = true, .memory_cache_bytes = 0});
  if (!opened) return tool.Fail(opened.error());
  volume::Volume& volume = **opened;
  auto usage = volume.meta().GetStatFs(tool.ctx());
  if (!usage) return tool.Fail(usage.error());
  auto sessions = volume.meta().ListSessions(tool.ctx());
  if (!sessions) return tool.Fail(sessions.error());

  if (tool.json) {
    nlohmann::json out = {{"setting", nlohmann::json::parse(volume.setting().ToPublicJson())},
                          {"usedSpace", usage->used_space},
                          {"usedInodes", usage->used_inodes},
                          {"availableSpace", usage->available_space},
                          {"availableInodes", usage->available_inodes},
                          {"sessions", nlohmann::json::array()}};
    for (const auto& session : *sessions) {
      auto info = nlohmann::json::parse(session.info_json, nullptr, false);
      out["sessions"].push_back({{"sid", session.sid},
                                 {"expires", session.expires},
                                 {"info", info.is_discarded() ? nlohmann::json() : info}});
    }
    tool.PrintJson(out);
    return kExitDone;
  }
  const auto& setting = volume.setting();
  tool.Print(fmt::format("volume       {} ({})", setting.name, setting.uuid));
  tool.Print(fmt::format("storage      {} at {}", setting.storage, RedactUrl(setting.bucket)));
  tool.Print(fmt::format("blocks       {}, compression {}",
                         FormatSize(std::uint64_t{setting.block_size_kib} << 10),
                         setting.compression.empty() ? "none" : setting.compression));
  tool.Print(fmt::format("trash        {} days", setting.trash_days));
  tool.Print(fmt::format("used         {} in {} inodes", FormatSize(usage->used_space),
                         FormatCount(usage->used_inodes)));
  tool.Print(fmt::format("available    {}", FormatSize(usage->available_space)));
  tool.Print(fmt::format("clients      {}", sessions->size()));
  return kExitDone;
}

}  // namespace

void AddStatus(Command& program, Tool& tool) {
  Command command = program.AddCommand("status", "show a volume's setting, usage and clients",
                                       [&tool] { return RunStatus(tool); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL or mount point");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
