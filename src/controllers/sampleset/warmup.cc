#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "controllers/sampleset/pass.h"

namespace paddleop::controllers::sampleset {
namespace {

constexpr std::chrono::minutes kRetry(5);

bool IsAutomatic(const api::SampleSetSpec& spec) { return spec.warmup && spec.warmup->automatic; }

// Without options, what the import has cached is kept where the partitions are; with options, only
// `auto` asks for it; and a volume that had its data before is left to its user.
bool IsWanted(const api::SampleSetSpec& spec) {
  return spec.warmup ? spec.warmup->automatic : !spec.no_sync && !spec.AllSources().empty();
}

api::WarmupOptions Options(const api::SampleSetSpec& spec, std::int32_t partitions) {
  api::WarmupOptions options = spec.warmup ? spec.warmup->options : api::WarmupOptions();
  options.partitions = partitions;
  return options;
}

std::string WarmupName(const Pass& pass, std::int32_t partitions, api::Time begun) {
  auto name = NameUuid(
      pass.set.metadata.uid,
      fmt::format("warmup/{}/{}", api::DumpJson(api::ToJson(Options(pass.set.spec, partitions))),
                  api::FormatTime(begun)));
  return name ? *name : std::string();
}

runtime::JobRequest Request(const Pass& pass, std::int32_t partitions) {
  runtime::JobRequest request;
  request.kind = runtime::JobKind::kWarmup;
  request.name = pass.plan.status.warmup_job_name;
  request.warmup = Options(pass.set.spec, partitions);
  return request;
}

void Begin(Pass& pass, std::int32_t partitions) {
  if (!pass.RuntimeZeroReady()) {
    pass.Say(condition::kWarmed, false, "WaitingForRuntime", "runtime 0 is not ready");
    return;
  }
  auto& status = pass.plan.status;
  // Its own name, also when the one before was begun in this second.
  status.warmup_time = status.warmup_time
                           ? std::max(pass.seen.now, *status.warmup_time + std::chrono::seconds(1))
                           : pass.seen.now;
  status.warmup_job_name = WarmupName(pass, partitions, *status.warmup_time);
  pass.plan.status_first = true;
  pass.plan.post = Request(pass, partitions);
  pass.Say(condition::kWarmed, false, "Running",
           fmt::format("the cache is laid out for {} partitions", partitions));
  pass.plan.Tell(false, "CreateWarmupJobSuccessfully",
                 fmt::format("warm-up {} for {} partitions", status.warmup_job_name, partitions));
}

bool WarmAgain(const Pass& pass, std::int32_t partitions) {
  const auto& status = pass.plan.status;
  if (status.warmed_partitions != partitions) return true;
  return IsAutomatic(pass.set.spec) && pass.seen.last_sync &&
         (!status.warmup_time || *pass.seen.last_sync > *status.warmup_time);
}

// What became of the warm-up that was posted. True when there is nothing more to wait for.
bool Follow(Pass& pass, std::int32_t partitions) {
  const auto& job = pass.seen.warmup_job;
  if (!job) return false;
  if (!job->known) {
    if (pass.RuntimeZeroReady()) pass.plan.post = Request(pass, partitions);
    return false;
  }
  const auto& result = job->result;
  if (result.state == runtime::JobState::kSucceeded) {
    pass.plan.status.warmed_partitions = partitions;
    pass.Say(condition::kWarmed, true, "Succeeded",
             fmt::format("cached for {} partitions", partitions));
    pass.plan.Tell(false, "DoWarmupJobSuccessfully",
                   fmt::format("the cache is laid out for {} partitions", partitions));
    return true;
  }
  if (!runtime::Finished(result.state)) {
    const auto printed = runtime::ForStatus(result.progress);
    pass.Say(condition::kWarmed, false, "Running",
             fmt::format("{} done, {} left", printed.percent.empty() ? "0%" : printed.percent,
                         printed.eta.empty() ? "some time" : printed.eta));
    return false;
  }
  // The data can be read all the same, so a set does not stop for it.
  const std::string message =
      result.state == runtime::JobState::kCancelled ? "the warm-up was cancelled" : result.message;
  pass.Say(condition::kWarmed, false, "Failed", message, true);
  return true;
}

}  // namespace

bool KeepWarm(Pass& pass, std::int32_t partitions) {
  auto& status = pass.plan.status;
  if (!IsWanted(pass.set.spec)) {
    const auto reason = pass.ReasonOf(condition::kWarmed);
    if (reason == "Running") pass.plan.cancel.push_back(status.warmup_job_name);
    if (reason == "Running" || reason == kCacheLost)
      api::RemoveCondition(status.conditions, condition::kWarmed);
    return true;
  }
  const bool running = pass.ReasonOf(condition::kWarmed) == "Running" && status.warmup_time;
  if (running && status.warmup_job_name == WarmupName(pass, partitions, *status.warmup_time))
    return Follow(pass, partitions);
  if (!WarmAgain(pass, partitions)) {
    if (!pass.Holds(condition::kWarmed))
      pass.Say(condition::kWarmed, true, "Imported", "the import has cached what it brought");
    return true;
  }
  if (running) {
    pass.plan.cancel.push_back(status.warmup_job_name);
  } else if (pass.ReasonOf(condition::kWarmed) == "Failed") {
    const api::Condition* failed = api::FindCondition(status.conditions, condition::kWarmed);
    const bool changed = failed->observed_generation != pass.set.metadata.generation;
    const auto since = status.warmup_time ? pass.seen.now - *status.warmup_time : kRetry;
    if (!changed && since < kRetry) {
      pass.plan.RecheckAfter(std::chrono::duration_cast<std::chrono::seconds>(kRetry - since));
      return true;
    }
  }
  Begin(pass, partitions);
  return false;
}

}  // namespace paddleop::controllers::sampleset
