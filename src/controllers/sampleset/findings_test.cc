// One test for each known defect of the cache component this one replaces, as far as it can be seen
// in decisions of this controller.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/batch/rules.h"
#include "controllers/sampleset/credentials.h"
#include "controllers/sampleset/mount_options.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/objects.h"
#include "controllers/sampleset/testing/world.h"

namespace paddleop::controllers::sampleset {
namespace {

using testing::kThree;
using testing::World;

api::Json PodSpec(World& world) {
  return world.JsonOf("StatefulSet/s-runtime")["spec"]["template"]["spec"];
}

std::string Command(World& world) { return PodSpec(world)["containers"][0]["command"].dump(); }

TEST(Findings, C4_LevelsReachTheRuntimeOneByOne) {
  World world(R"({"secretRef":{"name":"volume"},"noSync":true,"cache":{"levels":[
      {"mediumType":"MEM","path":"/dev/shm/a","cacheSize":1024},
      {"mediumType":"SSD","path":"/data/b:/data/c","cacheSize":20480}]}})");
  world.Settle();
  EXPECT_NE(Command(world).find("--cache-level=MEM,/dev/shm/a,1024"), std::string::npos);
  EXPECT_NE(Command(world).find("--cache-level=SSD,/data/b:/data/c,20480"), std::string::npos);
}

TEST(Findings, C5_RuntimesHaveACertificateAndAToken) {
  World world(kThree);
  world.Settle();
  const auto pod = PodSpec(world);
  EXPECT_NE(pod["volumes"].dump().find("s-runtime-auth"), std::string::npos);
  EXPECT_EQ(pod["volumes"].dump().find("ca.key"), std::string::npos)
      << "the authority's key is not for pods";
  EXPECT_EQ(pod["containers"][0]["readinessProbe"]["httpGet"]["scheme"], "HTTPS");
}

TEST(Findings, C6_NoSecretInAnyCommandOrStatus) {
  World world(R"({"source":{"uri":"s3://AKEY:SKEY@b.host/p"},"secretRef":{"name":"volume"}})");
  world.SetSecret({{"name", "vol"},
                   {"storage", "s3"},
                   {"bucket", "http://h/b"},
                   {"metaurl", "redis://:hidden@h/0"},
                   {"access-key", "VKEY"},
                   {"secret-key", "WKEY"}});
  world.Settle();
  ASSERT_EQ(world.status().phase, "Ready");
  std::string visible = world.JsonOf("StatefulSet/s-runtime").dump() +
                        world.JsonOf("PersistentVolume/s").dump() +
                        api::DumpJson(api::ToJson(world.status()));
  for (const auto& note : world.notes) visible += note.message;
  for (const char* secret : {"AKEY", "SKEY", "VKEY", "WKEY", "hidden"})
    EXPECT_EQ(visible.find(secret), std::string::npos) << secret;
  EXPECT_EQ(world.posts[0].sources[0].uri, "s3://b.host/p");
}

TEST(Findings, C7_SystemDirectoriesAreNoCaches) {
  for (const char* path : {"/", "/etc", "/etc/kubernetes", "/usr/lib", "/var/lib/kubelet/pods",
                           "/data/../etc", "/dev", "/dev/shm", "/root/x", "/proc/1"}) {
    EXPECT_TRUE(IsSystemDirectory(path)) << path;
  }
  for (const char* path : {"/dev/shm/x", "/data", "/var/cache/samplefs", "/mnt/ssd0", "/tmp/c"})
    EXPECT_FALSE(IsSystemDirectory(path)) << path;
  World world(R"({"secretRef":{"name":"volume"},"noSync":true,
                  "cache":{"levels":[{"path":"/etc/x"}]}})");
  world.Settle();
  EXPECT_FALSE(world.HasStatefulSet());
  EXPECT_NE(world.Condition(condition::kAccepted)->message.find("spec.cache.levels"),
            std::string::npos);
}

TEST(Findings, C8_WhatSomebodyElseMadeIsNotDeleted) {
  World world(kThree);
  world.Settle();
  world.stateful_set()->metadata.labels[kSetUidLabel] = "another set";
  world.set().metadata.deletion_timestamp = world.now;
  world.run_pods = false;
  world.Settle();
  EXPECT_TRUE(world.gone);
  EXPECT_TRUE(world.HasStatefulSet());
}

TEST(Findings, C9_TwoSetsOfOneNameHaveNamesOfTheirOwn) {
  World world(kThree);
  world.plain_name_taken = true;
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_EQ(world.status().volume_name, "s-12345678");
  EXPECT_EQ(world.status().node_label, "paddlepaddle.org/juicefs-s-12345678");
  EXPECT_EQ(world.JsonOf("PersistentVolume/s-12345678")["spec"]["claimRef"]["namespace"], "data");
  EXPECT_NE(Command(world).find("/dev/shm/s-12345678"), std::string::npos)
      << "and no cache directory in common";
}

