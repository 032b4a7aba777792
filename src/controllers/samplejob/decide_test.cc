#include "controllers/samplejob/decide.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"
#include "controllers/samplejob/request.h"

namespace paddleop::controllers::samplejob {
namespace {

using api::Json;

// One job, its set and its runtime, as values; plans are carried out.
struct World {
  explicit World(std::string_view spec) {
    const Json json = {{"apiVersion", "batch.paddlepaddle.org/v1alpha1"},
                       {"kind", "SampleJob"},
                       {"metadata",
                        {{"name", "j"},
                         {"namespace", "data"},
                         {"uid", "12345678-0000-4000-8000-000000000002"},
                         {"generation", 1},
                         {"creationTimestamp", api::FormatTime(now)}}},
                       {"spec", Json::parse(spec)}};
    auto parsed = api::ParseAs<api::SampleJob>(json.dump());
    EXPECT_OK(parsed);
    job = *parsed;
    set.emplace();
    set->metadata.name = "s";
    set->metadata.ns = "data";
    set->metadata.uid = "set";
    set->spec.partitions = 3;
    set->spec.source = api::SampleSource{"bos://b.host/p", {}, ""};
    set->status.phase = "Ready";
    set->status.volume_name = "s";
    set->status.runtime_status = api::RuntimeStatus{"3/3", 3, 3};
  }

  Observed Look() const {
    Observed seen;
    seen.job = std::make_shared<const api::SampleJob>(job);
    if (set) seen.set = std::make_shared<const api::SampleSet>(*set);
    seen.secrets = secrets;
    seen.runtime_ready = runtime_ready;
    seen.runtime_exists = true;
    if (answers && !job.status.job_name.empty()) {
      const auto it = jobs.find(job.status.job_name);
      seen.report = it == jobs.end() ? JobSeen{} : JobSeen{true, it->second};
    }
    for (const auto& child : children)
      seen.children.push_back(std::make_shared<const api::SampleJob>(child));
    seen.now = now;
    return seen;
  }

  Plan Step() {
    Plan plan = Decide(Look());
    if (!plan.job_patch.empty()) {
      job.metadata.finalizers =
          Json::parse(plan.job_patch)["metadata"]["finalizers"].get<std::vector<std::string>>();
      ++writes;
      return plan;
    }
    if (plan.cancel_all) ++terminations;
    if (!plan.cancel.empty()) {
      cancelled.push_back(plan.cancel);
      if (jobs.contains(plan.cancel)) jobs[plan.cancel].state = runtime::JobState::kCancelled;
    }
    if (plan.post) {
      posts.push_back(*plan.post);
      runtime::JobResult result;
      result.state = runtime::JobState::kRunning;
      jobs.try_emplace(plan.post->name, result);
    }
    for (const auto& step : plan.steps) {
      for (const auto& remove : step.deletes) {
        std::erase_if(children, [&](const auto& c) { return c.metadata.name == remove.key.name; });
        ++deleted;
      }
      for (const auto& create : step.creates) {
        auto child = api::ParseAs<api::SampleJob>(create.json);
        EXPECT_OK(child);
        if (child) children.push_back(*child);
      }
    }
    if (!(plan.status == job.status)) ++writes;
    job.status = plan.status;
    gone = gone || plan.drop_finalizer || plan.delete_job;
    notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
    return plan;
  }
  void Settle(int most = 12) {
    for (int i = 0; i < most && !gone; ++i) {
      const int before = writes;
      Step();
      if (writes == before) return;
    }
  }
  runtime::JobResult& Running() { return jobs[job.status.job_name]; }
  bool Said(std::string_view reason) const {
    return std::any_of(notes.begin(), notes.end(),
                       [&](const auto& note) { return note.reason == reason; });
  }
  std::string MessageOf(const char* type) const {
    const auto* found = api::FindCondition(job.status.conditions, type);
    return found == nullptr ? "" : found->message;
  }

