#include "kube/cache/informer.h"

#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <random>

#include "base/testing/matchers.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/objects.h"
#include "kube/testing/wait_until.h"

namespace paddleop::kube {
namespace {

using testing::ConfigMapJson;
using ::testing::ElementsAre;
using testing::FailingCluster;
using testing::FakeCluster;
using testing::Fault;
using testing::WaitUntil;

// What a controller would keep of a ConfigMap.
struct Small {
  std::string value;
};

Result<Small> DecodeSmall(std::string_view json) {
  constexpr std::string_view kBefore = R"("k":")";
  const std::size_t at = json.find(kBefore);
  if (at == std::string_view::npos) return Fail(Code::kInvalid, "no data.k");
  const std::string_view rest = json.substr(at + kBefore.size());
  return Small{std::string(rest.substr(0, rest.find('"')))};
}

class InformerTest : public ::testing::Test {
 protected:
  InformerTest() { Reset({.resource = kConfigMaps}); }

  void Reset(InformerOptions options) {
    options.backoff = {.initial = std::chrono::milliseconds(2),
                       .maximum = std::chrono::milliseconds(20)};
    informer_ = std::make_unique<Informer<Small>>(options, DecodeSmall, failing_, log_, metrics_);
    informer_->AddIndex("colour", LabelValue("colour"));
    informer_->AddIndex("owner", OwnerUids);
    informer_->AddHandler([this](const Change<Small>& change) {
      std::lock_guard lock(mutex_);
      changes_.push_back((change.before ? change.before->value : "-") + ">" +
                         (change.after ? change.after->value : "-") + " " + change.key.name);
    });
  }
  void StartAndSync() {
    informer_->Start();
    ASSERT_OK(informer_->WaitForSync(ctx_.WithTimeout(std::chrono::seconds(20))));
  }
  std::vector<std::string> changes() {
    std::lock_guard lock(mutex_);
    return changes_;
  }
  std::string ValueOf(const std::string& name) {
    const auto object = informer_->Get({"n", name});
    return object ? object->value : "";
  }
  Result<RawObject> Create(const std::string& name, const std::string& value,
                           const std::string& metadata = "") {
    return cluster_.Create(ctx_, kConfigMaps, "n", ConfigMapJson(name, value, metadata));
  }
  Result<RawObject> Set(const std::string& name, const std::string& value) {
    return cluster_.Patch(ctx_, kConfigMaps, {"n", name},
                          MergePatch(fmt::format(R"({{"data":{{"k":"{}"}}}})", value)));
  }
  double Metric(const char* name) {
    return metrics_.AddCounter(name, "", {{"resource", "configmaps"}}).Value();
  }

