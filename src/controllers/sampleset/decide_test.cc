#include "controllers/sampleset/decide.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "controllers/sampleset/credentials.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/testing/world.h"

namespace paddleop::controllers::sampleset {
namespace {

using testing::kThree;
using testing::World;
using Strings = std::vector<std::string>;

constexpr std::string_view kPublic =
    R"({"partitions":1,"source":{"uri":"bos://b.bj.bcebos.com/p"},"secretRef":{"name":"volume"}})";

TEST(SampleSetDecide, GoesFromNothingToReady) {
  World world(kPublic);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_EQ(world.ObjectNames(),
            (Strings{"PersistentVolume/s", "PersistentVolumeClaim/s", "Secret/s-volume",
                     "Service/s-runtime-service", "StatefulSet/s-runtime"}));
  EXPECT_EQ(world.Labels(), (std::map<std::string, std::string>{{"node-0", "s-runtime-0"}}));
  ASSERT_EQ(world.posts.size(), 1u);
  EXPECT_EQ(world.posts[0].sources[0].uri, "bos://b.bj.bcebos.com/p");
  EXPECT_TRUE(world.posts[0].sources[0].credentials.empty()) << "a public bucket needs no keys";
  EXPECT_EQ(world.status().runtime_status->runtime_ready, "1/1");
  EXPECT_EQ(world.status().observed_generation, 1);
  for (const char* type : {condition::kAccepted, condition::kSecretReady, condition::kVolumeBound,
                           condition::kRuntimeReady, condition::kSynced, condition::kReady}) {
    ASSERT_NE(world.Condition(type), nullptr) << type;
    EXPECT_EQ(world.Condition(type)->status, "True") << type;
  }
}

TEST(SampleSetDecide, NothingIsWrittenWhenNothingChanges) {
  World world(kThree);
  world.Settle();
  ASSERT_EQ(world.status().phase, "Ready");
  const int before = world.writes;
  for (int i = 0; i < 20; ++i) world.Step();
  EXPECT_EQ(world.writes, before);
}

TEST(SampleSetDecide, EveryPhaseIsPassed) {
  World world(kPublic);
  world.bind_volumes = false;
  world.run_pods = false;
  world.finish_jobs = false;
  world.Settle();
  EXPECT_EQ(world.status().phase, "");
  EXPECT_EQ(world.Condition(condition::kVolumeBound)->status, "False");
  world.bind_volumes = true;
  world.Settle();
  EXPECT_EQ(world.status().phase, "Bound");
  world.run_pods = true;
  world.Settle();
  EXPECT_EQ(world.status().phase, "Syncing");
  auto& job = world.jobs[world.status().sync_job_name];
  job.state = runtime::JobState::kFailed;
  job.message = "bucket b: access denied";
  world.Settle();
  EXPECT_EQ(world.status().phase, "SyncFailed");
  EXPECT_EQ(world.Condition(condition::kSynced)->message, "bucket b: access denied");
  EXPECT_TRUE(world.Said("ErrorDoSyncJob"));
  world.Edit([](auto& spec) { spec.no_sync = true; });
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
}

TEST(SampleSetDecide, NamesAreStoredBeforeAnythingHasThem) {
  World world(kPublic);
  world.Step();  // the finalizer
  const Plan named = world.Step();
  EXPECT_TRUE(named.status_first);
  EXPECT_TRUE(named.steps.empty());
  EXPECT_EQ(named.status.volume_name, "s");
  EXPECT_EQ(named.status.node_label, "paddlepaddle.org/juicefs-s");
}

TEST(SampleSetDecide, AFailedImportIsTriedAgainWhenItsSecretChanges) {
  World world(R"({"source":{"uri":"s3://b.host/p","secretRef":{"name":"volume"}},
                  "secretRef":{"name":"volume"}})");
  world.finish_jobs = false;
  world.Settle();
  const std::string first = world.status().sync_job_name;
  world.jobs[first].state = runtime::JobState::kFailed;
  world.Settle();
  ASSERT_EQ(world.status().phase, "SyncFailed");
  world.Settle();
  EXPECT_EQ(world.posts.size(), 1u) << "not by itself";
  world.SetSecret({{"name", "vol"},
                   {"storage", "s3"},
                   {"bucket", "b"},
                   {"metaurl", "redis://h/0"},
                   {"access-key", "new\n"},
                   {"secret-key", "key"}});
  world.finish_jobs = true;
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  ASSERT_EQ(world.posts.size(), 2u);
  EXPECT_NE(world.posts[1].name, first);
  EXPECT_EQ(world.posts[1].sources[0].credentials.access_key, "new");
}

TEST(SampleSetDecide, ASampleJobRepairsAFailedImport) {
  World world(kPublic);
  world.finish_jobs = false;
  world.Settle();
  world.jobs[world.status().sync_job_name].state = runtime::JobState::kFailed;
  world.Settle();
  ASSERT_EQ(world.status().phase, "SyncFailed");
  world.last_sync = world.now + std::chrono::seconds(5);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
}

TEST(SampleSetDecide, AnotherSourceIsImported) {
  World world(kPublic);
  world.Settle();
  world.Edit([](auto& spec) { spec.sources.push_back({"s3://other.host/x", {}, "extra"}); });
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  ASSERT_EQ(world.posts.size(), 2u);
  ASSERT_EQ(world.posts[1].sources.size(), 2u);
  EXPECT_EQ(world.posts[1].sources[1].path, "extra");
}

TEST(SampleSetDecide, ScalingUpWarmsTheNewLayout) {
  World world(kPublic);
  world.Settle();
  world.Edit([](auto& spec) { spec.partitions = 3; });
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_EQ(world.replicas(), 3);
  ASSERT_EQ(world.posts.size(), 2u);
  EXPECT_EQ(world.posts[1].kind, runtime::JobKind::kWarmup);
  EXPECT_EQ(world.posts[1].warmup.partitions, 3);
  EXPECT_EQ(world.Labels().size(), 3u);
  EXPECT_EQ(world.tables.back().peers.size(), 3u);
}

TEST(SampleSetDecide, ShrinkingDrainsFirst) {
  World world(kThree);
  world.Settle();
  world.finish_jobs = false;
  world.Edit([](auto& spec) { spec.partitions = 2; });
  world.Settle();
  EXPECT_EQ(world.replicas(), 3) << "the third has not been relieved yet";
  EXPECT_EQ(world.posts.back().warmup.partitions, 2);
  EXPECT_EQ(world.tables.back().peers.size(), 3u) << "it still serves what it holds";
  world.jobs[world.status().warmup_job_name].state = runtime::JobState::kSucceeded;
  world.Settle();
  EXPECT_EQ(world.replicas(), 2);
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_EQ(world.Labels().size(), 2u);
  EXPECT_EQ(world.tables.back().peers.size(), 2u);
}

TEST(SampleSetDecide, AutomaticWarmUpFollowsEveryImport) {
  World world(R"({"source":{"uri":"bos://b.h/p"},"secretRef":{"name":"volume"},
                  "warmup":{"auto":true,"strategyName":"random","batchSize":96}})");
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  ASSERT_EQ(world.posts.size(), 2u);
  EXPECT_EQ(world.posts[1].kind, runtime::JobKind::kWarmup);
  EXPECT_EQ(world.posts[1].warmup.strategy_name, "random");
  EXPECT_EQ(world.posts[1].warmup.batch_size, 96);
  world.last_sync = world.now;
  world.Settle();
  EXPECT_EQ(world.posts.size(), 3u);
  EXPECT_EQ(world.status().phase, "Ready");
}

