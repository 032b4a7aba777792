#include "api/batch/paddle_job.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

PaddleJob Read(std::string_view text) {
  const auto json = ParseJson(text);
  EXPECT_OK(json);
  auto job = PaddleJob::FromJson(*json);
  EXPECT_OK(job);
  return *std::move(job);
}

constexpr std::string_view kFullJob = R"({
  "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
  "metadata": {"name": "j", "namespace": "n"},
  "spec": {
    "cleanPodPolicy": "Never", "cleanPolicy": "Always", "intranet": "Service", "withGloo": 1, "elastic": 0,
    "schedulingPolicy": {"minAvailable": 2, "queue": "q", "priorityClass": "p", "minResources": {"cpu": "4", "memory": "1Gi"}},
    "sampleSetRef": {"name": "s", "namespace": "n", "mountPath": "/mnt", "readOnly": false, "affinity": "Preferred",
                     "affinityTimeoutSeconds": 10, "waitFor": "Cached"},
    "worker": {"replicas": 2, "requests": 1, "limits": 4,
      "template": {"spec": {"containers": [{"name": "c", "image": "i", "unknownField": {"x": [1, 2.5, null]}}]}}},
    "ps": {"replicas": 0, "template": {}},
    "suspend": true, "backoffLimit": 3, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0},
  "status": {"phase": "Running", "mode": "PS", "worker": {"running": 2, "refs": [{"kind": "Pod", "name": "j-worker-0"}]},
    "startTime": "2024-02-29T12:34:56Z", "observedGeneration": 3, "gang": 1, "failures": 1, "relaxedWorkers": [0],
    "conditions": [{"type": "Running", "status": "True", "reason": "R", "message": "m",
                    "lastTransitionTime": "2024-02-29T12:34:56Z"}]}})";

TEST(PaddleJob, EveryFieldSurvivesARoundTrip) {
  const PaddleJob job = Read(kFullJob);
  EXPECT_EQ(job.spec.worker->limits, 4);
  EXPECT_EQ(job.spec.elastic, 0);
  EXPECT_EQ(job.status.worker->running, 2);
  EXPECT_EQ(ToJson(job), *ParseJson(kFullJob));
}

TEST(PaddleJob, PodTemplatesSurviveUntouched) {
  const PaddleJob job = Read(kFullJob);
  EXPECT_EQ(*ParseJson(job.spec.worker->pod_template.text),
            (*ParseJson(kFullJob))["spec"]["worker"]["template"]);
}

TEST(PaddleJob, AbsentFieldsHaveTheirDefaults) {
  const PaddleJob job = Read(
      R"({"metadata": {"name": "j"}, "spec": {"sampleSetRef": {"name": "s", "mountPath": "/m"}}})");
  EXPECT_TRUE(job.spec.sample_set_ref->read_only);
  EXPECT_EQ(job.spec.sample_set_ref->AffinityKind(), SampleSetRef::Affinity::kRequired);
  EXPECT_EQ(job.spec.sample_set_ref->WaitForKind(), SampleSetRef::WaitFor::kReady);
  EXPECT_EQ(job.spec.sample_set_ref->affinity_timeout_seconds, 300);
  EXPECT_FALSE(job.spec.elastic.has_value());
  EXPECT_EQ(job.spec.Mode(), job_mode::kSingle);
}

TEST(PaddleJob, ModeFollowsTheRoles) {
  EXPECT_EQ(Read(R"({"spec": {"worker": {"replicas": 1}}})").spec.Mode(), "Single");
  EXPECT_EQ(Read(R"({"spec": {"worker": {"replicas": 2}}})").spec.Mode(), "Collective");
  EXPECT_EQ(Read(R"({"spec": {"worker": {"replicas": 2}, "heter": {"replicas": 1}}})").spec.Mode(),
            "Collective");
  EXPECT_EQ(Read(R"({"spec": {"worker": {"replicas": 2}, "ps": {"replicas": 1}}})").spec.Mode(),
            "PS");
}

TEST(PaddleJob, CleanPolicyWords) {
  using Policy = PaddleJobSpec::CleanPolicy;
  struct Case {
    const char* pod_policy;
    const char* alias;
    Policy policy;
    bool known;
  };
  const Case cases[] = {{"", "", Policy::kOnCompletion, true},
                        {"Always", "", Policy::kAlways, true},
                        {"Never", "", Policy::kNever, true},
                        {"OnFailure", "", Policy::kOnFailure, true},
                        {"OnCompletion", "", Policy::kOnCompletion, true},
                        {"", "Always", Policy::kAlways, true},
                        {"Never", "Always", Policy::kNever, true},
                        {"Nerver", "", Policy::kNever, false},
                        {"OnFailed", "", Policy::kNever, false}};
  for (const auto& c : cases) {
    PaddleJobSpec spec;
    spec.clean_pod_policy = c.pod_policy;
    spec.clean_policy = c.alias;
    EXPECT_EQ(spec.Cleaning(), c.policy) << c.pod_policy << "/" << c.alias;
    EXPECT_EQ(spec.CleaningWordKnown(), c.known) << c.pod_policy;
  }
}

TEST(PaddleJob, NamesTheFieldThatIsWrong) {
  const auto job = PaddleJob::FromJson(*ParseJson(R"({"spec": {"worker": {"replicas": "two"}}})"));
  ASSERT_CODE(job, Code::kInvalid);
  EXPECT_EQ(job.error().message(), "spec.worker.replicas: expected integer, found string");
  EXPECT_CODE(PaddleJob::FromJson(*ParseJson(R"({"spec": {"worker": {"replicas": 99999999999}}})")),
              Code::kInvalid);
  EXPECT_CODE(PaddleJob::FromJson(*ParseJson(R"({"kind": "Pod"})")), Code::kInvalid);
  EXPECT_CODE(PaddleJob::FromJson(*ParseJson("[]")), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::api
