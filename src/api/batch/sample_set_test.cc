#include "api/batch/sample_set.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

constexpr std::string_view kFullSet = R"({
  "apiVersion": "batch.paddlepaddle.org/v1alpha1", "kind": "SampleSet",
  "metadata": {"name": "s", "namespace": "n"},
  "spec": {
    "partitions": 2, "source": {"uri": "bos://bucket/prefix", "secretRef": {"name": "a", "namespace": "b"}},
    "sources": [{"uri": "s3://other/data", "path": "other"}], "secretRef": {"name": "s"}, "noSync": true,
    "csi": {"driver": "juicefs", "juiceFSMountOptions": {
      "metrics": "m", "attr-cache": 1, "entry-cache": 2, "dir-entry-cache": 3, "enable-xattr": true, "get-timeout": 4,
      "put-timeout": 5, "io-retries": 6, "max-uploads": 7, "buffer-size": 8, "prefetch": 9, "writeback": true,
      "cache-dir": "/d", "cache-size": 1073741824, "free-space-ratio": "0.2", "cache-partial-only": true,
      "open-cache": 10, "sub-dir": "x"}},
    "cache": {"levels": [{"mediumType": "MEM", "path": "/a:/b", "cacheSize": 100}]},
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "warmup": {"auto": true, "strategyName": "random", "batchSize": 32, "epoch": 0, "shuffle": false}},
  "status": {"phase": "Ready",
    "cacheStatus": {"totalSize": "58 MiB", "totalFiles": "1,000", "cachedSize": "200 B", "diskSize": "1", "diskUsed": "2",
      "diskAvail": "12 GiB", "diskUsageRate": "1.0%", "errorMassage": "e", "hitRatio": "99%", "cachedPercent": "1%"},
    "runtimeStatus": {"runtimeReady": "1/1", "specReplicas": 1, "readyReplicas": 1},
    "jobsName": {"syncJobName": "a", "warmupJobName": "b"},
    "partitions": [{"index": 0, "pod": "s-runtime-0", "node": "x", "cachedBytes": 5, "ready": true}],
    "volumeName": "s", "nodeLabel": "paddlepaddle.org/juicefs-s", "observedGeneration": 1}})";

TEST(SampleSet, EveryFieldSurvivesARoundTrip) {
  const auto json = ParseJson(kFullSet);
  ASSERT_OK(json);
  const auto set = SampleSet::FromJson(*json);
  ASSERT_OK(set);
  EXPECT_EQ(ToJson(*set), *json);
  EXPECT_EQ(set->spec.AllSources().size(), 2u);
  EXPECT_EQ(set->spec.Driver(), "juicefs");
}

TEST(SampleSet, DefaultsToOurOwnDriver) {
  const auto set = SampleSet::FromJson(*ParseJson(R"({"spec": {"csi": {}}})"));
  ASSERT_OK(set);
  EXPECT_EQ(set->spec.Driver(), "samplefs");
  EXPECT_EQ(SampleSetSpec().Driver(), "samplefs");
  EXPECT_EQ(set->spec.partitions, 1);
}

TEST(SampleSet, Names) {
  EXPECT_EQ(SampleSetLabel("imagenet"), "paddlepaddle.org/juicefs-imagenet");
  EXPECT_EQ(RuntimePodName("imagenet", 2), "imagenet-runtime-2");
}

}  // namespace
}  // namespace paddleop::api