TEST(Findings, C10_AddressesNeedNoNamespaceOfTheManager) {
  World world(kThree);
  world.Settle();
  EXPECT_EQ(world.tables.back().peers[1].address, "10.0.0.2:7716");
  EXPECT_EQ(world.tables.back().peers[1].tls_name, "s-runtime-1.s-runtime-service.data.svc");
}

TEST(Findings, C11_RuntimePodsAreNotPrivileged) {
  World world(kThree);
  world.Settle();
  const auto pod = PodSpec(world);
  const auto& context = pod["containers"][0]["securityContext"];
  EXPECT_FALSE(context.contains("privileged"));
  EXPECT_EQ(context["allowPrivilegeEscalation"], false);
  EXPECT_EQ(context["capabilities"]["drop"][0], "ALL");
  EXPECT_EQ(pod["automountServiceAccountToken"], false);
  EXPECT_EQ(pod.dump().find("Bidirectional"), std::string::npos);
  EXPECT_EQ(pod["volumes"].dump().find("persistentVolumeClaim"), std::string::npos);
  World juicefs(R"({"secretRef":{"name":"volume"},"noSync":true,"csi":{"driver":"juicefs"}})");
  juicefs.Settle();
  EXPECT_NE(Command(juicefs).find("--driver=juicefs"), std::string::npos);
  EXPECT_NE(Command(juicefs).find("--data-dir=/mnt/s"), std::string::npos);
  EXPECT_EQ(juicefs.JsonOf("PersistentVolume/s")["spec"]["csi"]["driver"], "csi.juicefs.com");
  EXPECT_EQ(world.JsonOf("PersistentVolume/s")["spec"]["csi"]["driver"],
            "csi.samplefs.paddlepaddle.org");
}

TEST(Findings, C13_AJobThatTheRuntimeForgotIsNotWaitedForForever) {
  World world(kThree);
  world.finish_jobs = false;
  world.Settle();
  ASSERT_EQ(world.status().phase, "Syncing");
  world.jobs.clear();
  world.finish_jobs = true;
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
}

TEST(Findings, C16_AStatusThatCannotBeHadKeepsTheLastOne) {
  World world(kThree);
  for (int i = 0; i < 3; ++i) world.infos[i].total_size = 1 << 20;
  world.Settle();
  world.answers = false;
  world.Settle();
  EXPECT_EQ(world.status().cache_status->total_size, "1.0 MiB");
}

TEST(Findings, C17_AnEmptySetHasNoBytes) {
  World world(kThree);
  world.Settle();
  EXPECT_EQ(world.status().cache_status->total_size, "0 B");
  EXPECT_EQ(world.status().cache_status->cached_size, "0 B");
}

TEST(Findings, C19_ACacheDirectoryIsJoinedWithASlash) {
  api::SampleSetSpec spec;
  spec.csi.emplace().mount_options.emplace().cache_dir = "/data/cache";
  EXPECT_NE(MountOptionsText(spec, "imagenet").find("cache-dir=/data/cache/imagenet"),
            std::string::npos);
  spec.csi->mount_options->cache_dir = "/data/cache/";
  EXPECT_NE(MountOptionsText(spec, "imagenet").find("cache-dir=/data/cache/imagenet"),
            std::string::npos);
}

TEST(Findings, C20_MountOptionsAreSorted) {
  api::SampleSetSpec spec;
  auto& options = spec.csi.emplace().mount_options.emplace();
  options.open_cache = 7200;
  options.attr_cache = 7200;
  options.writeback = true;
  options.prefetch = 1;
  spec.cache_levels = {{"SSD", "/c", 307200}};
  EXPECT_EQ(MountOptionsText(spec, "s"),
            "attr-cache=7200,cache-dir=/c,cache-size=307200,open-cache=7200,prefetch=1,writeback");
  EXPECT_EQ(MountOptionsText({}, "imagenet"), "cache-dir=/dev/shm/imagenet,cache-size=1073741824");
}

TEST(Findings, C21_VolumeAndPortNamesAreAlwaysValid) {
  World world(R"({"secretRef":{"name":"volume"},"noSync":true,"cache":{"levels":[
      {"path":"/Data/UPPER_case.dir/"},{"path":"/x/very/long/path/that/goes/on/and/on/and/on/and/on/and/on/for/ever"}]}})");
  world.Settle();
  const auto pod = PodSpec(world);
  for (const auto& volume : pod["volumes"]) {
    const auto name = volume["name"].get<std::string>();
    EXPECT_LE(name.size(), 63u);
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
  }
  EXPECT_LE(pod["containers"][0]["ports"][0]["name"].get<std::string>().size(), 15u);
}