  api::SampleJob job;
  std::optional<api::SampleSet> set;
  std::vector<SecretView> secrets;
  bool runtime_ready = true;
  bool answers = true;
  std::map<std::string, runtime::JobResult> jobs;
  std::vector<api::SampleJob> children;
  api::Time now{std::chrono::seconds(1'767'225'600)};  // 2026-01-01T00:00:00Z
  std::vector<runtime::JobRequest> posts;
  std::vector<std::string> cancelled;
  std::vector<ChangeNote> notes;
  int terminations = 0;
  int deleted = 0;
  int writes = 0;
  bool gone = false;
};

constexpr std::string_view kRmr =
    R"({"type":"rmr","sampleSetRef":{"name":"s"},"rmrOptions":{"paths":["n01514859"]}})";
constexpr std::string_view kWarmup = R"({"type":"warmup","sampleSetRef":{"name":"s"}})";

TEST(SampleJobDecide, RunsToItsEnd) {
  World world(kRmr);
  world.Settle();
  ASSERT_EQ(world.posts.size(), 1u);
  EXPECT_EQ(world.posts[0].paths.paths, std::vector<std::string>{"n01514859"});
  EXPECT_EQ(world.job.status.phase, "Running");
  auto& running = world.Running();
  running.progress.files = {.total = 10, .done = 4};
  running.progress.bytes = {.total = 1000, .done = 400};
  world.Settle();
  ASSERT_TRUE(world.job.status.progress.has_value());
  EXPECT_EQ(world.job.status.progress->percent, "40%");
  running.state = runtime::JobState::kSucceeded;
  world.Settle();
  EXPECT_EQ(world.job.status.phase, "Succeeded");
  EXPECT_EQ(world.job.status.progress->percent, "100%");
  EXPECT_TRUE(world.job.status.completion_time.has_value());
  EXPECT_TRUE(world.Said("DoRmrJobSuccessfully"));
  const int before = world.writes;
  for (int i = 0; i < 10; ++i) world.Step();
  EXPECT_EQ(world.writes, before) << "nothing is written when nothing changes";
  EXPECT_EQ(world.posts.size(), 1u);
}

TEST(SampleJobDecide, ProgressIsRefreshedWhileItRuns) {
  World world(kRmr);
  world.Settle();
  const Plan plan = world.Step();
  ASSERT_TRUE(plan.recheck.has_value());
  EXPECT_GE(*plan.recheck, std::chrono::seconds(2));
  EXPECT_LE(*plan.recheck, std::chrono::seconds(5));
}

TEST(Findings, C14_WithoutRuntimesAJobWaits) {
  World world(kWarmup);
  world.runtime_ready = false;
  world.Settle();
  EXPECT_EQ(world.job.status.phase, "Pending");
  EXPECT_TRUE(world.posts.empty());
  world.runtime_ready = true;
  world.set->status.phase = "Syncing";
  world.Settle();
  EXPECT_TRUE(world.posts.empty());
  EXPECT_NE(world.job.status.message.find("Syncing"), std::string::npos);
  world.set->status.phase = "PartialReady";
  world.set->status.runtime_status->ready_replicas = 2;
  world.Settle();
  EXPECT_TRUE(world.posts.empty()) << "a warm-up is for all partitions";
  world.set->status.phase = "Ready";
  world.Settle();
  EXPECT_EQ(world.posts.size(), 1u);
}

TEST(Findings, C2_TheStrategyReachesTheRuntime) {
  World world(R"({"type":"warmup","sampleSetRef":{"name":"s"},"warmupOptions":{
      "strategyName":"random","batchSize":96,"epoch":3,"file":"train_list.txt"}})");
  world.Settle();
  ASSERT_EQ(world.posts.size(), 1u);
  EXPECT_EQ(world.posts[0].warmup.strategy_name, "random");
  EXPECT_EQ(world.posts[0].warmup.partitions, 3) << "those of the set";
  EXPECT_EQ(world.posts[0].warmup.epoch, 3);
}

TEST(Findings, C24_TheNameIsStoredBeforeItIsPosted) {
  World world(kRmr);
  world.Step();
  const Plan plan = world.Step();
  ASSERT_TRUE(plan.post.has_value());
  EXPECT_TRUE(plan.status_first);
  EXPECT_EQ(plan.status.job_name, plan.post->name);
  // A crash after the post: the same status, the same name.
  World again(kRmr);
  again.Settle();
  EXPECT_EQ(again.posts[0].name, plan.post->name);
}

TEST(Findings, C26_TerminateIsSentOnce) {
  World world(R"({"type":"clear","sampleSetRef":{"name":"s"},"terminate":true})");
  world.Settle();
  EXPECT_EQ(world.terminations, 1);
  EXPECT_EQ(world.posts.size(), 1u);
  world.jobs.clear();  // lost: posted again, but nobody else is stopped again
  world.Settle();
  EXPECT_EQ(world.terminations, 1);
  EXPECT_EQ(world.posts.size(), 2u);
  EXPECT_EQ(world.posts[0].name, world.posts[1].name);
}

TEST(Findings, C26_ADeletedJobIsStopped) {
  World world(kRmr);
  world.Settle();
  world.job.metadata.deletion_timestamp = world.now;
  world.Step();
  EXPECT_FALSE(world.gone);
  EXPECT_EQ(world.cancelled, std::vector<std::string>{world.job.status.job_name});
  world.Step();
  EXPECT_TRUE(world.gone);
}

TEST(SampleJobDecide, ADeletedJobDoesNotWaitForADeadRuntimeForever) {
  World world(kRmr);
  world.Settle();
  world.answers = false;
  world.job.metadata.deletion_timestamp = world.now;
  world.Step();
  EXPECT_FALSE(world.gone);
  world.now += std::chrono::seconds(61);
  world.Step();
  EXPECT_TRUE(world.gone);
}

TEST(Findings, C13_AJobThatTheRuntimeForgotIsPostedAgain) {
  World world(kRmr);
  world.Settle();
  ASSERT_EQ(world.job.status.phase, "Running");
  world.jobs.clear();
  world.Settle();
  EXPECT_TRUE(world.Said("JobLost"));
  EXPECT_EQ(world.job.status.phase, "Running");
}

TEST(SampleJobDecide, KeysAreBroughtAgainToARestartedRuntime) {
  World world(R"({"type":"sync","sampleSetRef":{"name":"s"},"secretRef":{"name":"k"}})");
  auto secret = std::make_shared<api::SecretObject>();
  secret->data.emplace("access-key", Secret("AK\n"));
  secret->data.emplace("secret-key", Secret("SK\n"));
  world.secrets = {{SecretView::State::kFound, {"data", "k"}, secret}};
  world.Settle();
  ASSERT_EQ(world.posts.size(), 1u);
  EXPECT_EQ(world.posts[0].sources[0].credentials.secret_key.Reveal(), "SK");
  world.Running().state = runtime::JobState::kNeedsCredentials;
  world.Step();
  ASSERT_EQ(world.posts.size(), 2u);
  EXPECT_EQ(world.posts[1], world.posts[0]);
  EXPECT_EQ(api::DumpJson(api::ToJson(world.job.status)).find("SK"), std::string::npos);
}

TEST(SampleJobDecide, FailsAfterItsAttempts) {
  World world(R"({"type":"clear","sampleSetRef":{"name":"s"},"backoffLimit":2})");
  std::vector<std::string> names;
  for (int attempt = 0; attempt < 3; ++attempt) {
    world.now += std::chrono::minutes(10);
    world.Settle();
    names.push_back(world.job.status.job_name);
    world.Running().state = runtime::JobState::kFailed;
    world.Running().message = "no route";
    world.Step();
    if (attempt < 2) {
      EXPECT_EQ(world.job.status.phase, "Pending");
      EXPECT_TRUE(world.job.status.job_name.empty());
      world.Step();
      EXPECT_TRUE(world.job.status.job_name.empty()) << "it waits before the next attempt";
    }
  }
  EXPECT_EQ(world.job.status.phase, "Failed");
  EXPECT_EQ(world.job.status.message, "no route");
  EXPECT_NE(names[0], names[1]);
  EXPECT_NE(names[1], names[2]);
  EXPECT_TRUE(world.Said("ErrorDoClearJob"));
}

TEST(SampleJobDecide, AFailedJobThatIsCorrectedRunsAgain) {
  World world(kRmr);
  world.Settle();
  const std::string first = world.job.status.job_name;
  world.Running().state = runtime::JobState::kFailed;
  world.Settle();
  ASSERT_EQ(world.job.status.phase, "Failed");
  world.job.spec.rmr_options->paths = {"n01514668"};
  world.job.metadata.generation = 2;
  world.Settle();
  EXPECT_EQ(world.job.status.phase, "Running");
  EXPECT_NE(world.job.status.job_name, first);
  world.Running().state = runtime::JobState::kSucceeded;
  world.Settle();
  world.job.metadata.generation = 3;
  world.Settle();
  EXPECT_EQ(world.job.status.phase, "Succeeded");
  EXPECT_TRUE(world.Said("AlreadySucceeded"));
}

TEST(SampleJobDecide, GoesAfterItsTime) {
  World world(R"({"type":"clear","sampleSetRef":{"name":"s"},"ttlSecondsAfterFinished":60})");
  world.Settle();
  world.Running().state = runtime::JobState::kSucceeded;
  world.Settle();
  EXPECT_FALSE(world.gone);
  world.now += std::chrono::seconds(61);
  world.Settle();
  EXPECT_TRUE(world.gone);
}

TEST(SampleJobDecide, BadInputNamesItsField) {
  std::string many = R"({"type":"rmr","sampleSetRef":{"name":"s"},"rmrOptions":{"paths":["a")";
  for (int i = 0; i < 10'000; ++i) many += fmt::format(",\"{}\"", i);
  many += "]}}";
  const std::pair<std::string, std::string_view> cases[] = {
      {R"({"type":"rmr","sampleSetRef":{"name":"s"}})", "rmrOptions.paths"},
      {R"({"type":"rmr","sampleSetRef":{"name":"s"},"rmrOptions":{"paths":["../x"]}})",
       "spec.rmrOptions.paths[0]"},
      {R"({"type":"rmr","sampleSetRef":{"name":"s"},"rmrOptions":{"paths":["a","/etc"]}})",
       "spec.rmrOptions.paths[1]"},
      {many, "spec.rmrOptions.paths: 10001 paths"},
      {R"({"type":"clear","sampleSetRef":{"name":"s"},"clearOptions":{"paths":["/etc"]}})",
       "spec.clearOptions.paths"},
      {R"({"type":"warmup","sampleSetRef":{"name":"s"},"syncOptions":{"threads":3}})",
       "spec.syncOptions"},
      {R"({"type":"sync","sampleSetRef":{"name":"s"},"syncOptions":{"source":"ftp://x/y"}})",
       "spec.syncOptions.source"},
      {R"({"type":"sync","sampleSetRef":{"name":"s"},"syncOptions":{"destination":"../x"}})",
       "spec.syncOptions.destination"},
      {R"({"type":"sync","sampleSetRef":{"name":"s"},"syncOptions":{"threads":-1}})",
       "spec.syncOptions.threads"},
      {R"({"type":"warmup","sampleSetRef":{"name":"s"},"warmupOptions":{"batchSize":0}})",
       "spec.warmupOptions.batchSize"},
      {R"({"type":"warmup","sampleSetRef":{"name":"s"},"timeZone":"Asia/Shanghai"})",
       "spec.timeZone"},
      {R"({"type":"shuffle","sampleSetRef":{"name":"s"}})", "type"},
      {R"({"type":"clear"})", "sampleSetRef.name"},
  };
  for (const auto& [spec, field] : cases) {
    World world(spec);
    world.Settle();
    EXPECT_TRUE(world.posts.empty()) << spec.substr(0, 100);
    EXPECT_NE(world.MessageOf(condition::kAccepted).find(field), std::string::npos)
        << spec.substr(0, 100) << ": " << world.MessageOf(condition::kAccepted);
    EXPECT_TRUE(world.Said("InvalidSpec")) << spec.substr(0, 100);
    EXPECT_EQ(world.job.status.phase, "Pending");
  }
  World lost(kRmr);
  lost.set.reset();
  lost.Settle();
  EXPECT_TRUE(lost.Said("ErrorSampleSetNotExist"));
  World secret(R"({"type":"sync","sampleSetRef":{"name":"s"},"secretRef":{"name":"k"}})");
  secret.secrets = {{SecretView::State::kMissing, {"data", "k"}, nullptr}};
  secret.Settle();
  EXPECT_TRUE(secret.Said("ErrorSecretNotExist"));
  EXPECT_TRUE(secret.posts.empty());
}

TEST(SampleJobDecide, EveryOptionOfASyncTravels) {
  World world(R"({"type":"sync","sampleSetRef":{"name":"s"},"syncOptions":{
      "source":"s3://b.host/p","destination":"train","start":"a","end":"z","threads":7,
      "update":true,"force-update":false,"perms":true,"dirs":true,"dry":true,"delete-dst":true,
      "exclude":"*.tmp","include":"*.jpg","bwlimit":100,"no-https":true}})");
  world.Settle();
  ASSERT_EQ(world.posts.size(), 1u);
  const auto& post = world.posts[0];
  EXPECT_EQ(post.sources[0].uri, "s3://b.host/p");
  EXPECT_EQ(post.sources[0].path, "train");
  EXPECT_EQ(post.sync.start, "a");
  EXPECT_EQ(post.sync.threads, 7);
  EXPECT_TRUE(post.sync.update && post.sync.perms && post.sync.dirs && post.sync.dry);
  EXPECT_TRUE(post.sync.delete_dst && post.sync.no_https);
  EXPECT_EQ(post.sync.exclude, "*.tmp");
  EXPECT_EQ(post.sync.bwlimit, 100);
}

// --- schedules ---

constexpr std::string_view kHourly =
    R"({"type":"sync","sampleSetRef":{"name":"s"},"schedule":"0 * * * *"})";

void End(World& world, std::string_view phase) {
  for (auto& child : world.children) {
    if (child.status.Finished()) continue;
    child.status.phase = phase;
    child.status.completion_time = world.now;
  }
}

TEST(Findings, C1_AScheduleMakesJobs) {
  World world(kHourly);
  world.Settle();
  EXPECT_EQ(world.job.status.phase, "Scheduled");
  EXPECT_TRUE(world.children.empty());
  EXPECT_TRUE(world.posts.empty());
  world.now += std::chrono::minutes(61);
  world.Settle();
  ASSERT_EQ(world.children.size(), 1u);
  const auto& child = world.children[0];
  EXPECT_EQ(child.metadata.name, "j-29453820");
  EXPECT_EQ(child.metadata.Controller()->uid, world.job.metadata.uid);
  EXPECT_TRUE(child.spec.schedule.empty());
  EXPECT_EQ(child.spec.type, "sync");
  EXPECT_EQ(api::FormatTime(*world.job.status.last_schedule_time), "2026-01-01T01:00:00Z");
  world.Settle();
  EXPECT_EQ(world.children.size(), 1u) << "once";
  EXPECT_EQ(world.job.status.active.size(), 1u);
  End(world, "Succeeded");
  world.Settle();
  EXPECT_TRUE(world.job.status.active.empty());
  EXPECT_TRUE(world.job.status.last_successful_time.has_value());
}

TEST(Schedule, ComesAgainWhenItIsDue) {
  World world(kHourly);
  const Plan plan = world.Step();
  ASSERT_TRUE(plan.recheck.has_value());
  EXPECT_EQ(*plan.recheck, std::chrono::hours(1));
}

TEST(Schedule, KeepsSomeHistory) {
  World world(R"({"type":"clear","sampleSetRef":{"name":"s"},"schedule":"0 * * * *",
                  "successfulJobsHistoryLimit":2,"failedJobsHistoryLimit":0})");
  for (int i = 0; i < 5; ++i) {
    world.now += std::chrono::hours(1);
    world.Settle();
    End(world, i == 4 ? "Failed" : "Succeeded");
  }
  world.Settle();
  ASSERT_EQ(world.children.size(), 2u);
  EXPECT_EQ(world.children[1].status.phase, "Succeeded");
  EXPECT_EQ(world.deleted, 3);
}

