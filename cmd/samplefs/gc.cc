#include "volume/data/gc.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/posix.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

// JFS_GC_SKIPPEDTIME, in seconds, as the official client reads it.
Result<std::chrono::seconds> MinAge() {
  const std::string text = GetEnv("JFS_GC_SKIPPEDTIME", "3600");
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) {
    return paddleop::Fail(Code::kInvalid, "JFS_GC_SKIPPEDTIME is \"{}\"; give seconds", text);
  }
  return std::chrono::seconds(seconds);
}

int RunGc(Tool& tool, bool delete_leaked) {
  auto age = MinAge();
  if (!age) return tool.Fail(age.error());
  auto opened = tool.OpenVolume({.read_only = !delete_leaked, .memory_cache_bytes = 0});
  if (!opened) return tool.Fail(opened.error());
  auto report = volume::data::CollectGarbage(tool.ctx(), (*opened)->meta(), (*opened)->objects(),
                                             (*opened)->setting().layout(),
                                             {.delete_leaked = delete_leaked, .min_age = *age});
  if (!report) return tool.Fail(report.error());
  if (tool.json) {
    tool.PrintJson({{"objects", report->objects},
                    {"bytes", report->bytes},
                    {"leakedObjects", report->leaked_objects},
                    {"leakedBytes", report->leaked_bytes},
                    {"skippedObjects", report->skipped_objects},
                    {"deletedObjects", report->deleted_objects},
                    {"failedObjects", report->failed_objects},
                    {"pendingFiles", report->pending_files},
                    {"pendingSlices", report->pending_slices}});
  } else {
    tool.Print(
        fmt::format("{} objects, {}", FormatCount(report->objects), FormatSize(report->bytes)));
    tool.Print(fmt::format("{} leaked, {}; {} too young to judge",
                           FormatCount(report->leaked_objects), FormatSize(report->leaked_bytes),
                           FormatCount(report->skipped_objects)));
    if (report->pending_files + report->pending_slices > 0) {
      tool.Print(fmt::format("{} removed files and {} slices wait to be deleted",
                             FormatCount(report->pending_files),
                             FormatCount(report->pending_slices)));
    }
    if (delete_leaked)
      tool.Print(fmt::format("{} deleted, {} could not be deleted",
                             FormatCount(report->deleted_objects),
                             FormatCount(report->failed_objects)));
    else if (report->leaked_objects > 0)
      tool.Print("run again with --delete to delete them");
  }
  return report->failed_objects > 0 ? kExitPartly : kExitDone;
}

}  // namespace

void AddGc(Command& program, Tool& tool) {
  auto delete_leaked = std::make_shared<bool>(false);
  Command command =
      program.AddCommand("gc", "find objects that nothing refers to",
                         [delete_leaked, &tool] { return RunGc(tool, *delete_leaked); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddFlag("--delete", delete_leaked.get(),
                  "delete them, and what removed files left behind");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