  const Context ctx_ = Context::Background();
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  FakeCluster cluster_;
  FailingCluster failing_{cluster_};
  std::mutex mutex_;
  std::vector<std::string> changes_;
  std::unique_ptr<Informer<Small>> informer_;
};

TEST_F(InformerTest, FollowsTheCluster) {
  ASSERT_OK(Create("a", "1"));
  EXPECT_FALSE(informer_->HasSynced());
  StartAndSync();
  EXPECT_EQ(ValueOf("a"), "1");
  ASSERT_OK(Set("a", "2"));
  ASSERT_TRUE(WaitUntil([&] { return ValueOf("a") == "2"; }));
  ASSERT_OK(Create("b", "3"));
  ASSERT_OK(cluster_.Delete(ctx_, kConfigMaps, {"n", "a"}));
  ASSERT_TRUE(WaitUntil([&] { return changes().size() == 4; }));
  EXPECT_THAT(changes(), ElementsAre("->1 a", "1>2 a", "->3 b", "2>- a"));
  EXPECT_EQ(informer_->Get({"n", "a"}), nullptr);
  EXPECT_EQ(informer_->size(), 1u);
}

TEST_F(InformerTest, FindsByLabelAndOwner) {
  ASSERT_OK(Create("a", "1", R"("labels":{"colour":"red"})"));
  ASSERT_OK(Create("b", "2", R"("labels":{"colour":"red"},"ownerReferences":[{"uid":"o"}])"));
  ASSERT_OK(Create("c", "3", R"("labels":{"colour":"blue"})"));
  StartAndSync();
  EXPECT_EQ(informer_->ByIndex("colour", "red").size(), 2u);
  ASSERT_EQ(informer_->ByIndex("owner", "o").size(), 1u);
  EXPECT_EQ(informer_->ByIndex("owner", "o")[0]->value, "2");
  EXPECT_TRUE(informer_->ByIndex("colour", "green").empty());
}

TEST_F(InformerTest, ReadsListsInPages) {
  for (int i = 0; i < 25; ++i) ASSERT_OK(Create(fmt::format("p{:02}", i), "1"));
  Reset({.resource = kConfigMaps, .page_size = 10});
  StartAndSync();
  EXPECT_EQ(informer_->size(), 25u);
  EXPECT_EQ(cluster_.Requests("list"), 3u);
}

TEST_F(InformerTest, ATokenThatExpiresBetweenPagesStartsTheListAfresh) {
  for (int i = 0; i < 25; ++i) ASSERT_OK(Create(fmt::format("p{:02}", i), "1"));
  Reset({.resource = kConfigMaps, .page_size = 10});
  failing_.FailNext("list", Fault::kServerError);
  failing_.FailNext("list", Fault::kExpired);
  StartAndSync();
  EXPECT_EQ(informer_->size(), 25u);
}

TEST_F(InformerTest, ADroppedWatchIsResumedWithoutAList) {
  ASSERT_OK(Create("a", "1"));
  StartAndSync();
  for (int i = 2; i < 6; ++i) {
    ASSERT_TRUE(WaitUntil([&] { return cluster_.open_watches() == 1; }));
    cluster_.DropWatches();
    ASSERT_OK(Set("a", std::to_string(i)));
    ASSERT_TRUE(WaitUntil([&] { return ValueOf("a") == std::to_string(i); }));
  }
  EXPECT_EQ(cluster_.Requests("list"), 1u);
  EXPECT_THAT(changes(), ElementsAre("->1 a", "1>2 a", "2>3 a", "3>4 a", "4>5 a"));
}

TEST_F(InformerTest, AnExpiredVersionIsListedAgainAndNothingIsMissed) {
  ASSERT_OK(Create("a", "1"));
  ASSERT_OK(Create("b", "1"));
  StartAndSync();
  ASSERT_TRUE(WaitUntil([&] { return cluster_.open_watches() == 1; }));
  failing_.FailNext("watch", Fault::kServerError, 1);
  cluster_.DropWatches();
  ASSERT_OK(Set("a", "2"));
  ASSERT_OK(cluster_.Delete(ctx_, kConfigMaps, {"n", "b"}));
  ASSERT_OK(Create("c", "1"));
  cluster_.Compact();
  ASSERT_TRUE(WaitUntil([&] { return informer_->Get({"n", "c"}) && !informer_->Get({"n", "b"}); }));
  EXPECT_EQ(ValueOf("a"), "2");
}

TEST_F(InformerTest, BookmarksKeepAQuietWatchFromExpiring) {
  StartAndSync();
  ASSERT_TRUE(WaitUntil([&] { return cluster_.open_watches() == 1; }));
  // Others are busy, and the history is cut; a bookmark has told us how far we are.
  ASSERT_OK(cluster_.Create(ctx_, kPods, "n", testing::PodJson("p")));
  cluster_.Compact();
  cluster_.SendBookmarks();
  ASSERT_OK(Create("a", "1"));
  ASSERT_TRUE(WaitUntil([&] { return ValueOf("a") == "1"; }));
  cluster_.DropWatches();
  ASSERT_OK(Set("a", "2"));
  ASSERT_TRUE(WaitUntil([&] { return ValueOf("a") == "2"; }));
  EXPECT_EQ(cluster_.Requests("list"), 1u);
}

TEST_F(InformerTest, OwnWritesAreThereAtOnce) {
  StartAndSync();
  const auto made = Create("a", "1");
  ASSERT_OK(made);
  informer_->Learn(*made);
  EXPECT_EQ(ValueOf("a"), "1");
  const auto changed = Set("a", "2");
  ASSERT_OK(changed);
  informer_->Learn(*changed);
  EXPECT_EQ(ValueOf("a"), "2");
  ASSERT_OK(Create("z", "9"));  // when this one is through the watch, the others are
  ASSERT_TRUE(WaitUntil([&] { return ValueOf("z") == "9"; }));
  informer_->Learn(*made);
  EXPECT_EQ(ValueOf("a"), "2") << "an old answer changes nothing";
}

TEST_F(InformerTest, LearnsOnlyWhatItWouldBeTold) {
  Reset({.resource = kConfigMaps, .ns = "n", .label_selector = "colour=red"});
  StartAndSync();
  const auto red = Create("a", "1", R"("labels":{"colour":"red"})");
  const auto blue = Create("b", "1", R"("labels":{"colour":"blue"})");
  const auto elsewhere = cluster_.Create(ctx_, kConfigMaps, "m",
                                         ConfigMapJson("c", "1", R"("labels":{"colour":"red"})"));
  for (const auto* made : {&red, &blue, &elsewhere}) {
    ASSERT_OK(*made);
    informer_->Learn(**made);
  }
  EXPECT_EQ(informer_->size(), 1u);
}

TEST_F(InformerTest, WhatCannotBeDecodedIsToldAndLeftOut) {
  std::vector<std::string> told;
  informer_->OnUndecodable([&](const RawObject& raw, const Status& why) {
    std::lock_guard lock(mutex_);
    told.push_back(raw.name + ": " + why.message());
  });
  ASSERT_OK(Create("a", "1"));
  ASSERT_OK(cluster_.Create(ctx_, kConfigMaps, "n",
                            R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad"}})"));
  StartAndSync();
  EXPECT_EQ(informer_->size(), 1u);
  {
    std::lock_guard lock(mutex_);
    EXPECT_THAT(told, ElementsAre("bad: no data.k"));
  }
  // One that turns bad is gone, and comes back when it is good again.
  ASSERT_OK(cluster_.Patch(ctx_, kConfigMaps, {"n", "a"}, MergePatch(R"({"data":null})")));
  ASSERT_TRUE(WaitUntil([&] { return informer_->size() == 0; }));
  ASSERT_OK(Set("a", "7"));
  ASSERT_TRUE(WaitUntil([&] { return ValueOf("a") == "7"; }));
}

TEST_F(InformerTest, MakesNoRequestsWhenNothingChanges) {
  for (int i = 0; i < 5; ++i) ASSERT_OK(Create(fmt::format("a{}", i), "1"));
  StartAndSync();
  ASSERT_TRUE(WaitUntil([&] { return cluster_.open_watches() == 1; }));
  const std::size_t before = cluster_.Requests();
  cluster_.SendBookmarks();
  ASSERT_OK(Create("z", "1"));
  ASSERT_TRUE(WaitUntil([&] { return ValueOf("z") == "1"; }));
  EXPECT_EQ(cluster_.Requests(), before + 1) << "only the creation";
  EXPECT_EQ(cluster_.Requests("watch"), 1u);
}

TEST_F(InformerTest, ResyncTellsEverythingAgain) {
  ASSERT_OK(Create("a", "1"));
  Reset({.resource = kConfigMaps, .resync = std::chrono::seconds(1)});
  StartAndSync();
  ASSERT_TRUE(WaitUntil([&] { return changes().size() >= 2; }));
  EXPECT_THAT(changes(), ElementsAre("->1 a", "1>1 a"));
}

TEST_F(InformerTest, StopsAtOnce) {
  StartAndSync();
  informer_->Stop();
  EXPECT_EQ(cluster_.open_watches(), 0u);
  Reset({.resource = kConfigMaps});
  failing_.FailRandomly(1, 1.0);
  informer_->Start();
  EXPECT_CODE(informer_->WaitForSync(ctx_.WithTimeout(std::chrono::milliseconds(30))),
              Code::kDeadline);
  informer_->Stop();
}

// Whatever fails on the way, in the end the store is what the cluster is.
TEST_F(InformerTest, ConvergesThroughFaults) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::minstd_rand random(seed);
  Reset({.resource = kConfigMaps, .page_size = 3});
  failing_.FailRandomly(seed, 0.3);
  informer_->Start();
  for (int i = 0; i < 400; ++i) {
    const std::string name = fmt::format("o{}", random() % 12);
    switch (random() % 5) {
      case 0:
        (void)cluster_.Delete(ctx_, kConfigMaps, {"n", name});
        break;
      case 1:
        cluster_.DropWatches();
        break;
      case 2:
        if (random() % 4 == 0) cluster_.Compact();
        break;
      default: {
        auto made = Create(name, std::to_string(i));
        if (!made) made = Set(name, std::to_string(i));
        if (made && random() % 2 == 0) informer_->Learn(*made);
      }
    }
    if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  failing_.FailRandomly(0, 0);
  std::map<std::string, std::string> wanted;
  ASSERT_OK(
      ListAll(ctx_, cluster_, kConfigMaps, "n", {}, [&](const RawObject& raw) -> Result<void> {
        ASSIGN_OR_RETURN(const Small small, DecodeSmall(raw.json));
        wanted[raw.name] = small.value;
        return {};
      }));
  EXPECT_TRUE(WaitUntil([&] {
    if (informer_->size() != wanted.size()) return false;
    for (const auto& [name, value] : wanted) {
      if (ValueOf(name) != value) return false;
    }
    return true;
  }));
  // Handlers were told every state there was, in the end the last one.
  std::map<std::string, std::string> told;
  for (const std::string& change : changes()) {
    const std::size_t arrow = change.find('>'), space = change.find(' ');
    told[change.substr(space + 1)] = change.substr(arrow + 1, space - arrow - 1);
  }
  for (const auto& [name, value] : wanted) EXPECT_TRUE(told.contains(name)) << name;
}

}  // namespace
}  // namespace paddleop::kube