TEST(Schedule, ConcurrencyPolicies) {
  const auto run = [](const char* policy) {
    World world(fmt::format(R"({{"type":"clear","sampleSetRef":{{"name":"s"}},
        "schedule":"0 * * * *","concurrencyPolicy":"{}"}})",
                            policy));
    world.now += std::chrono::minutes(60);
    world.Settle();
    world.now += std::chrono::minutes(60);
    world.Settle();
    return world;
  };
  EXPECT_EQ(run("Allow").children.size(), 2u);
  World forbid = run("Forbid");
  EXPECT_EQ(forbid.children.size(), 1u);
  End(forbid, "Succeeded");
  forbid.Settle();
  EXPECT_EQ(forbid.children.size(), 2u) << "made up for";
  const World replace = run("Replace");
  ASSERT_EQ(replace.children.size(), 1u);
  EXPECT_EQ(replace.deleted, 1);
  EXPECT_EQ(replace.children[0].metadata.name, "j-29453880");
}

TEST(Schedule, MissedStartsAreMadeUpForOnce) {
  World world(kHourly);
  world.now += std::chrono::hours(5) + std::chrono::minutes(30);
  world.Settle();
  ASSERT_EQ(world.children.size(), 1u);
  EXPECT_EQ(api::FormatTime(*world.job.status.last_schedule_time), "2026-01-01T05:00:00Z");
  World month(R"({"type":"clear","sampleSetRef":{"name":"s"},"schedule":"* * * * *"})");
  month.now += std::chrono::hours(24 * 30);
  month.Settle();
  EXPECT_EQ(month.children.size(), 1u);
  EXPECT_TRUE(month.Said("TooManyMissedTimes"));
  EXPECT_EQ(*month.job.status.last_schedule_time, month.now);
}

