#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/posix.h"
#include "samplefs/tool.h"
#include "volume/data/import.h"
#include "volume/data/source.h"

namespace paddleop::cmd {
namespace {

namespace data = volume::data;

constexpr auto kPlainInterval = std::chrono::seconds(10);
constexpr std::size_t kShownFailures = 20;

struct SyncFlags {
  std::string source;
  std::string part;
  std::string report;
  std::string state_dir;
  std::int64_t threads = 64;
  std::int64_t bwlimit = 0;
  bool no_https = false;
  data::ImportOptions import;
};

// Where journals of uploads are kept if nobody says: as root a place for all, else the user's.
std::string DefaultStateDir() {
  if (const std::string given = GetEnv("SAMPLEFS_STATE_DIR"); !given.empty()) return given;
  if (::geteuid() == 0) return "/var/lib/samplefs";
  const std::string state = GetEnv("XDG_STATE_HOME");
  return (state.empty() ? GetEnv("HOME", "/tmp") + "/.local/state" : state) + "/samplefs";
}

// "i/n": part i of n, from 0; n/n is the same as 0/n, for those who count from 1.
Result<void> ParsePart(const std::string& text, data::ImportOptions& options) {
  if (text.empty()) return {};
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, options.part);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '/') {
    return paddleop::Fail(Code::kInvalid, "--part is \"{}\"; give i/n, such as 0/3", text);
  }
  const auto second = std::from_chars(first.ptr + 1, end, options.parts);
  if (second.ec != std::errc() || second.ptr != end || options.parts == 0 ||
      options.part > options.parts) {
    return paddleop::Fail(Code::kInvalid, "--part is \"{}\"; give i/n with i below n", text);
  }
  options.part %= options.parts;
  return {};
}

nlohmann::json ToJson(const data::ImportProgress& progress, std::string_view state) {
  nlohmann::json json = {
      {"state", state},
      {"files",
       {{"total", progress.listed_files},
        {"done", progress.done_files()},
        {"copied", progress.copied_files},
        {"skipped", progress.skipped_files},
        {"failed", progress.failed_files},
        {"excluded", progress.excluded_files},
        {"deleted", progress.deleted_files},
        {"deletedFromSource", progress.deleted_source_files},
        {"retried", progress.retried_files}}},
      {"bytes",
       {{"total", progress.listed_bytes},
        {"copied", progress.copied_bytes},
        {"skipped", progress.skipped_bytes},
        {"failed", progress.failed_bytes},
        {"read", progress.read_bytes}}},
      {"uploads", {{"objects", progress.uploaded_objects}, {"bytes", progress.uploaded_bytes}}},
      {"listing", progress.listing},
      {"percent", progress.percent()},
      {"filesPerSecond", progress.files_per_second()},
      {"bytesPerSecond", progress.bytes_per_second()},
      {"elapsedSeconds", static_cast<double>(progress.elapsed.count()) / 1000.0},
      {"etaSeconds", nullptr}};
  if (const auto left = progress.Remaining()) json["etaSeconds"] = left->count();
  return json;
}

// Shows how far it is: JSON lines, a bar on a terminal, or a line now and then.
class ProgressOutput {
 public:
  explicit ProgressOutput(const Tool& tool)
      : tool_(tool), terminal_(!tool.json && ::isatty(STDERR_FILENO) != 0) {}

  void Show(const data::ImportProgress& progress) {
    if (tool_.json) return tool_.PrintJson(ToJson(progress, "running"));
    if (terminal_) {
      winsize size{};
      const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
      fmt::print(stderr, "\r\033[K{}", data::ProgressBar(progress, known ? size.ws_col - 1 : 79));
      std::fflush(stderr);
      return;
    }
    if (progress.elapsed - last_ < kPlainInterval) return;
    last_ = progress.elapsed;
    fmt::print(stderr, "{}\n", data::ProgressLine(progress));
  }
  void Clear() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }

 private:
  const Tool& tool_;
  const bool terminal_;
  std::chrono::milliseconds last_{0};
};

