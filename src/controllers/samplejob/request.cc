#include "controllers/samplejob/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "controllers/common/sources.h"
#include "controllers/samplejob/cron.h"

namespace paddleop::controllers::samplejob {
namespace {

Result<void> CheckPaths(const std::vector<std::string>& paths, std::string_view field) {
  if (paths.size() > runtime::kMaxPaths) {
    return Fail(Code::kInvalid, "{}: {} paths are given; at most {} may be", field, paths.size(),
                runtime::kMaxPaths);
  }
  for (std::size_t i = 0; i < paths.size(); ++i)
    RETURN_IF_ERROR(runtime::CheckSetPath(paths[i], fmt::format("{}[{}]", field, i)));
  return {};
}

Result<void> CheckSync(const api::SyncOptions& options) {
  if (!options.source.empty())
    RETURN_IF_ERROR(
        CheckSource(options.source, api::csi_driver::kJuicefs, "spec.syncOptions.source"));
  if (!options.destination.empty())
    RETURN_IF_ERROR(runtime::CheckSetPath(options.destination, "spec.syncOptions.destination"));
  const std::pair<const char*, std::int32_t> numbers[] = {
      {"threads", options.threads}, {"http-port", options.http_port}, {"bwlimit", options.bwlimit}};
  for (const auto& [name, value] : numbers) {
    if (value < 0) return Fail(Code::kInvalid, "spec.syncOptions.{}: must not be negative", name);
  }
  return {};
}

Result<void> CheckWarmup(const api::WarmupOptions& options) {
  RETURN_IF_ERROR(CheckPaths(options.paths, "spec.warmupOptions.paths"));
  if (!options.file.empty())
    RETURN_IF_ERROR(runtime::CheckSetPath(options.file, "spec.warmupOptions.file"));
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"threads", options.threads},
      {"batchSize", options.batch_size.value_or(1) - 1},
      {"ranks", options.ranks.value_or(1) - 1},
      {"epoch", options.epoch.value_or(0)}};
  for (const auto& [name, value] : numbers) {
    if (value < 0) {
      return Fail(Code::kInvalid, "spec.warmupOptions.{}: must {}", name,
                  name == std::string_view("threads") || name == std::string_view("epoch")
                      ? "not be negative"
                      : "be at least 1");
    }
  }
  return {};
}

// A job of one type with options of another is a mistake that would pass silently.
Result<void> CheckForeignOptions(const api::SampleJobSpec& spec) {
  const std::tuple<const char*, const char*, bool> given[] = {
      {"sync", "syncOptions", spec.sync_options.has_value()},
      {"warmup", "warmupOptions", spec.warmup_options.has_value()},
      {"rmr", "rmrOptions", spec.rmr_options.has_value()},
      {"clear", "clearOptions", spec.clear_options.has_value()}};
  for (const auto& [type, field, present] : given) {
    if (present && spec.type != type) {
      return Fail(Code::kInvalid, "spec.{}: a job of type {} does not read it; remove it", field,
                  spec.type);
    }
  }
  return {};
}

}  // namespace

std::string TypeWord(const api::SampleJobSpec& spec) {
  std::string word = spec.type;
  if (!word.empty()) word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
  return word;
}

Result<void> CheckSpec(const api::SampleJobSpec& spec) {
  RETURN_IF_ERROR(CheckForeignOptions(spec));
  if (spec.sync_options) RETURN_IF_ERROR(CheckSync(*spec.sync_options));
  if (spec.warmup_options) RETURN_IF_ERROR(CheckWarmup(*spec.warmup_options));
  if (spec.rmr_options)
    RETURN_IF_ERROR(CheckPaths(spec.rmr_options->paths, "spec.rmrOptions.paths"));
  if (spec.schedule.empty()) {
    if (!spec.time_zone.empty())
      return Fail(Code::kInvalid, "spec.timeZone: has no meaning without spec.schedule");
    return {};
  }
  auto cron = Cron::Parse(spec.schedule, spec.time_zone);
  if (!cron) return std::unexpected(std::move(cron).error().Wrap("spec.schedule"));
  return {};
}

std::vector<api::SampleSource> SourcesOf(const api::SampleJobSpec& job,
                                         const api::SampleSetSpec& set) {
  const std::string destination = job.sync_options ? job.sync_options->destination : "";
  if (job.sync_options && !job.sync_options->source.empty())
    return {{job.sync_options->source, job.secret_ref, destination}};
  auto sources = set.AllSources();
  for (auto& source : sources) {
    if (job.secret_ref) source.secret_ref = job.secret_ref;
    if (!destination.empty())
      source.path = source.path.empty() ? destination : destination + "/" + source.path;
  }
  return sources;
}

Result<runtime::JobRequest> MakeRequest(const api::SampleJobSpec& job, const api::SampleSet& set,
                                        const std::vector<SecretView>& secrets) {
  runtime::JobRequest request;
  ASSIGN_OR_RETURN(request.kind, runtime::ParseKind(job.type));
  switch (request.kind) {
    case runtime::JobKind::kSync: {
      const auto sources = SourcesOf(job, set.spec);
      if (sources.empty()) {
        return Fail(Code::kInvalid,
                    "spec.syncOptions.source is needed: SampleSet {} has no source of its own",
                    set.metadata.name);
      }
      if (job.sync_options) request.sync = *job.sync_options;
      request.sync.source.clear();
      request.sync.destination.clear();
      for (std::size_t i = 0; i < sources.size(); ++i) {
        RETURN_IF_ERROR(CheckSource(sources[i].uri, set.spec.Driver(), "spec.syncOptions.source"));
        const SecretView none;
        request.sources.push_back(
            MakeSource(sources[i].uri, sources[i].path, i < secrets.size() ? secrets[i] : none));
      }
      break;
    }
    case runtime::JobKind::kWarmup:
      if (job.warmup_options) request.warmup = *job.warmup_options;
      request.warmup.partitions = set.spec.partitions;
      break;
    case runtime::JobKind::kRmr:
      if (job.rmr_options) request.paths = *job.rmr_options;
      break;
    case runtime::JobKind::kClear:
      if (job.clear_options) {
        for (std::string path : job.clear_options->paths) {
          // A directory of the cache stands for everything in it; older specs name it so.
          if (path.starts_with('/')) {
            const auto& levels = set.spec.cache_levels;
            const bool known =
                std::any_of(levels.begin(), levels.end(),
                            [&](const auto& level) {
                              return (":" + level.path + ":").find(":" + path + ":") !=
                                     std::string::npos;
                            }) ||
                path == "/dev/shm/" + set.status.volume_name;
            if (!known) {
              return Fail(Code::kInvalid,
                          "spec.clearOptions.paths: {} is neither relative to the set nor one of "
                          "its cache directories",
                          path);
            }
            request.paths.paths.clear();
            return request;
          }
          request.paths.paths.push_back(std::move(path));
        }
        RETURN_IF_ERROR(CheckPaths(request.paths.paths, "spec.clearOptions.paths"));
      }
      break;
  }
  return request;
}

std::string JobName(const api::SampleJob& job, const runtime::JobRequest& request,
                    std::int32_t attempt) {
  const std::string text =
      fmt::format("{}/{}/{}/{}", runtime::KindName(request.kind), job.metadata.generation,
                  api::DumpJson(runtime::ToPublicJson(request)), attempt);
  auto name = NameUuid(job.metadata.uid, text);
  return name ? *name : std::string();
}

}  // namespace paddleop::controllers::samplejob
