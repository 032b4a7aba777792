#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/tool.h"
#include "volume/data/remove.h"

namespace paddleop::cmd {
namespace {

struct RmrFlags {
  std::vector<std::string> paths;
  bool skip_trash = false;
};

double Seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

int RunRmr(Tool& tool, const RmrFlags& flags) {
  auto opened = tool.OpenVolume({.memory_cache_bytes = 0, .max_downloads = 1, .max_uploads = 1});
  if (!opened) return tool.Fail(opened.error());
  const auto report =
      volume::data::RemovePaths(tool.ctx(), **opened, flags.paths,
                                {.caller = Tool::Caller(), .skip_trash = flags.skip_trash});
  nlohmann::json failures = nlohmann::json::array();
  for (const auto& failure : report.failures) {
    if (!tool.json) fmt::print(stderr, "samplefs: {}: {}\n", failure.key, failure.error.message());
    failures.push_back({{"path", failure.key}, {"error", failure.error.message()}});
  }
  if (tool.json) {
    nlohmann::json json = {{"removed", report.removed},
                           {"failed", report.failures.size()},
                           {"failures", failures},
                           {"namesSeconds", Seconds(report.names)},
                           {"elapsedSeconds", Seconds(report.elapsed)}};
    if (!report.objects) json["error"] = report.objects.error().message();
    tool.PrintJson(json);
  } else {
    tool.Print(fmt::format("{} entries removed", FormatCount(report.removed)));
    if (!report.objects) {
      fmt::print(stderr, "samplefs: their data is deleted later: {}\n",
                 report.objects.error().message());
    }
  }
  if (report.failures.empty()) return report.objects ? kExitDone : kExitPartly;
  return report.failures.size() < flags.paths.size() ? kExitPartly : kExitFailed;
}

}  // namespace

void AddRmr(Command& program, Tool& tool) {
  auto flags = std::make_shared<RmrFlags>();
  Command command = program.AddCommand("rmr", "remove directories with all they hold",
                                       [flags, &tool] { return RunRmr(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments("PATH", &flags->paths, "paths in the volume");
  command.AddFlag("--skip-trash", &flags->skip_trash, "remove at once, without the trash");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
