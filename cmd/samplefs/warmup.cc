#include "volume/data/warmup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/posix.h"
#include "samplefs/cache_flags.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

namespace data = volume::data;

constexpr std::size_t kShownFailures = 20;

struct WarmupFlags {
  CacheFlags cache;
  std::vector<std::string> paths;
  std::string list;
  std::string strategy;
  std::int64_t threads = 16;
  std::int64_t ranks = 0;
  std::int64_t rank = -1;
  std::int64_t batch_size = 0;
  std::int64_t epoch = 0;
  bool shuffle = false;
  bool drop_last = false;
  bool check = false;
  bool evict = false;
  std::string plan = "warmup";
  std::string report;
};

Result<std::uint32_t> Number(const char* flag, std::int64_t value) {
  if (value >= 0 && value <= UINT32_MAX) return static_cast<std::uint32_t>(value);
  return paddleop::Fail(Code::kInvalid, "{} is {}; give 0 to 4294967295", flag, value);
}

Result<data::WarmupSelection> Selection(const WarmupFlags& flags) {
  data::WarmupSelection selection{.paths = flags.paths};
  ASSIGN_OR_RETURN(selection.strategy, data::ParseWarmupStrategy(flags.strategy));
  ASSIGN_OR_RETURN(selection.ranks, Number("--ranks", flags.ranks));
  ASSIGN_OR_RETURN(selection.batch_size, Number("--batch-size", flags.batch_size));
  ASSIGN_OR_RETURN(selection.epoch, Number("--epoch", flags.epoch));
  if (flags.rank >= 0) {
    ASSIGN_OR_RETURN(selection.rank, Number("--rank", flags.rank));
  }
  const bool sampled = selection.strategy != data::WarmupStrategy::kAll;
  if (!sampled && (flags.ranks > 0 || flags.rank >= 0 || flags.batch_size > 0 || flags.shuffle ||
                   flags.drop_last || flags.epoch > 0)) {
    return paddleop::Fail(Code::kInvalid,
                          "--ranks, --rank, --batch-size, --shuffle, --drop-last and --epoch need "
                          "--strategy sequence or random");
  }
  if (flags.shuffle) selection.shuffle = true;
  selection.drop_last = flags.drop_last;
  if (!flags.list.empty()) {
    const std::string path = flags.list == "-" ? "/dev/stdin" : flags.list;
    ASSIGN_OR_RETURN(selection.list, ReadFile(path, 1U << 30));
  }
  if (flags.check && flags.evict) {
    return paddleop::Fail(Code::kInvalid, "--check and --evict: give one of them");
  }
  if (!flags.plan.empty()) RETURN_IF_ERROR(volume::ValidatePlan(flags.plan));
  RETURN_IF_ERROR(selection.Validate());
  return selection;
}

using Seconds = std::chrono::duration<double>;

// Shows how far it is: JSON lines, a bar on a terminal, or a line now and then.
class ProgressOutput {
 public:
  explicit ProgressOutput(const Tool& tool)
      : tool_(tool), terminal_(!tool.json && ::isatty(STDERR_FILENO) != 0) {}

