// What every ClusterClient does, whatever cluster is behind it. Include it in one test file of a
// program and instantiate it with a factory:
//
//   INSTANTIATE_TEST_SUITE_P(Fake, ClusterClientContract, ::testing::Values(+[] { return ...; }));
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/matchers.h"
#include "kube/client/apply.h"
#include "kube/client/cluster_client.h"
#include "kube/testing/objects.h"
#include "kube/testing/wait_until.h"

namespace paddleop::kube::testing {

// A cluster with an empty namespace for one test.
class ContractCluster {
 public:
  virtual ~ContractCluster() = default;
  virtual ClusterClient& client() = 0;
  virtual std::string ns() = 0;
};

using ContractClusterFactory = std::unique_ptr<ContractCluster> (*)();

class ClusterClientContract : public ::testing::TestWithParam<ContractClusterFactory> {
 protected:
  ClusterClientContract()
      : cluster_(GetParam()()), client_(cluster_->client()), ns_(cluster_->ns()) {}

  Result<RawObject> Create(const std::string& json) {
    return client_.Create(ctx_, kConfigMaps, ns_, json);
  }
  ObjectKey Key(const std::string& name) const { return {ns_, name}; }

  std::unique_ptr<ContractCluster> cluster_;
  ClusterClient& client_;
  const std::string ns_;
  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(60));
};

TEST_P(ClusterClientContract, AnObjectComesBackAsItWasCreated) {
  const auto made =
      Create(ConfigMapJson("a", "v", R"("labels":{"x":"y"},"annotations":{"u/n":"kept"})"));
  ASSERT_OK(made);
  EXPECT_EQ(made->name, "a");
  EXPECT_EQ(made->ns, ns_);
  EXPECT_EQ(made->kind, "ConfigMap");
  EXPECT_FALSE(made->uid.empty());
  EXPECT_EQ(made->Label("x"), "y");
  const auto got = client_.Get(ctx_, kConfigMaps, Key("a"));
  ASSERT_OK(got);
  EXPECT_EQ(got->uid, made->uid);
  EXPECT_EQ(got->resource_version, made->resource_version);
  EXPECT_THAT(got->json, ::testing::HasSubstr(R"("u/n":"kept")"));
  EXPECT_THAT(got->json, ::testing::Not(::testing::HasSubstr("managedFields")));
}

TEST_P(ClusterClientContract, MissingAndDuplicateHaveTheirCodes) {
  EXPECT_CODE(client_.Get(ctx_, kConfigMaps, Key("none")), Code::kNotFound);
  EXPECT_CODE(client_.Delete(ctx_, kConfigMaps, Key("none")), Code::kNotFound);
  EXPECT_CODE(client_.Patch(ctx_, kConfigMaps, Key("none"), MergePatch("{}")), Code::kNotFound);
  ASSERT_OK(Create(ConfigMapJson("a")));
  EXPECT_CODE(Create(ConfigMapJson("a")), Code::kAlreadyExists);
  EXPECT_CODE(Create("{"), Code::kInvalid);
  EXPECT_CODE(Create(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{}})"), Code::kInvalid);
}

TEST_P(ClusterClientContract, AGeneratedNameIsUnique) {
  const char json[] = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"g-"}})";
  const auto one = Create(json), two = Create(json);
  ASSERT_OK(one);
  ASSERT_OK(two);
  EXPECT_TRUE(one->name.starts_with("g-"));
  EXPECT_NE(one->name, two->name);
}

TEST_P(ClusterClientContract, AMergePatchLeavesTheRestAlone) {
  ASSERT_OK(Create(ConfigMapJson("a", "v", R"("annotations":{"one":"1"})")));
  const auto patched = client_.Patch(
      ctx_, kConfigMaps, Key("a"),
      MergePatch(R"({"metadata":{"annotations":{"two":"2"}},"data":{"k":null,"l":"w"}})"));
  ASSERT_OK(patched);
  EXPECT_THAT(patched->json, ::testing::HasSubstr(R"("one":"1")"));
  EXPECT_THAT(patched->json, ::testing::HasSubstr(R"("two":"2")"));
  EXPECT_THAT(patched->json, ::testing::HasSubstr(R"("data":{"l":"w"})"));
}

TEST_P(ClusterClientContract, PreconditionsOfPatchesAreConflicts) {
  const auto made = Create(ConfigMapJson("a"));
  ASSERT_OK(made);
  const auto change = [](const Preconditions& expected) {
    return MergePatch(R"({"data":{"k":"2"}})", "", expected);
  };
  EXPECT_CODE(client_.Patch(ctx_, kConfigMaps, Key("a"), change({.uid = "other"})),
              Code::kConflict);
  const auto patched =
      client_.Patch(ctx_, kConfigMaps, Key("a"),
                    change({.uid = made->uid, .resource_version = made->resource_version}));
  ASSERT_OK(patched);
  EXPECT_NE(patched->resource_version, made->resource_version);
  EXPECT_CODE(client_.Patch(ctx_, kConfigMaps, Key("a"),
                            MergePatch(R"({"data":{"k":"3"}})", "",
                                       {.resource_version = made->resource_version})),
              Code::kConflict);
}

