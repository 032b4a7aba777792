#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "runtime/protocol/job.h"
#include "runtime/protocol/paths.h"
#include "runtime/protocol/status.h"

namespace paddleop::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobRequest SyncRequest() {
  JobRequest request{.kind = JobKind::kSync, .name = RandomUuid()};
  request.sync.threads = 7;
  request.sync.force_update = true;
  request.sources = {{.uri = "s3://bucket.host/prefix",
                      .path = "train",
                      .credentials = {.access_key = "key", .secret_key = Secret("hidden")}}};
  return request;
}

TEST(JobRequest, GoesThroughJsonWithCredentials) {
  const JobRequest request = SyncRequest();
  auto read = JobRequestFromJson(ToJson(request), request.kind, request.name);
  ASSERT_OK(read);
  EXPECT_EQ(*read, request);
}

TEST(JobRequest, PublicFormHasNoCredentials) {
  JobRequest request = SyncRequest();
  request.sources[0].uri = "s3://ak:hidden@bucket.host/prefix";
  EXPECT_THAT(api::DumpJson(ToPublicJson(request)), Not(HasSubstr("hidden")));
  EXPECT_THAT(api::DumpJson(ToPublicJson(request)), Not(HasSubstr("accessKey")));
}

TEST(JobRequest, WarmupKeepsEveryOption) {
  JobRequest request{.kind = JobKind::kWarmup, .name = RandomUuid()};
  request.warmup = {.paths = {"a", "b/c"},
                    .partitions = 3,
                    .strategy_name = "random",
                    .file = "train_list.txt",
                    .threads = 5,
                    .batch_size = 32,
                    .shuffle = true,
                    .drop_last = false,
                    .epoch = 4,
                    .ranks = 6};
  request.part = JobPart{.index = 1, .count = 3};
  auto read = JobRequestFromJson(ToJson(request), request.kind, request.name);
  ASSERT_OK(read);
  EXPECT_EQ(*read, request);
}