TEST(Findings, C22_AMissingSecretIsNoticedAlsoLater) {
  World world(kThree);
  world.DropSecret();
  world.Settle();
  EXPECT_FALSE(world.HasStatefulSet());
  EXPECT_EQ(world.Condition(condition::kSecretReady)->reason, "ErrorSecretNotExist");
  EXPECT_TRUE(world.Said("ErrorSecretNotExist"));
  world.SetSecret({{"name", "v"}, {"storage", "redis"}});
  world.Settle();
  EXPECT_NE(world.Condition(condition::kSecretReady)->message.find("bucket, metaurl"),
            std::string::npos);
  world.SetSecret({{"name", "v\n"},
                   {"storage", "redis\n"},
                   {"bucket", "redis://h/1\n"},
                   {"metaurl", "redis://h/0\n"}});
  world.Settle();
  EXPECT_EQ(world.status().phase, "Ready");
  EXPECT_EQ(world.JsonOf("Secret/s-volume")["data"]["metaurl"], "cmVkaXM6Ly9oLzA=") << "trimmed";
  world.DropSecret();
  world.Settle();
  EXPECT_EQ(world.Condition(condition::kSecretReady)->status, "False");
  EXPECT_EQ(world.status().phase, "Ready") << "what runs has its copy";
  world.broken = {0, 1, 2};
  world.Settle();
  EXPECT_EQ(world.status().phase, "PartialReady") << "and dead runtimes are noticed";
}

TEST(Findings, C23_WaitingIsATimeNotASleep) {
  World world(kThree);
  world.run_pods = false;
  world.Settle();
  const Plan plan = world.Step();
  ASSERT_TRUE(plan.recheck.has_value());
  EXPECT_LE(*plan.recheck, std::chrono::seconds(5));
}

TEST(Findings, C24_AnImportIsStoredBeforeItIsPostedAndKeepsItsName) {
  World world(kThree);
  Plan plan;
  for (int i = 0; i < 20 && !plan.post; ++i) plan = world.Step();
  ASSERT_TRUE(plan.post.has_value());
  EXPECT_TRUE(plan.status_first);
  EXPECT_EQ(plan.status.sync_job_name, plan.post->name);
  World again(kThree);
  again.Settle();
  EXPECT_EQ(again.posts[0].name, world.status().sync_job_name);
}

TEST(Findings, C25_NodesArePatchedNotReplaced) {
  World world(kThree);
  for (int i = 0; i < 20; ++i) {
    const Plan plan = world.Step();
    for (const auto& step : plan.steps) {
      for (const auto& patch : step.patches) {
        if (patch.type != api::Node::kType) continue;
        const auto json = api::Json::parse(patch.json);
        EXPECT_EQ(json.size(), 1u);
        EXPECT_EQ(json["metadata"].size(), 1u);
        EXPECT_EQ(json["metadata"]["labels"].size(), 1u);
      }
    }
  }
  EXPECT_EQ(world.Labels().size(), 3u);
}

TEST(Findings, C26_DeletionWaitsForPaddleJobs) {
  World world(kThree);
  world.Settle();
  api::PaddleJob job;
  job.metadata.name = "train";
  job.status.phase = "Running";
  world.users.push_back(job);
  world.set().metadata.deletion_timestamp = world.now;
  world.Settle();
  EXPECT_FALSE(world.gone);
  EXPECT_TRUE(world.HasStatefulSet());
  EXPECT_NE(world.Condition(condition::kDeletable)->message.find("train"), std::string::npos);
  world.users[0].status.phase = "Completed";
  world.Settle();
  EXPECT_TRUE(world.gone);
  EXPECT_EQ(world.purges, 1);
  EXPECT_TRUE(world.ObjectNames().empty());
  EXPECT_TRUE(world.Labels().empty());
}

TEST(Findings, C29_NothingIsWipedWhenAPodRestarts) {
  World world(kThree);
  world.Settle();
  EXPECT_EQ(PodSpec(world).dump().find("preStop"), std::string::npos);
}

TEST(Findings, C30_ImportsAreForAllPartitions) {
  World world(kThree);
  world.broken.insert(2);
  for (int i = 0; i < 10; ++i) world.Step();
  EXPECT_TRUE(world.posts.empty()) << "the third is on its way";
  world.now += std::chrono::seconds(60);
  world.Settle();
  EXPECT_EQ(world.posts.size(), 1u) << "but it is not waited for without end";
}

