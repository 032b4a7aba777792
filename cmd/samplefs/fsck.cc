#include "volume/data/fsck.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

int RunFsck(Tool& tool) {
  auto opened = tool.OpenVolume({.read_only = true, .memory_cache_bytes = 0});
  if (!opened) return tool.Fail(opened.error());
  auto report = volume::data::Fsck(tool.ctx(), (*opened)->meta(), (*opened)->objects(),
                                   (*opened)->setting().layout(), (*opened)->setting().dir_stats);
  if (!report) return tool.Fail(report.error());
  nlohmann::json problems = nlohmann::json::array();
  for (const auto& problem : report->problems) {
    if (!tool.json)
      tool.Print(fmt::format("{}: {}: {}", problem.path, volume::data::KindName(problem.kind),
                             problem.detail));
    problems.push_back({{"kind", volume::data::KindName(problem.kind)},
                        {"path", problem.path},
                        {"detail", problem.detail}});
  }
  if (tool.json) {
    tool.PrintJson({{"files", report->files},
                    {"directories", report->directories},
                    {"slices", report->slices},
                    {"blocks", report->blocks},
                    {"bytes", report->bytes},
                    {"problemCount", report->problem_count},
                    {"problems", problems}});
  } else {
    tool.Print(fmt::format(
        "{} files in {} directories, {} slices, {} blocks, {}: {}", FormatCount(report->files),
        FormatCount(report->directories), FormatCount(report->slices), FormatCount(report->blocks),
        FormatSize(report->bytes),
        report->clean() ? "clean" : fmt::format("{} problems", report->problem_count)));
  }
  return report->clean() ? kExitDone : kExitFailed;
}

}  // namespace

void AddFsck(Command& program, Tool& tool) {
  Command command =
      program.AddCommand("fsck", "check that data, references and statistics are right",
                         [&tool] { return RunFsck(tool); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
