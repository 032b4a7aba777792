#include "standalone/apiserver/table.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "api/meta/time.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;
using std::chrono::seconds;

TEST(HumanDurationTest, AsKubectlWritesIt) {
  EXPECT_EQ(HumanDuration(seconds(0)), "0s");
  EXPECT_EQ(HumanDuration(seconds(-1)), "0s");
  EXPECT_EQ(HumanDuration(seconds(-2)), "<invalid>");
  EXPECT_EQ(HumanDuration(seconds(112)), "112s");
  EXPECT_EQ(HumanDuration(seconds(120)), "2m");
  EXPECT_EQ(HumanDuration(seconds(303)), "5m3s");
  EXPECT_EQ(HumanDuration(seconds(11 * 60 + 5)), "11m");
  EXPECT_EQ(HumanDuration(seconds(179 * 60)), "179m");
  EXPECT_EQ(HumanDuration(seconds(3 * 3600 + 60)), "3h1m");
  EXPECT_EQ(HumanDuration(seconds(47 * 3600)), "47h");
  EXPECT_EQ(HumanDuration(seconds(50 * 3600)), "2d2h");
  EXPECT_EQ(HumanDuration(seconds(9 * 86400)), "9d");
  EXPECT_EQ(HumanDuration(seconds(800LL * 86400)), "2y70d");
  EXPECT_EQ(HumanDuration(seconds(3000LL * 86400)), "8y");
}

class TableTest : public ::testing::Test {
 protected:
  // The cells of one row, 100 s after the object was made.
  static Json Cells(const Kind& kind, const char* text) {
    Json json = Json::parse(text);
    json["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z";
    const ObjectPtr object = MakeObject(kind, json, 1);
    const auto now = *api::ParseTime("2026-01-01T00:01:40Z");
    return MakeTable(kind, std::span(&object, 1), RowObject::kNone, now)["rows"][0]["cells"];
  }
  static Json PodCell(const char* status, std::size_t cell) {
    return Cells(
        CoreKind("Pod"),
        (std::string(
             R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"a"},{"name":"b"}],)") +
         R"("initContainers":[{"name":"i"}]},"status":)" + status + "}")
            .c_str())[cell];
  }
};

TEST_F(TableTest, OurKindsHaveTheColumnsOfTheirDefinition) {
  const Kind& jobs = *FindKind("batch.paddlepaddle.org", "v1", "paddlejobs");
  EXPECT_EQ(
      Cells(jobs, R"({"metadata":{"name":"ps-demo"},"status":{"phase":"Running","mode":"PS"}})"),
      Json({"ps-demo", "Running", "PS", "100s"}));
  const Kind& sets = *FindKind("batch.paddlepaddle.org", "v1alpha1", "samplesets");
  EXPECT_EQ(Cells(sets, R"({"metadata":{"name":"imagenet"},"status":{"phase":"Ready",
                        "runtimeStatus":{"runtimeReady":"1/1"},
                        "cacheStatus":{"totalSize":"58 MiB","cachedSize":"200 B","diskAvail":"12 GiB"}}})"),
            Json({"imagenet", "58 MiB", "200 B", "12 GiB", "1/1", "Ready", "100s"}));
  EXPECT_EQ(Cells(jobs, R"({"metadata":{"name":"new"}})"), Json({"new", nullptr, nullptr, "100s"}));
}

TEST_F(TableTest, APodsStatusIsWorkedOutFromItsContainers) {
  EXPECT_EQ(PodCell(R"({"phase":"Pending"})", 2), "Pending");
  EXPECT_EQ(PodCell(R"({"phase":"Pending","initContainerStatuses":[{"state":{"running":{}}}]})", 2),
            "Init:0/1");
  EXPECT_EQ(
      PodCell(
          R"({"phase":"Pending","initContainerStatuses":[{"state":{"terminated":{"exitCode":1,"reason":"Error"}}}]})",
          2),
      "Init:Error");
  EXPECT_EQ(
      PodCell(
          R"({"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"CreateContainerConfigError"}}}]})",
          2),
      "CreateContainerConfigError");
  EXPECT_EQ(
      PodCell(R"({"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":3}}}]})",
              2),
      "ExitCode:3");
  EXPECT_EQ(
      PodCell(R"({"phase":"Running","containerStatuses":[{"ready":true,"state":{"running":{}}},
                    {"state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]})",
              2),
      "NotReady");
  EXPECT_EQ(
      PodCell(
          R"({"phase":"Running","containerStatuses":[{"ready":true,"state":{"running":{}}},{"ready":true,"state":{"running":{}}}]})",
          1),
      "2/2");
  EXPECT_EQ(
      PodCell(R"({"phase":"Running","containerStatuses":[{"restartCount":2,"state":{"running":{}},
                    "lastState":{"terminated":{"finishedAt":"2026-01-01T00:01:00Z"}}}]})",
              3),
      "2 (40s ago)");
}

TEST_F(TableTest, OtherKinds) {
  EXPECT_EQ(Cells(CoreKind("ConfigMap"), R"({"metadata":{"name":"c"},"data":{"a":"","b":""}})"),
            Json({"c", 2, "100s"}));
  EXPECT_EQ(Cells(CoreKind("Service"),
                  R"({"metadata":{"name":"s"},"spec":{"type":"ClusterIP","clusterIP":"None",
                  "ports":[{"port":80,"protocol":"TCP"}],"selector":{"a":"b"}}})"),
            Json({"s", "ClusterIP", "None", "<none>", "80/TCP", "100s", "a=b"}));
  EXPECT_EQ(
      Cells(
          CoreKind("Node"),
          R"({"metadata":{"name":"n"},"status":{"conditions":[{"type":"Ready","status":"True"}]}})")
          [1],
      "Ready");
}

}  // namespace
}  // namespace paddleop::standalone::apiserver