TEST(Findings, C31_CallsToRuntimesEndAndTheirClientsAreLimited) {
  std::vector<runtime::ClientOptions> dialled;
  RuntimePool pool(
      [&](const runtime::ClientOptions& options)
          -> Result<std::unique_ptr<runtime::RuntimeClient>> {
        dialled.push_back(options);
        return std::unique_ptr<runtime::RuntimeClient>();
      },
      2);
  RuntimeAccess access{.authority = "ca", .token = Secret("t"), .previous_token = {}};
  for (const char* host : {"10.0.0.1", "10.0.0.1", "fd00::1", "10.0.0.3", "10.0.0.1"})
    ASSERT_TRUE(pool.Find(host, "name", access).has_value());
  ASSERT_EQ(dialled.size(), 4u) << "one is kept, the oldest gives way";
  EXPECT_EQ(dialled[1].address, "[fd00::1]:7716");
  for (const auto& options : dialled) {
    EXPECT_GT(options.timeout.count(), 0);
    EXPECT_LE(options.timeout, std::chrono::seconds(10));
  }
  access.token = Secret("new");
  ASSERT_TRUE(pool.Find("10.0.0.1", "name", access).has_value());
  EXPECT_EQ(dialled.size(), 5u) << "with another token another client";
}

TEST(Findings, C32_FieldsThatAreFixedCannotChange) {
  World world(kThree);
  world.Settle();
  const api::SampleSet before = world.set();
  const auto refused = [&](const std::function<void(api::SampleSetSpec&)>& edit) {
    api::SampleSet after = before;
    edit(after.spec);
    return !api::ValidateUpdate(before, after).empty();
  };
  EXPECT_TRUE(refused([](auto& spec) { spec.secret_ref->name = "other"; }));
  EXPECT_TRUE(refused([](auto& spec) { spec.csi.emplace().driver = "juicefs"; }));
  EXPECT_TRUE(refused([](auto& spec) { spec.cache_levels = {{"SSD", "/x", 1}}; }));
  EXPECT_FALSE(refused([](auto& spec) { spec.partitions = 5; }));
}

TEST(Findings, C33_ChangesAreRolledOut) {
  World world(kThree);
  world.Settle();
  world.Edit([](auto& spec) {
    spec.tolerations.text = R"([{"key":"gpu","operator":"Exists"}])";
    spec.node_affinity.text =
        R"({"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}})";
  });
  world.Settle();
  EXPECT_TRUE(world.Said("RollingOut"));
  const auto patched = PodSpec(world);
  EXPECT_EQ(patched["tolerations"][0]["key"], "gpu");
  EXPECT_TRUE(patched["affinity"].contains("nodeAffinity"));
  EXPECT_TRUE(patched["affinity"].contains("podAntiAffinity"));
  world.Edit([](auto& spec) { spec.node_affinity.text.clear(); });
  world.Settle();
  EXPECT_TRUE(PodSpec(world)["affinity"]["nodeAffinity"].is_null()) << "taken back";
}

TEST(SampleSetSpec, SaysWhichFieldIsWrong) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"secretRef":{"name":"v"},"source":{"uri":"ftp://x/y"}})", "spec.source.uri"},
      {R"({"secretRef":{"name":"v"},"sources":[{"uri":"s3://x/y","path":"../z"}]})",
       "spec.sources[0].path"},
      {R"({"secretRef":{"name":"v"},"sources":[{"uri":"s3://x/y","path":"/z"}]})",
       "spec.sources[0].path"},
      {R"({"secretRef":{"name":"v"},"noSync":true,"warmup":{"file":"../list"}})",
       "spec.warmup.file"},
      {R"({"secretRef":{"name":"v"},"noSync":true,"warmup":{"paths":["a/../b"]}})",
       "spec.warmup.paths[0]"},
      {R"({"secretRef":{"name":"v"},"partitions":0,"noSync":true})", "partitions"},
  };
  for (const auto& [spec, field] : cases) {
    World world(spec);
    world.Settle();
    ASSERT_NE(world.Condition(condition::kAccepted), nullptr) << spec;
    EXPECT_EQ(world.Condition(condition::kAccepted)->status, "False") << spec;
    EXPECT_NE(world.Condition(condition::kAccepted)->message.find(field), std::string::npos)
        << world.Condition(condition::kAccepted)->message;
    EXPECT_TRUE(world.Said("InvalidSpec")) << spec;
    EXPECT_FALSE(world.HasStatefulSet());
  }
}

}  // namespace
}  // namespace paddleop::controllers::sampleset