  void Show(const data::WarmupProgress& progress) {
    if (tool_.json) return tool_.PrintJson(Json(progress, "running"));
    const std::string line = Line(progress);
    if (terminal_) {
      const int filled = static_cast<int>(Share(progress) * 20);
      fmt::print(stderr, "\r\033[K[{:<20}] {}", std::string(static_cast<std::size_t>(filled), '='),
                 line);
      std::fflush(stderr);
    } else if (Elapsed() - last_ >= 10) {
      last_ = Elapsed();
      fmt::print(stderr, "{}\n", line);
    }
  }
  void Clear() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }

  nlohmann::json Json(const data::WarmupProgress& progress, std::string_view state) const {
    nlohmann::json json = {{"state", state},
                           {"files", {{"total", progress.files}, {"done", progress.done_files}}},
                           {"blocks",
                            {{"total", progress.blocks},
                             {"done", progress.done_blocks},
                             {"cached", progress.cached_blocks},
                             {"failed", progress.failed_blocks}}},
                           {"bytes",
                            {{"total", progress.bytes},
                             {"done", progress.done_bytes},
                             {"cached", progress.cached_bytes},
                             {"fetched", progress.fetched_bytes}}},
                           {"percent", Share(progress) * 100},
                           {"filesPerSecond", PerSecond(progress.done_files)},
                           {"bytesPerSecond", PerSecond(progress.fetched_bytes)},
                           {"elapsedSeconds", Elapsed()},
                           {"etaSeconds", nullptr}};
    if (const auto left = Left(progress)) json["etaSeconds"] = *left;
    return json;
  }

 private:
  double Elapsed() const { return Seconds(std::chrono::steady_clock::now() - start_).count(); }
  static double Share(const data::WarmupProgress& progress) {
    if (progress.bytes == 0) return 1;
    return static_cast<double>(progress.done_bytes) / static_cast<double>(progress.bytes);
  }
  double PerSecond(std::uint64_t count) const {
    return Elapsed() > 0 ? static_cast<double>(count) / Elapsed() : 0;
  }
  std::optional<double> Left(const data::WarmupProgress& progress) const {
    const std::uint64_t done = progress.done_bytes - progress.cached_bytes;
    if (done == 0) return std::nullopt;
    return Elapsed() / static_cast<double>(done) *
           static_cast<double>(progress.bytes - progress.done_bytes);
  }
  std::string Line(const data::WarmupProgress& progress) const {
    const auto whole = [&](std::uint64_t count) {
      return static_cast<std::uint64_t>(PerSecond(count));
    };
    std::string line = fmt::format(
        "{} of {} files, {} of {}, {} files/s, {}/s", FormatCount(progress.done_files),
        FormatCount(progress.files), FormatSize(progress.done_bytes), FormatSize(progress.bytes),
        FormatCount(whole(progress.done_files)), FormatSize(whole(progress.fetched_bytes)));
    if (const auto left = Left(progress)) line += fmt::format(", {:.0f} s left", *left);
    if (progress.failed_blocks > 0)
      line += fmt::format(", {} failed", FormatCount(progress.failed_blocks));
    return line;
  }

  const Tool& tool_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double last_ = 0;
};

// One JSON object for each file that failed.
Result<void> WriteReport(const std::string& path,
                         const std::vector<data::WarmupPlan::Failure>& failures) {
  if (path.empty()) return {};
  std::string text;
  for (const auto& failure : failures) {
    text += nlohmann::json({{"path", failure.path},
                            {"code", CodeName(failure.error.code())},
                            {"error", failure.error.message()}})
                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
            "\n";
  }
  return WriteFileAtomic(path, text);
}

void PrintFailures(const std::vector<data::WarmupPlan::Failure>& failures) {
  for (std::size_t i = 0; i < std::min(failures.size(), kShownFailures); ++i)
    fmt::print(stderr, "samplefs: {}: {}\n", failures[i].path, failures[i].error.message());
  if (failures.size() > kShownFailures) {
    fmt::print(stderr, "samplefs: and {} more; --report FILE lists all\n",
               FormatCount(failures.size() - kShownFailures));
  }
}

// What of the plan cannot be warm, whatever is in the cache: for --check and --evict.
int ReportMissing(Tool& tool, const data::Warmup& warmup, const WarmupFlags& flags) {
  const auto& failures = warmup.plan.failures;
  if (auto written = WriteReport(flags.report, failures); !written)
    return tool.Fail(written.error());
  if (!tool.json) PrintFailures(failures);
  if (failures.empty()) return kExitDone;
  return warmup.plan.files > 0 ? kExitPartly : kExitFailed;
}

int Check(Tool& tool, volume::Volume& volume, const data::Warmup& warmup,
          const WarmupFlags& flags) {
  auto report = data::CheckWarmup(tool.ctx(), volume, warmup.plan);
  if (!report) return tool.Fail(report.error());
  const auto& progress = report->progress;
  const double percent = progress.bytes == 0 ? 100.0
                                             : 100.0 * static_cast<double>(progress.cached_bytes) /
                                                   static_cast<double>(progress.bytes);
  if (tool.json) {
    tool.PrintJson({{"files", progress.files},
                    {"blocks", progress.blocks},
                    {"bytes", progress.bytes},
                    {"cachedBlocks", progress.cached_blocks},
                    {"cachedBytes", progress.cached_bytes},
                    {"failed", warmup.plan.failures.size()},
                    {"percent", percent}});
  } else {
    tool.Print(fmt::format("{:.1f} % cached: {} of {}, {} of {} blocks, {} files", percent,
                           FormatSize(progress.cached_bytes), FormatSize(progress.bytes),
                           FormatCount(progress.cached_blocks), FormatCount(progress.blocks),
                           FormatCount(progress.files)));
  }
  return ReportMissing(tool, warmup, flags);
}

int Evict(Tool& tool, volume::Volume& volume, const data::Warmup& warmup,
          const WarmupFlags& flags) {
  auto removed = data::EvictPlanned(tool.ctx(), volume, warmup.plan, flags.plan);
  if (!removed) return tool.Fail(removed.error());
  if (tool.json)
    tool.PrintJson({{"blocks", removed->blocks}, {"bytes", removed->bytes}});
  else
    tool.Print(fmt::format("{} blocks removed, {}", FormatCount(removed->blocks),
                           FormatSize(removed->bytes)));
  return ReportMissing(tool, warmup, flags);
}