TEST(SampleSetDecide, AFailedWarmUpDoesNotStopTheSet) {
  World world(R"({"source":{"uri":"bos://b.h/p"},"secretRef":{"name":"volume"},
                  "warmup":{"auto":true}})");
  world.finish_jobs = false;
  world.Settle();
  world.jobs[world.status().sync_job_name].state = runtime::JobState::kSucceeded;
  world.Settle();
  auto& warmup = world.jobs[world.status().warmup_job_name];
  warmup.state = runtime::JobState::kFailed;
  warmup.message = "no space";
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_EQ(world.Condition(condition::kWarmed)->reason, "Failed");
  EXPECT_EQ(world.posts.size(), 2u);
  world.now += std::chrono::minutes(6);
  world.finish_jobs = true;
  world.Settle();
  EXPECT_EQ(world.posts.size(), 3u);
  EXPECT_EQ(world.Condition(condition::kWarmed)->status, "True");
}

TEST(SampleSetDecide, AWipedCacheIsFilledAgain) {
  World world(kThree);
  world.Settle();
  world.infos[1].cache_id = "another";
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_TRUE(world.Said("CacheLost"));
  EXPECT_EQ(world.posts.back().kind, runtime::JobKind::kWarmup);
}

TEST(SampleSetDecide, ACacheThatIsWipedWhileItsPodIsReplacedIsFilledAgain) {
  World world(kThree);
  world.Settle();
  const auto before = world.status().partitions;
  world.absent.insert(1);
  world.Settle();
  ASSERT_EQ(world.status().partitions.size(), 3u);
  EXPECT_FALSE(world.status().partitions[1].ready);
  EXPECT_EQ(world.status().partitions[1].cache_id, before[1].cache_id);
  EXPECT_FALSE(world.Said("CacheLost"));
  world.absent.clear();
  world.infos[1].cache_id = "another";
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_TRUE(world.Said("CacheLost"));
  EXPECT_EQ(world.posts.back().kind, runtime::JobKind::kWarmup);
  // A partition that is given up is forgotten.
  world.Edit([](api::SampleSetSpec& spec) { spec.partitions = 2; });
  world.Settle();
  EXPECT_EQ(world.status().partitions.size(), 2u);
}

