#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "runtime/protocol/internal/fields.h"
#include "runtime/protocol/job.h"

namespace paddleop::runtime {
namespace {

using internal::Fields;
using internal::Json;

Json CountJson(const api::ProgressCount& count) {
  return {{"total", count.total},
          {"done", count.done},
          {"skipped", count.skipped},
          {"failed", count.failed}};
}

void ReadCount(Fields& parent, const char* key, api::ProgressCount& out) {
  const Json* json = parent.Find(key);
  if (json == nullptr) return;
  Fields fields(*json, parent.PathOf(key));
  fields("total", out.total);
  fields("done", out.done);
  fields("skipped", out.skipped);
  fields("failed", out.failed);
  parent.Add(fields.Finish());
}

Json ProgressJson(const JobProgress& progress) {
  Json out = {{"files", CountJson(progress.files)},
              {"bytes", CountJson(progress.bytes)},
              {"bytesPerSecond", progress.bytes_per_second}};
  if (progress.eta_seconds) out["etaSeconds"] = *progress.eta_seconds;
  return out;
}

void ReadProgress(Fields& parent, JobProgress& out) {
  const Json* json = parent.Find("progress");
  if (json == nullptr) return;
  Fields fields(*json, parent.PathOf("progress"));
  ReadCount(fields, "files", out.files);
  ReadCount(fields, "bytes", out.bytes);
  fields("bytesPerSecond", out.bytes_per_second);
  if (fields.Find("etaSeconds") != nullptr) fields("etaSeconds", out.eta_seconds.emplace());
  parent.Add(fields.Finish());
}

void ReadState(Fields& fields, JobState& out) {
  std::string name;
  fields("state", name);
  auto state = ParseState(name);
  if (state) {
    out = *state;
  } else {
    fields.Add(std::unexpected(state.error()));
  }
}

void ReadTime(Fields& fields, const char* key, std::optional<api::Time>& out) {
  std::string text;
  fields(key, text);
  if (text.empty()) return;
  auto time = api::ParseTime(text);
  if (time) {
    out = *time;
  } else {
    fields.Add(std::unexpected(time.error()));
  }
}

std::string_view WireStatus(JobState state) {
  if (state == JobState::kSucceeded) return "success";
  return Finished(state) ? "fail" : "running";
}

void AddCount(api::ProgressCount& sum, const api::ProgressCount& part) {
  sum.total += part.total;
  sum.done += part.done;
  sum.skipped += part.skipped;
  sum.failed += part.failed;
}

std::string FormatEta(std::int64_t seconds) {
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{}s", seconds / 60, seconds % 60);
  return fmt::format("{}h{}m", seconds / 3600, seconds % 3600 / 60);
}

// What is behind us, in percent; by bytes where there are any.
std::optional<std::int64_t> Percent(const JobProgress& progress) {
  const api::ProgressCount& by = progress.bytes.total > 0 ? progress.bytes : progress.files;
  if (by.total <= 0) return std::nullopt;
  const std::int64_t behind = by.done + by.skipped + by.failed;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(100.0 * static_cast<double>(behind) /
                                                            static_cast<double>(by.total)),
                                  0, 100);
}

}  // namespace

api::SampleJobProgress ForStatus(const JobProgress& progress) {
  api::SampleJobProgress out{.files = progress.files, .bytes = progress.bytes};
  if (progress.bytes_per_second >= 1) {
    out.rate = FormatSize(static_cast<std::uint64_t>(progress.bytes_per_second)) + "/s";
  }
  if (progress.eta_seconds) out.eta = FormatEta(*progress.eta_seconds);
  if (const auto percent = Percent(progress)) out.percent = fmt::format("{}%", *percent);
  return out;
}

JobProgress Merge(const std::vector<JobProgress>& parts) {
  JobProgress sum;
  for (const JobProgress& part : parts) {
    AddCount(sum.files, part.files);
    AddCount(sum.bytes, part.bytes);
    sum.bytes_per_second += part.bytes_per_second;
    if (part.eta_seconds) {
      sum.eta_seconds = std::max(sum.eta_seconds.value_or(0), *part.eta_seconds);
    }
  }
  return sum;
}

Json ToJson(const JobResult& result) {
  Json out = {{"name", result.name},
              {"kind", KindName(result.kind)},
              {"status", WireStatus(result.state)},
              {"state", StateName(result.state)},
              {"message", result.message},
              {"progress", ProgressJson(result.progress)},
              {"runs", result.runs}};
  for (const PartResult& part : result.parts) {
    out["parts"].push_back({{"index", part.index},
                            {"state", StateName(part.state)},
                            {"message", part.message},
                            {"progress", ProgressJson(part.progress)}});
  }
  for (const FailedFile& file : result.failed_files) {
    out["failedFiles"].push_back({{"path", file.path}, {"reason", file.reason}});
  }
  if (result.start_time) out["startTime"] = api::FormatTime(*result.start_time);
  if (result.end_time) out["endTime"] = api::FormatTime(*result.end_time);
  return out;
}

Result<JobResult> JobResultFromJson(const Json& json) {
  JobResult result;
  Fields fields(json);
  RETURN_IF_ERROR(fields.Finish());
  fields("name", result.name);
  std::string kind;
  fields("kind", kind);
  ASSIGN_OR_RETURN(result.kind, ParseKind(kind));
  ReadState(fields, result.state);
  fields("message", result.message);
  fields("runs", result.runs);
  ReadProgress(fields, result.progress);
  if (const Json* parts = fields.Array("parts")) {
    for (std::size_t i = 0; i < parts->size(); ++i) {
      PartResult& part = result.parts.emplace_back();
      Fields inner((*parts)[i], fmt::format("parts[{}]", i));
      inner("index", part.index);
      ReadState(inner, part.state);
      inner("message", part.message);
      ReadProgress(inner, part.progress);
      fields.Add(inner.Finish());
    }
  }
  if (const Json* files = fields.Array("failedFiles")) {
    for (std::size_t i = 0; i < files->size(); ++i) {
      FailedFile& file = result.failed_files.emplace_back();
      Fields inner((*files)[i], fmt::format("failedFiles[{}]", i));
      inner("path", file.path);
      inner("reason", file.reason);
      fields.Add(inner.Finish());
    }
  }
  ReadTime(fields, "startTime", result.start_time);
  ReadTime(fields, "endTime", result.end_time);
  RETURN_IF_ERROR(fields.Finish());
  return result;
}

}  // namespace paddleop::runtime