TEST_P(ClusterClientContract, AJsonPatchHoldsOrNothingOfItDoes) {
  const auto made = Create(ConfigMapJson("a"));
  ASSERT_OK(made);
  const auto refused =
      client_.Patch(ctx_, kConfigMaps, Key("a"),
                    JsonPatch().Replace("/data/k", R"("9")").Test("/data/k", R"("7")").Build());
  EXPECT_CODE(refused, Code::kConflict);
  ObjectPatch patch = JsonPatch().Test("/data/k", R"("1")").Add("/data/l", R"("2")").Build();
  patch.preconditions = {.uid = made->uid, .resource_version = made->resource_version};
  const auto patched = client_.Patch(ctx_, kConfigMaps, Key("a"), patch);
  ASSERT_OK(patched);
  EXPECT_THAT(patched->json, ::testing::HasSubstr(R"("data":{"k":"1","l":"2"})"));
  // The same again: the version is another by now.
  EXPECT_CODE(client_.Patch(ctx_, kConfigMaps, Key("a"), patch), Code::kConflict);
  EXPECT_CODE(
      client_.Patch(ctx_, kConfigMaps, Key("a"), JsonPatch().Remove("/data/none/x").Build()),
      Code::kInvalid);
}

TEST_P(ClusterClientContract, AnUpdateNeedsTheLatestVersion) {
  const auto made = Create(ConfigMapJson("a"));
  ASSERT_OK(made);
  std::string json = made->json;
  const std::size_t at = json.find(R"("k":"1")");
  ASSERT_NE(at, std::string::npos);
  json.replace(at, 7, R"("k":"2")");
  const auto updated = client_.Update(ctx_, kConfigMaps, Key("a"), json);
  ASSERT_OK(updated);
  EXPECT_NE(updated->resource_version, made->resource_version);
  EXPECT_CODE(client_.Update(ctx_, kConfigMaps, Key("a"), json), Code::kConflict);
}

TEST_P(ClusterClientContract, APatchThatChangesNothingMakesNoVersion) {
  const auto made = Create(ConfigMapJson("a"));
  ASSERT_OK(made);
  const auto patched =
      client_.Patch(ctx_, kConfigMaps, Key("a"), MergePatch(R"({"data":{"k":"1"}})"));
  ASSERT_OK(patched);
  EXPECT_EQ(patched->resource_version, made->resource_version);
}

TEST_P(ClusterClientContract, SpecAndStatusAreWrittenApart) {
  const auto made = client_.Create(ctx_, kStatefulSets, ns_, StatefulSetJson("s", 1));
  ASSERT_OK(made);
  EXPECT_EQ(made->generation, 1);
  const auto status =
      client_.Patch(ctx_, kStatefulSets, Key("s"),
                    MergePatch(R"({"spec":{"replicas":9},"status":{"replicas":4}})", "status"));
  ASSERT_OK(status);
  EXPECT_THAT(status->json, ::testing::HasSubstr(R"("replicas":4)"));
  EXPECT_THAT(status->json, ::testing::Not(::testing::HasSubstr(R"("replicas":9)")));
  EXPECT_EQ(status->generation, 1) << "a status is not a wish";
  const auto spec = client_.Patch(ctx_, kStatefulSets, Key("s"),
                                  MergePatch(R"({"spec":{"replicas":2},"status":{"replicas":7}})"));
  ASSERT_OK(spec);
  EXPECT_THAT(spec->json, ::testing::HasSubstr(R"("replicas":4)"));
  EXPECT_EQ(spec->generation, 2);
}

TEST_P(ClusterClientContract, PatchStatusSendsDifferencesOnly) {
  ASSERT_OK(client_.Create(ctx_, kStatefulSets, ns_, StatefulSetJson("s", 1)));
  const ObjectKey key = Key("s");
  auto sent =
      PatchStatus(ctx_, client_, kStatefulSets, key, "{}", R"({"replicas":3,"readyReplicas":1})");
  ASSERT_OK(sent);
  EXPECT_TRUE(sent->has_value());
  sent = PatchStatus(ctx_, client_, kStatefulSets, key, R"({"readyReplicas":1})",
                     R"({"readyReplicas":2})");
  ASSERT_OK(sent);
  const auto got = client_.Get(ctx_, kStatefulSets, key);
  ASSERT_OK(got);
  EXPECT_THAT(got->json, ::testing::HasSubstr(R"("readyReplicas":2)"));
  EXPECT_THAT(got->json, ::testing::HasSubstr(R"("replicas":3)"));
  sent = PatchStatus(ctx_, client_, kStatefulSets, key, R"({"replicas":3})", R"({"replicas":3})");
  ASSERT_OK(sent);
  EXPECT_FALSE(sent->has_value());
}