TEST(JobRequest, RefusesWhatIsWrongAndNamesTheField) {
  struct Case {
    JobKind kind;
    const char* body;
    const char* says;
  };
  const Case cases[] = {
      {JobKind::kSync, R"({"options":{}})", "sources"},
      {JobKind::kSync, R"({"sources":[{"uri":"bucket"}]})", "sources[0].uri"},
      {JobKind::kSync, R"({"sources":[{"uri":"s3://a://b"}]})", "sources[0].uri"},
      {JobKind::kSync, R"({"sources":[{"uri":"s3://a","path":"../x"}]})", "sources[0].path"},
      {JobKind::kSync, R"({"sources":[{"uri":7}]})", "sources[0].uri"},
      {JobKind::kSync, R"({"sources":[{"uri":"s3://a"}],"options":{"paths":["x"]}})",
       "options.paths"},
      {JobKind::kRmr, R"({"options":{}})", "options.paths"},
      {JobKind::kRmr, R"({"options":{"paths":["/etc"]}})", "options.paths[0]"},
      {JobKind::kRmr, R"({"options":{"paths":["a/../../b"]}})", "options.paths[0]"},
      {JobKind::kRmr, R"({"options":{"paths":[""]}})", "options.paths"},
      {JobKind::kRmr, R"({"options":{"paths":["a"],"threads":3}})", "options.threads"},
      {JobKind::kWarmup, R"({"options":{"strategyName":"best"}})", "options.strategyName"},
      {JobKind::kWarmup, R"({"options":{"batchSize":0}})", "options.batchSize"},
      {JobKind::kWarmup, R"({"options":{"file":"/etc/passwd"}})", "options.file"},
      {JobKind::kWarmup, R"({"options":{},"part":{"index":3,"count":3}})", "part"},
      {JobKind::kWarmup, R"({"sources":[{"uri":"s3://a"}]})", "sources"},
      {JobKind::kClear, R"([])", "body"},
  };
  for (const Case& c : cases) {
    auto json = api::ParseJson(c.body);
    ASSERT_OK(json);
    auto read = JobRequestFromJson(*json, c.kind, RandomUuid());
    ASSERT_FALSE(read) << c.body;
    EXPECT_EQ(read.error().code(), Code::kInvalid) << c.body;
    EXPECT_THAT(read.error().message(), HasSubstr(c.says)) << c.body;
  }
}

TEST(JobRequest, RefusesTooManyPaths) {
  JobRequest request{.kind = JobKind::kRmr, .name = RandomUuid()};
  request.paths.paths.assign(kMaxPaths + 1, "a");
  EXPECT_CODE(Validate(request), Code::kInvalid);
  request.paths.paths.pop_back();
  EXPECT_OK(Validate(request));
}

TEST(JobName, IsAUuidAndNothingElse) {
  EXPECT_TRUE(IsJobName(RandomUuid()));
  EXPECT_FALSE(IsJobName(""));
  EXPECT_FALSE(IsJobName("../../../../../../etc/cron.d/x/12345"));
  EXPECT_FALSE(IsJobName("6BA7B810-9DAD-11D1-80B4-00C04FD430C8"));
}

TEST(JobResult, GoesThroughJson) {
  JobResult result{.name = RandomUuid(),
                   .kind = JobKind::kWarmup,
                   .state = JobState::kFailed,
                   .message = "no",
                   .progress = {.files = {10, 5, 2, 1},
                                .bytes = {1000, 500, 20, 10},
                                .bytes_per_second = 100,
                                .eta_seconds = 5},
                   .start_time = api::Time(std::chrono::seconds(1'700'000'000)),
                   .end_time = api::Time(std::chrono::seconds(1'700'000'100)),
                   .runs = 2};
  result.parts = {{.index = 1, .state = JobState::kSucceeded, .message = "ok"}};
  result.failed_files = {{"a/b", "gone"}};
  const api::Json json = ToJson(result);
  EXPECT_EQ(json["status"], "fail");
  auto read = JobResultFromJson(json);
  ASSERT_OK(read);
  EXPECT_EQ(*read, result);
}

TEST(JobProgress, IsMergedAndPrinted) {
  const JobProgress merged = Merge({{.files = {10, 5, 0, 0},
                                     .bytes = {3 << 20, 1 << 20, 0, 0},
                                     .bytes_per_second = 1 << 20,
                                     .eta_seconds = 2},
                                    {.files = {10, 0, 5, 0},
                                     .bytes = {1 << 20, 0, 1 << 20, 0},
                                     .bytes_per_second = 1 << 20,
                                     .eta_seconds = 200}});
  const api::SampleJobProgress printed = ForStatus(merged);
  EXPECT_EQ(printed.files.total, 20);
  EXPECT_EQ(printed.percent, "50%");
  EXPECT_EQ(printed.rate, "2.0 MiB/s");
  EXPECT_EQ(printed.eta, "3m20s");
}

TEST(CacheInfo, GoesThroughJsonInTheOldUnits) {
  const CacheInfo info{.index = 2,
                       .ready = true,
                       .volume = "imagenet",
                       .volume_uuid = "u",
                       .cache_id = "c",
                       .total_size = 123456789,
                       .total_files = 128660,
                       .cached_size = 1000,
                       .disk_size = 10 << 20,
                       .disk_used = 4 << 20,
                       .disk_avail = 6 << 20,
                       .reads = {.local = 1, .peer = 2, .store = 3},
                       .peers_generation = 4};
  const api::Json json = ToJson(info);
  EXPECT_EQ(json["totalFiles"], "128,660");
  EXPECT_EQ(json["totalSize"], "123456789");
  EXPECT_EQ(json["diskSize"], "10240");
  auto read = CacheInfoFromJson(json);
  ASSERT_OK(read);
  EXPECT_EQ(*read, info);
}

TEST(PeerTable, MustBeWhole) {
  PeerTable table{.generation = 1, .peers = {{0, "10.0.0.1:7716", "a"}, {1, "[::1]:7716", "b"}}};
  auto read = PeerTableFromJson(ToJson(table));
  ASSERT_OK(read);
  EXPECT_EQ(*read, table);
  table.peers[1].index = 2;
  EXPECT_CODE(Validate(table), Code::kInvalid);
  table.peers[1].index = 1;
  table.peers[1].address = "host";
  EXPECT_CODE(Validate(table), Code::kInvalid);
}

TEST(Errors, KeepTheirCode) {
  const Status read = ErrorFromBody(500, ErrorBody(Status(Code::kQuota, "full")));
  EXPECT_EQ(read.code(), Code::kQuota);
  EXPECT_EQ(read.message(), "full");
  EXPECT_EQ(ErrorFromBody(404, "<html>").code(), Code::kNotFound);
  EXPECT_EQ(ErrorFromBody(502, "").code(), Code::kUnavailable);
}

TEST(TlsName, IsThePodsOwn) {
  EXPECT_EQ(RuntimeTlsName("imagenet", "paddle-system", 1),
            "imagenet-runtime-1.imagenet-runtime-service.paddle-system.svc");
}

}  // namespace
}  // namespace paddleop::runtime