TEST(Schedule, ADeadlineSkipsWhatIsTooLate) {
  World world(R"({"type":"clear","sampleSetRef":{"name":"s"},"schedule":"0 * * * *",
                  "startingDeadlineSeconds":60})");
  world.now += std::chrono::minutes(90);
  world.Settle();
  EXPECT_TRUE(world.children.empty());
  EXPECT_TRUE(world.Said("MissSchedule"));
  const auto said = world.notes.size();
  world.Settle();
  EXPECT_EQ(world.notes.size(), said) << "said once";
  world.now += std::chrono::minutes(30);
  world.Settle();
  EXPECT_EQ(world.children.size(), 1u);
}

TEST(Schedule, Suspended) {
  World world(R"({"type":"clear","sampleSetRef":{"name":"s"},"schedule":"0 * * * *",
                  "suspend":true})");
  world.now += std::chrono::hours(2);
  world.Settle();
  EXPECT_TRUE(world.children.empty());
  EXPECT_EQ(world.MessageOf(condition::kScheduled).find("spec.suspend"), 0u);
}

TEST(Schedule, ABadOneSaysWhere) {
  World world(R"({"type":"clear","sampleSetRef":{"name":"s"},"schedule":"61 * * * *"})");
  world.Settle();
  EXPECT_NE(world.MessageOf(condition::kScheduled).find("spec.schedule: minute"),
            std::string::npos);
  World zone(R"({"type":"clear","sampleSetRef":{"name":"s"},"schedule":"1 * * * *",
                 "timeZone":"Mars/Base"})");
  zone.Settle();
  EXPECT_NE(zone.MessageOf(condition::kScheduled).find("Mars/Base"), std::string::npos);
}

}  // namespace
}  // namespace paddleop::controllers::samplejob