TEST_P(ClusterClientContract, PagesAreWholeAndInOrder) {
  for (int i = 0; i < 7; ++i)
    ASSERT_OK(Create(ConfigMapJson(fmt::format("p{}", i), "1", R"("labels":{"page":"yes"})")));
  ASSERT_OK(Create(ConfigMapJson("other")));
  std::vector<std::string> names;
  int pages = 0;
  ListOptions options{.label_selector = "page=yes", .field_selector = {}, .limit = 3};
  std::string version;
  for (;;) {
    auto page = client_.List(ctx_, kConfigMaps, ns_, options);
    ASSERT_OK(page);
    ++pages;
    for (const RawObject& object : page->items) names.push_back(object.name);
    if (pages == 1) version = page->resource_version;
    EXPECT_EQ(page->resource_version, version);
    if (page->continue_token.empty()) break;
    options.continue_token = page->continue_token;
  }
  EXPECT_EQ(pages, 3);
  EXPECT_THAT(names, ::testing::ElementsAre("p0", "p1", "p2", "p3", "p4", "p5", "p6"));
  std::size_t seen = 0;
  ASSERT_OK(ListAll(ctx_, client_, kConfigMaps, ns_, {.label_selector = "page=yes", .limit = 2},
                    [&](const RawObject& object) -> Result<void> {
                      EXPECT_EQ(object.kind, "ConfigMap");
                      ++seen;
                      return {};
                    }));
  EXPECT_EQ(seen, 7u);
}

TEST_P(ClusterClientContract, SelectorsChoose) {
  ASSERT_OK(Create(ConfigMapJson("a", "1", R"("labels":{"c":"red","s":"x"})")));
  ASSERT_OK(Create(ConfigMapJson("b", "1", R"("labels":{"c":"blue"})")));
  const auto names = [&](const char* labels, const char* fields) {
    std::vector<std::string> out;
    auto page =
        client_.List(ctx_, kConfigMaps, ns_, {.label_selector = labels, .field_selector = fields});
    EXPECT_OK(page);
    for (const RawObject& object : page->items) {
      if (object.name != "kube-root-ca.crt") out.push_back(object.name);
    }
    return out;
  };
  EXPECT_THAT(names("c=red", ""), ::testing::ElementsAre("a"));
  EXPECT_THAT(names("c in (red,blue),!s", ""), ::testing::ElementsAre("b"));
  EXPECT_THAT(names("", "metadata.name=b"), ::testing::ElementsAre("b"));
  EXPECT_THAT(names("c=green", ""), ::testing::IsEmpty());
}

TEST_P(ClusterClientContract, DeletionsHavePreconditions) {
  const auto made = Create(ConfigMapJson("a"));
  ASSERT_OK(made);
  EXPECT_CODE(client_.Delete(ctx_, kConfigMaps, Key("a"), {.preconditions = {.uid = "other"}}),
              Code::kConflict);
  EXPECT_OK(client_.Delete(ctx_, kConfigMaps, Key("a"), {.preconditions = {.uid = made->uid}}));
  EXPECT_CODE(client_.Get(ctx_, kConfigMaps, Key("a")), Code::kNotFound);
}

TEST_P(ClusterClientContract, AFinalizerHoldsAnObjectUntilItIsRemoved) {
  const auto made = Create(ConfigMapJson("a", "1", R"("finalizers":["example.org/first"])"));
  ASSERT_OK(made);
  auto held = AddFinalizer(ctx_, client_, kConfigMaps, *made, "example.org/second");
  ASSERT_OK(held);
  EXPECT_EQ(held->finalizers.size(), 2u);
  EXPECT_CODE(AddFinalizer(ctx_, client_, kConfigMaps, *made, "example.org/third"),
              Code::kConflict);
  ASSERT_OK(client_.Delete(ctx_, kConfigMaps, Key("a")));
  auto deleting = client_.Get(ctx_, kConfigMaps, Key("a"));
  ASSERT_OK(deleting);
  EXPECT_TRUE(deleting->deleting);
  // The second one moves up when the first goes; it is found all the same, even from an old read.
  ASSERT_OK(RemoveFinalizer(ctx_, client_, kConfigMaps, *held, "example.org/first"));
  ASSERT_OK(RemoveFinalizer(ctx_, client_, kConfigMaps, *held, "example.org/second"));
  EXPECT_CODE(client_.Get(ctx_, kConfigMaps, Key("a")), Code::kNotFound);
  EXPECT_OK(RemoveFinalizer(ctx_, client_, kConfigMaps, *held, "example.org/second"));
}