// The file of --report: one JSON object for each file that failed.
class Report {
 public:
  Result<void> Open(const std::string& path) {
    ASSIGN_OR_RETURN(fd_, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    return {};
  }
  void Add(const data::FileFailure& failure) {
    if (!fd_.valid() || !written_) return;
    const nlohmann::json line = {{"key", failure.key},
                                 {"code", CodeName(failure.error.code())},
                                 {"error", failure.error.message()}};
    written_ = WriteAll(fd_.get(),
                        line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  const Result<void>& written() const { return written_; }

 private:
  UniqueFd fd_;
  Result<void> written_;
};

void PrintSummary(Tool& tool, const data::ImportReport& report, bool dry) {
  const data::ImportProgress& progress = report.progress;
  for (std::size_t i = 0; i < std::min(report.failures.size(), kShownFailures); ++i) {
    fmt::print(stderr, "samplefs: {}: {}\n", report.failures[i].key,
               report.failures[i].error.message());
  }
  if (progress.failed_files > kShownFailures) {
    fmt::print(stderr, "samplefs: and {} more; --report FILE lists all\n",
               FormatCount(progress.failed_files - kShownFailures));
  }
  std::string line = fmt::format(
      "{} files {}, {}; {} there already; {} failed", FormatCount(progress.copied_files),
      dry ? "would be copied" : "copied", FormatSize(progress.copied_bytes),
      FormatCount(progress.skipped_files), FormatCount(progress.failed_files));
  if (progress.deleted_files > 0) {
    line += fmt::format("; {} {} from the volume", FormatCount(progress.deleted_files),
                        dry ? "would be removed" : "removed");
  }
  if (progress.deleted_source_files > 0) {
    line += fmt::format("; {} deleted from the source", FormatCount(progress.deleted_source_files));
  }
  tool.Print(line);
}

int ExitCode(const data::ImportReport& report) {
  if (!report.result) return kExitFailed;
  const auto& progress = report.progress;
  if (progress.failed_files == 0) return kExitDone;
  return progress.copied_files + progress.skipped_files > 0 ? kExitPartly : kExitFailed;
}

std::string_view StateName(const data::ImportReport& report) {
  if (!report.result)
    return report.result.error().code() == Code::kCancelled ? "cancelled" : "failed";
  return ExitCode(report) == kExitDone     ? "done"
         : ExitCode(report) == kExitPartly ? "partly"
                                           : "failed";
}

Result<void> Prepare(SyncFlags& flags, Report& failures) {
  if (flags.threads < 1) return paddleop::Fail(Code::kInvalid, "--threads is {}", flags.threads);
  flags.import.threads = static_cast<std::size_t>(flags.threads);
  if (flags.bwlimit < 0) return paddleop::Fail(Code::kInvalid, "--bwlimit is {}", flags.bwlimit);
  RETURN_IF_ERROR(ParsePart(flags.part, flags.import));
  RETURN_IF_ERROR(flags.import.Validate());
  if (!flags.report.empty()) RETURN_IF_ERROR(failures.Open(flags.report));
  flags.import.journal_dir = flags.state_dir.empty() ? DefaultStateDir() : flags.state_dir;
  flags.import.caller = Tool::Caller();
  // A relative path is one of this machine.
  if (flags.source.find("://") == std::string::npos && !flags.source.starts_with('/')) {
    flags.source = std::filesystem::absolute(flags.source).string();
  }
  return {};
}

int RunSync(Tool& tool, SyncFlags& flags) {
  Report failures;
  if (auto prepared = Prepare(flags, failures); !prepared) {
    tool.Fail(prepared.error());
    return kExitUsage;
  }
  if (auto uri = volume::object::ParseStorageUri(flags.source);
      uri && !uri->config.secret_key.empty()) {
    tool.log().Warn(tool.ctx(),
                    "a secret on the command line can be seen by others; use the environment "
                    "(ACCESS_KEY, SECRET_KEY)");
  }
  auto opened = tool.OpenVolume(
      {.memory_cache_bytes = 0, .max_downloads = 1, .max_uploads = 1, .buffer_bytes = 8 << 20});
  if (!opened) return tool.Fail(opened.error());
  auto source = data::OpenSource(
      tool.ctx(), flags.source,
      {.no_https = flags.no_https, .bwlimit_mbps = flags.bwlimit, .threads = flags.import.threads},
      tool.log(), tool.metrics());
  if (!source) return tool.Fail(source.error());

  ProgressOutput output(tool);
  flags.import.on_progress = [&](const data::ImportProgress& progress) { output.Show(progress); };
  flags.import.on_failure = [&](const data::FileFailure& failure) { failures.Add(failure); };
  const data::ImportReport report =
      data::Import(tool.ctx(), **opened, *source, flags.import, tool.log());
  output.Clear();
  if (auto drained = (*opened)->meta().DrainDeletions(tool.ctx()); !drained && report.result) {
    tool.log().Warn(tool.ctx(), "data of replaced files is deleted later",
                    {{"error", drained.error().message()}});
  }
  if (tool.json) {
    nlohmann::json json = ToJson(report.progress, StateName(report));
    if (!report.result) {
      json["error"] = report.result.error().message();
      json["code"] = CodeName(report.result.error().code());
    }
    json["failures"] = nlohmann::json::array();
    for (const auto& failure : report.failures) {
      json["failures"].push_back({{"key", failure.key}, {"error", failure.error.message()}});
    }
    tool.PrintJson(json);
  } else {
    PrintSummary(tool, report, flags.import.dry);
    if (!report.result) tool.Fail(report.result.error());
  }
  if (!failures.written()) {
    return tool.Fail(failures.written().error().Wrap("--report " + flags.report));
  }
  return ExitCode(report);
}

}  // namespace

void AddSync(Command& program, Tool& tool) {
  auto flags = std::make_shared<SyncFlags>();
  Command command = program.AddCommand("sync", "import files from a bucket, directory or volume",
                                       [flags, &tool] { return RunSync(tool, *flags); });
  data::ImportOptions& import = flags->import;
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArgument(
      "SOURCE", &flags->source,
      "s3://, minio://, bos://, hdfs://, jfs://, redis:// or file:// URI, or a path");
  command.AddOption("--to", &import.to, "directory of the volume that the files go to");
  command.AddOption("-s,--start", &import.start, "first key to import");
  command.AddOption("-e,--end", &import.end, "last key to import");
  command.AddOption("-p,--threads", &flags->threads, "objects read at a time");
  command.AddFlag("-u,--update", &import.update, "copy existing files only if the source is newer");
  command.AddFlag("-f,--force-update", &import.force_update, "copy existing files, changed or not");
  command.AddFlag("--perms", &import.perms,
                  "keep mode and owner (from directories, HDFS, volumes)");
  command.AddFlag("--dirs", &import.dirs, "make empty directories, too");
  command.AddFlag("--dry", &import.dry, "only show what would be done");
  command.AddFlag("--delete-src", &import.delete_src,
                  "delete files from the source once they are in the volume");
  command.AddFlag("--delete-dst", &import.delete_dst,
                  "remove files from the volume that the source does not have");
  command.AddOption(
      "--exclude", [flags](const std::string& p) { flags->import.rules.push_back({false, p}); },
      "leave out what matches the pattern; the first --include or --exclude that matches decides");
  command.AddOption(
      "--include", [flags](const std::string& p) { flags->import.rules.push_back({true, p}); },
      "do not leave out what matches the pattern");
  command.AddOption("--bwlimit", &flags->bwlimit, "megabits read per second, 0 for no limit");
  command.AddFlag("--no-https", &flags->no_https, "use http where the URI does not say");
  command.AddOption("--part", &flags->part,
                    "i/n: import one of n parts; others import the rest, with i from 0 to n-1");
  command.AddOption("--report", &flags->report, "file for the failed files, one JSON object each");
  command.AddOption("--state-dir", &flags->state_dir,
                    "where to note uploads in progress (default /var/lib/samplefs, or below HOME)");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