int Warm(Tool& tool, volume::Volume& volume, const data::Warmup& warmup, const WarmupFlags& flags) {
  ProgressOutput output(tool);
  auto report = data::RunWarmup(
      tool.ctx(), volume, warmup.plan,
      {.pin = flags.plan,
       .threads = static_cast<std::size_t>(std::max<std::int64_t>(1, flags.threads)),
       .progress = [&](const auto& progress) { output.Show(progress); }});
  output.Clear();
  if (!report) return tool.Fail(report.error());
  auto failures = data::FailedFiles(warmup, volume.setting().layout(), *report);
  failures.insert(failures.begin(), warmup.plan.failures.begin(), warmup.plan.failures.end());
  if (auto written = WriteReport(flags.report, failures); !written)
    return tool.Fail(written.error());
  const auto& progress = report->progress;
  int code = kExitDone;
  if (!failures.empty() || progress.failed_blocks > 0)
    code = progress.done_blocks > 0 ? kExitPartly : kExitFailed;
  if (tool.json) {
    auto json = output.Json(progress, code == kExitDone     ? "done"
                                      : code == kExitPartly ? "partly"
                                                            : "failed");
    json["files"]["failed"] = failures.size();
    tool.PrintJson(json);
    return code;
  }
  PrintFailures(failures);
  tool.Print(fmt::format("{} files in {} blocks: {} fetched, {} there already; {} files failed",
                         FormatCount(progress.files), FormatCount(progress.blocks),
                         FormatSize(progress.fetched_bytes), FormatSize(progress.cached_bytes),
                         FormatCount(failures.size())));
  return code;
}

int RunWarmupCommand(Tool& tool, const WarmupFlags& flags) {
  auto cache = flags.cache.Options(true);
  if (!cache) return tool.Fail(cache.error()), kExitUsage;
  auto selection = Selection(flags);
  if (!selection) {
    tool.Fail(selection.error());
    return selection.error().code() == Code::kInvalid ? kExitUsage : kExitFailed;
  }
  auto opened = tool.OpenVolume({.read_only = true,
                                 .memory_cache_bytes = 0,
                                 .cache = *std::move(cache),
                                 .cache_upkeep = !flags.check && !flags.evict});
  if (!opened) return tool.Fail(opened.error());
  auto warmup = data::LoadWarmup(tool.ctx(), **opened, *selection);
  if (!warmup) return tool.Fail(warmup.error());
  if (flags.check) return Check(tool, **opened, *warmup, flags);
  if (flags.evict) return Evict(tool, **opened, *warmup, flags);
  return Warm(tool, **opened, *warmup, flags);
}

}  // namespace

void AddWarmup(Command& program, Tool& tool) {
  auto flags = std::make_shared<WarmupFlags>();
  Command command =
      program.AddCommand("warmup", "bring files into the local cache and pin them there",
                         [flags, &tool] { return RunWarmupCommand(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments("PATH", &flags->paths, "files and directories of the volume; default: all",
                       false);
  command.AddOption(
      "-f,--file", &flags->list,
      "list of paths, one a line, perhaps with a label after it; - is standard input");
  command.AddOption("-p,--threads", &flags->threads, "blocks to fetch at a time");
  command.AddOption("--strategy", &flags->strategy,
                    "sequence or random: only what a rank of Paddle's sampler reads");
  command.AddOption("--ranks", &flags->ranks, "ranks of the training job");
  command.AddOption("--rank", &flags->rank, "the rank that reads here; -1: all of them");
  command.AddOption("--batch-size", &flags->batch_size,
                    "the sampler's; 0 with sequence: contiguous shares");
  command.AddFlag("--shuffle", &flags->shuffle, "the sampler shuffles (random: always)");
  command.AddFlag("--drop-last", &flags->drop_last, "the sampler drops a short last batch");
  command.AddOption("--epoch", &flags->epoch, "the epoch that is read, if the sampler shuffles");
  command.AddFlag("--check", &flags->check, "only show how much of it is cached");
  command.AddFlag("--evict", &flags->evict,
                  "remove it from the cache instead, unless other plans have pinned it");
  command.AddOption("--plan", &flags->plan,
                    "name of the pins, as `clear --plan` takes them away; empty: do not pin");
  command.AddOption("--report", &flags->report, "write failed files to this file, as JSON lines");
  flags->cache.Add(command);
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