// Runs a watch in a thread and keeps what it saw.
class WatchedEvents {
 public:
  WatchedEvents(ClusterClient& client, const std::string& ns, const WatchOptions& options)
      : thread_([this, &client, ns, options](const std::stop_token& stop) {
          ended_ = client.Watch(Context::Background().WithStop(stop), kConfigMaps, ns, options,
                                [this](WatchEvent event) -> Result<void> {
                                  std::lock_guard lock(mutex_);
                                  events_.push_back(std::move(event));
                                  return {};
                                });
          done_ = true;
        }) {}

  std::vector<std::string> Seen() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> out;
    for (const WatchEvent& event : events_) {
      const char* const names[] = {"added", "modified", "deleted", "bookmark"};
      if (event.type != WatchEventType::kBookmark)
        out.push_back(fmt::format("{} {}", names[static_cast<int>(event.type)], event.object.name));
    }
    return out;
  }
  bool Sees(std::size_t count) {
    return WaitUntil([&] { return Seen().size() >= count; });
  }
  Result<void> Stop() {
    thread_.request_stop();
    thread_.join();
    return ended_;
  }
  bool done() const { return done_; }
  std::vector<WatchEvent> events() {
    std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  std::mutex mutex_;
  std::vector<WatchEvent> events_;
  Result<void> ended_;
  std::atomic<bool> done_ = false;
  std::jthread thread_;
};

TEST_P(ClusterClientContract, AWatchTellsEverythingAfterItsVersion) {
  const auto before = Create(ConfigMapJson("before"));
  ASSERT_OK(before);
  WatchedEvents watch(client_, ns_,
                      {.field_selector = {}, .resource_version = before->resource_version});
  ASSERT_OK(Create(ConfigMapJson("a")));
  ASSERT_OK(client_.Patch(ctx_, kConfigMaps, Key("a"), MergePatch(R"({"data":{"k":"2"}})")));
  ASSERT_OK(client_.Delete(ctx_, kConfigMaps, Key("a")));
  ASSERT_TRUE(watch.Sees(3));
  EXPECT_THAT(watch.Seen(), ::testing::ElementsAre("added a", "modified a", "deleted a"));
  const auto events = watch.events();
  EXPECT_TRUE(LaterVersion(events[2].object.resource_version, events[1].object.resource_version))
      << "a deletion has a version of its own";
  EXPECT_CODE(watch.Stop(), Code::kCancelled);
}

TEST_P(ClusterClientContract, AWatchResumesWithoutAGap) {
  const auto first = Create(ConfigMapJson("a"));
  ASSERT_OK(first);
  const auto second = Create(ConfigMapJson("b"));
  ASSERT_OK(second);
  ASSERT_OK(Create(ConfigMapJson("c")));
  WatchedEvents watch(client_, ns_, {.resource_version = second->resource_version});
  ASSERT_TRUE(watch.Sees(1));
  EXPECT_THAT(watch.Seen(), ::testing::ElementsAre("added c"));
}

TEST_P(ClusterClientContract, ASelectedWatchTellsWhoComesAndGoes) {
  const auto before = Create(ConfigMapJson("before"));
  ASSERT_OK(before);
  WatchedEvents watch(client_, ns_,
                      {.label_selector = "on=yes", .resource_version = before->resource_version});
  ASSERT_OK(Create(ConfigMapJson("a")));
  ASSERT_OK(client_.Patch(ctx_, kConfigMaps, Key("a"),
                          MergePatch(R"({"metadata":{"labels":{"on":"yes"}}})")));
  ASSERT_OK(client_.Patch(ctx_, kConfigMaps, Key("a"),
                          MergePatch(R"({"metadata":{"labels":{"on":"no"}}})")));
  ASSERT_TRUE(watch.Sees(2));
  EXPECT_THAT(watch.Seen(), ::testing::ElementsAre("added a", "deleted a"));
}

TEST_P(ClusterClientContract, AWatchEndsWhenItsTimeIsUp) {
  const auto before = Create(ConfigMapJson("before"));
  ASSERT_OK(before);
  WatchedEvents watch(
      client_, ns_,
      {.resource_version = before->resource_version, .timeout = std::chrono::seconds(1)});
  EXPECT_TRUE(WaitUntil([&] { return watch.done(); }));
  EXPECT_OK(watch.Stop());
}

TEST_P(ClusterClientContract, AStoppedCallerIsAnsweredAtOnce) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_CODE(client_.Get(ctx_.WithStop(stop.get_token()), kConfigMaps, Key("a")),
              Code::kCancelled);
}

}  // namespace paddleop::kube::testing