TEST(SampleSetDecide, ACacheThatIsWipedDuringAWarmUpIsFilledAgain) {
  World world(kThree);
  world.Settle();
  world.finish_jobs = false;
  world.infos[1].cache_id = "another";
  world.Settle();
  const auto first = world.posts.back();
  EXPECT_EQ(first.kind, runtime::JobKind::kWarmup);
  world.infos[2].cache_id = "yet another";
  world.finish_jobs = true;
  world.Settle();
  EXPECT_EQ(world.cancelled, std::vector<std::string>{first.name});
  EXPECT_NE(world.posts.back().name, first.name);
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_EQ(world.status().warmed_partitions, 3);
}

TEST(SampleSetDecide, ACacheThatIsWipedDuringTheImportIsFilledAfterIt) {
  World world(kThree);
  world.finish_jobs = false;
  world.Settle();
  ASSERT_EQ(world.status().phase, "Syncing");
  world.infos[1].cache_id = "another";
  world.Settle();
  world.jobs.begin()->second.state = runtime::JobState::kSucceeded;
  world.finish_jobs = true;
  world.Settle();
  EXPECT_EQ(world.posts.back().kind, runtime::JobKind::kWarmup);
  EXPECT_EQ(world.status().phase, "Ready");
}

TEST(SampleSetDecide, ADeadNodeIsNoticedAndItsPartitionMoves) {
  World world(kThree);
  world.Settle();
  world.node_ready["node-1"] = false;
  world.broken.insert(1);
  world.Settle();
  EXPECT_EQ(world.status().phase, "PartialReady");
  EXPECT_NE(world.Condition(condition::kRuntimeReady)->message.find("node-1"), std::string::npos);
  world.terminating.insert(1);  // the node controller evicts it; nobody confirms
  world.Settle();
  EXPECT_EQ(world.given_up, Strings{"s-runtime-1"});
  world.node_of[1] = "node-9";
  world.broken.clear();
  world.infos[1].cache_id = "on node 9";
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_EQ(world.Labels(),
            (std::map<std::string, std::string>{
                {"node-0", "s-runtime-0"}, {"node-2", "s-runtime-2"}, {"node-9", "s-runtime-1"}}));
}

