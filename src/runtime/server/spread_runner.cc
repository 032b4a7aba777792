#include "runtime/server/spread_runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/crypto.h"

namespace paddleop::runtime {

struct SpreadRunner::Part {
  JobRequest request;
  PartResult result;
  std::vector<FailedFile> failed_files;
  bool posted = false;
  std::chrono::steady_clock::time_point heard;  // last answer
  std::chrono::steady_clock::time_point retry;  // not asked before
};

std::string PartName(const std::string& job, std::uint32_t index, std::uint32_t count) {
  auto name = NameUuid(job, fmt::format("part {}/{}", index, count));
  CHECK(name.has_value(), "a job's name is a UUID");
  return *std::move(name);
}

namespace {

std::vector<PartResult> ResultsOf(const auto& parts) {
  std::vector<PartResult> results;
  results.reserve(parts.size());
  for (const auto& part : parts) results.push_back(part.result);
  return results;
}

std::string Messages(const std::vector<PartResult>& parts, bool failed) {
  std::string text;
  for (const PartResult& part : parts) {
    if (failed == (part.state == JobState::kSucceeded) || part.message.empty()) continue;
    if (!text.empty()) text += "; ";
    text += parts.size() == 1 ? part.message
                              : fmt::format("partition {}: {}", part.index, part.message);
  }
  return text;
}

bool AllFinished(const auto& parts) {
  return std::ranges::all_of(parts, [](const auto& p) { return Finished(p.result.state); });
}

}  // namespace

Result<std::string> SpreadRunner::Run(const Context& ctx, const JobRequest& request,
                                      JobReporter& report) {
  const std::uint32_t count = std::max<std::uint32_t>(1, options_.width(request));
  std::vector<Part> parts(count);
  const auto now = options_.clock->Now();
  for (std::uint32_t i = 0; i < count; ++i) {
    parts[i].request = request;
    parts[i].request.name = PartName(request.name, i, count);
    parts[i].request.part = JobPart{.index = i, .count = count};
    parts[i].result.index = i;
    parts[i].heard = parts[i].retry = now;
  }
  auto wait = options_.poll / 4;
  while (true) {
    for (Part& part : parts) {
      if (!Finished(part.result.state) && !ctx.Stopped()) Step(ctx, part);
    }
    report.Parts(ResultsOf(parts));
    if (AllFinished(parts)) break;
    if (ctx.Stopped() || !options_.clock->SleepFor(ctx, wait)) {
      if (report.Cancelled()) CancelParts(parts, report);
      return Fail(Code::kCancelled, "stopped");
    }
    wait = std::min<std::chrono::milliseconds>(wait * 2, options_.poll);
  }
  options_.ended();
  bool failed = false;
  for (Part& part : parts) {
    failed = failed || part.result.state != JobState::kSucceeded;
    for (FailedFile& file : part.failed_files) report.Failed(std::move(file));
  }
  std::string text = Messages(ResultsOf(parts), failed);
  if (failed) {
    return Fail(Code::kInternal, "{}", text.empty() ? std::string("a part was cancelled") : text);
  }
  return text;
}

Result<JobResult> SpreadRunner::Ask(const Context& ctx, Part& part) const {
  ASSIGN_OR_RETURN(auto target, options_.target(part.result.index));
  const Context call = ctx.WithTimeout(options_.call_timeout);
  if (part.posted) {
    auto result = target->Get(call, part.request.kind, part.request.name);
    const bool lost = !result && IsNotFound(result.error());
    const bool asks = result && result->state == JobState::kNeedsCredentials;
    if (!lost && !asks) return result;
  }
  auto result = target->Post(call, part.request);
  if (result) part.posted = true;
  return result;
}

void SpreadRunner::Step(const Context& ctx, Part& part) const {
  const auto now = options_.clock->Now();
  if (now < part.retry) return;
  auto answer = Ask(ctx, part);
  if (answer) {
    part.heard = options_.clock->Now();
    part.result.state = answer->state;
    part.result.message = std::move(answer->message);
    part.result.progress = answer->progress;
    part.failed_files = std::move(answer->failed_files);
    return;
  }
  if (ctx.Stopped()) return;
  const Status& error = answer.error();
  const bool hopeless = error.code() == Code::kInvalid || error.code() == Code::kConflict;
  part.retry = options_.clock->Now() + std::chrono::seconds(1);
  part.result.message = error.message();
  if (!hopeless && options_.clock->Now() - part.heard < options_.patience) return;
  log_.Warn(ctx, "part of a job given up",
            {{"partition", part.result.index}, {"error", error.message()}});
  part.result.state = JobState::kFailed;
  if (!hopeless) {
    part.result.message =
        fmt::format("no answer for {} s: {}", options_.patience.count(), error.message());
  }
}

void SpreadRunner::CancelParts(std::vector<Part>& parts, JobReporter& report) const {
  // The job's own context is stopped already.
  const Context ctx = Context::Background().WithTimeout(options_.cancel_patience);
  bool waiting = true;
  while (waiting) {
    waiting = false;
    for (Part& part : parts) {
      if (Finished(part.result.state) || !part.posted) continue;
      auto target = options_.target(part.result.index);
      if (!target) continue;
      auto result = (*target)->Cancel(ctx.WithTimeout(options_.call_timeout), part.request.name);
      if (!result) {
        log_.Warn(ctx, "part not cancelled",
                  {{"partition", part.result.index}, {"error", result.error().message()}});
        if (IsNotFound(result.error())) continue;
      } else {
        part.result.state = result->state;
        part.result.progress = result->progress;
      }
      waiting = waiting || !Finished(part.result.state);
    }
    report.Parts(ResultsOf(parts));
    if (waiting && !options_.clock->SleepFor(ctx, options_.poll)) return;
  }
}

}  // namespace paddleop::runtime
