#include "api/batch/sample_job.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

constexpr std::string_view kFullSampleJob = R"({
  "apiVersion": "batch.paddlepaddle.org/v1alpha1", "kind": "SampleJob",
  "metadata": {"name": "j", "namespace": "n"},
  "spec": {
    "type": "sync", "sampleSetRef": {"name": "s"}, "secretRef": {"name": "k"}, "terminate": true,
    "syncOptions": {"source": "bos://x", "destination": "d", "start": "a", "end": "z", "threads": 1, "http-port": 2,
      "update": true, "force-update": true, "perms": true, "dirs": true, "dry": true, "delete-src": true,
      "delete-dst": true, "exclude": "e", "include": "i", "manager": "m", "worker": "w", "bwlimit": 3, "no-https": true},
    "warmupOptions": {"paths": ["p"], "partitions": 2, "strategyName": "random", "file": "f", "threads": 4,
      "batchSize": 8, "shuffle": true, "dropLast": false, "epoch": 1, "ranks": 2},
    "rmrOptions": {"paths": ["a"]}, "clearOptions": {"paths": ["b"]},
    "schedule": "0 * * * *", "timeZone": "Asia/Shanghai", "suspend": true, "concurrencyPolicy": "Forbid",
    "startingDeadlineSeconds": 10, "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 2,
    "ttlSecondsAfterFinished": 0, "backoffLimit": 1},
  "status": {"phase": "Running", "jobName": "uuid", "attempt": 1, "message": "m",
    "progress": {"files": {"total": 10, "done": 5}, "bytes": {"skipped": 1, "failed": 2}, "rate": "1 MiB/s", "eta": "1s", "percent": "50%"},
    "startTime": "2024-02-29T12:34:56Z", "completionTime": "2024-02-29T12:34:57Z", "active": [{"name": "c"}],
    "lastScheduleTime": "2024-02-29T12:34:56Z", "lastSuccessfulTime": "2024-02-29T12:34:56Z", "observedGeneration": 2}})";

TEST(SampleJob, EveryFieldSurvivesARoundTrip) {
  const auto json = ParseJson(kFullSampleJob);
  ASSERT_OK(json);
  const auto job = SampleJob::FromJson(*json);
  ASSERT_OK(job);
  EXPECT_EQ(ToJson(*job), *json);
}

TEST(WarmupOptions, TakesTheStrategyFromEitherPlace) {
  const auto nested =
      WarmupOptionsFromJson(*ParseJson(R"({"Strategy": {"strategyName": "random"}})"));
  ASSERT_OK(nested);
  EXPECT_EQ(nested->strategy_name, "random");
  const auto flat = WarmupOptionsFromJson(*ParseJson(R"({"strategyName": "random"})"));
  ASSERT_OK(flat);
  EXPECT_EQ(flat->strategy_name, "random");
  EXPECT_EQ(WarmupOptions().strategy_name, "sequence");
}

}  // namespace
}  // namespace paddleop::api