TEST(SampleSetDecide, ALostJournalPostsTheSameNameAgain) {
  World world(kPublic);
  world.finish_jobs = false;
  world.Settle();
  ASSERT_EQ(world.posts.size(), 1u);
  world.jobs.clear();
  world.Settle();
  ASSERT_EQ(world.posts.size(), 2u);
  EXPECT_EQ(world.posts[0].name, world.posts[1].name);
}

TEST(SampleSetDecide, TwoPartitionsOnOneNodeAreNotReady) {
  World world(kThree);
  world.node_of[2] = "node-1";
  world.Settle();
  EXPECT_EQ(world.status().phase, "PartialReady");
}

TEST(SampleSetDecide, FiguresAreSums) {
  World world(kThree);
  world.infos[0] = {.total_size = 58ull << 20,
                    .total_files = 128'660,
                    .cached_size = 20ull << 20,
                    .disk_size = 4ull << 30,
                    .disk_used = 1ull << 30,
                    .disk_avail = 3ull << 30};
  world.infos[1] = world.infos[2] = world.infos[0];
  world.infos[1].reads = {.local = 99, .peer = 1};
  world.Settle();
  const auto& cache = *world.status().cache_status;
  EXPECT_EQ(cache.total_size, "58 MiB");
  EXPECT_EQ(cache.total_files, "128,660");
  EXPECT_EQ(cache.cached_size, "58 MiB") << "never more than there is";
  EXPECT_EQ(cache.cached_percent, "100%");
  EXPECT_EQ(cache.disk_avail, "9.0 GiB");
  EXPECT_EQ(cache.disk_usage_rate, "25.0%");
  EXPECT_EQ(cache.hit_ratio, "99%");
  ASSERT_EQ(world.status().partitions.size(), 3u);
  EXPECT_EQ(world.status().partitions[2].node, "node-2");
}

TEST(SampleSetDecide, AfterAJobRuntimeZeroKnowsBest) {
  World world(kThree);
  world.infos[0] = {.total_size = 1 << 20, .total_files = 10};
  world.infos[1] = world.infos[2] = {.total_size = 58 << 20, .total_files = 250};
  world.Settle();
  EXPECT_EQ(world.status().cache_status->total_files, "10") << "the others look later";
  world.infos[0] = {.totals_known = false};
  world.Settle();
  EXPECT_EQ(world.status().cache_status->total_files, "250") << "it was just started";
  world.infos[1] = world.infos[2] = world.infos[0];
  world.Settle();
  EXPECT_EQ(world.status().cache_status->total_files, "250") << "nobody knows better";
}

TEST(SampleSetDecide, DeletionWaitsForRuntimesThatHaveCachedSomething) {
  World world(kThree);
  world.Settle();
  world.purge_works = false;
  world.set().metadata.deletion_timestamp = world.now;
  for (int i = 0; i < 5; ++i) world.Step();
  EXPECT_TRUE(world.HasStatefulSet()) << "somebody has to clean the nodes";
  EXPECT_GT(world.purges, 1);
  world.now += std::chrono::seconds(60);
  world.Settle();
  EXPECT_TRUE(world.gone) << "but not without end";
}

TEST(SampleSetDecide, DeletionDoesNotWaitForALostNode) {
  World world(kThree);
  world.Settle();
  world.node_ready = {{"node-0", false}, {"node-1", false}, {"node-2", false}};
  world.set().metadata.deletion_timestamp = world.now;
  EXPECT_TRUE(world.Step().purge_first.empty());
}

TEST(SampleSetDecide, CredentialsAreRenewedAtTwoThirds) {
  World world(kPublic);
  world.Settle();
  EXPECT_EQ(world.auth_works, 1);
  world.now += std::chrono::hours(24 * 240);
  world.Settle();
  EXPECT_EQ(world.auth_works, 1);
  world.now += std::chrono::hours(24 * 10);
  world.Settle();
  EXPECT_EQ(world.auth_works, 2);
  world.now += std::chrono::minutes(61);
  world.Settle();
  EXPECT_EQ(world.auth_works, 3) << "the previous token's hour is over";
}

}  // namespace
}  // namespace paddleop::controllers::sampleset
