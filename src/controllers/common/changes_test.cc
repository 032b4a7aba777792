#include "controllers/common/changes.h"

#include <gtest/gtest.h>

#include <set>

#include "api/core/objects.h"
#include "base/mutex.h"
#include "base/testing/matchers.h"
#include "kube/testing/fake_cluster.h"

namespace paddleop::controllers {
namespace {

class ChangesTest : public ::testing::Test {
 protected:
  CreateObject Map(const std::string& name, const std::string& owner) {
    return {api::ConfigMap::kType,
            {"n", name},
            R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name +
                R"(","labels":{"owner":")" + owner + R"("}}})"};
  }

  kube::testing::FakeCluster cluster_;
  ThreadPool pool_{{.name = "changes", .threads = 2}};
  Mutex mutex_;
  std::set<std::string> learned_;
  ChangeApplier applier_{cluster_, pool_,
                         [this](const api::ResourceType&, const kube::RawObject& raw) {
                           MutexLock lock(mutex_);
                           learned_.insert(raw.name);
                         }};
  const Context ctx_ = Context::Background();
};

TEST_F(ChangesTest, WritesWhatIsWantedAndLearnsTheAnswers) {
  ChangeStep first;
  for (const char* name : {"a", "b", "c"}) first.creates.push_back(Map(name, "u"));
  ChangeStep second;
  second.patches.push_back({api::ConfigMap::kType, {"n", "a"}, R"({"data":{"k":"v"}})", ""});
  second.deletes.push_back({api::ConfigMap::kType, {"n", "b"}, "", false});
  second.deletes.push_back({api::ConfigMap::kType, {"n", "gone"}, "", false});
  ASSERT_OK(applier_.Apply(ctx_, OwnerByLabel("this set", "owner", "u"), {first, second}));
  EXPECT_EQ(learned_, (std::set<std::string>{"a", "b", "c"}));
  EXPECT_EQ(cluster_.size(api::ConfigMap::kType), 2u);
}

TEST_F(ChangesTest, C8_AnObjectOfSomebodyElseIsRefusedNotUsed) {
  ASSERT_OK(cluster_.Create(ctx_, api::ConfigMap::kType, "n", Map("a", "other").json));
  ChangeStep step;
  step.creates.push_back(Map("a", "u"));
  EXPECT_CODE(applier_.Apply(ctx_, OwnerByLabel("this set", "owner", "u"), {step}),
              Code::kAlreadyExists);
  EXPECT_TRUE(learned_.empty());
  EXPECT_OK(applier_.Apply(ctx_, OwnerByLabel("this set", "owner", "other"), {step}))
      << "our own is an answer";
}

}  // namespace
}  // namespace paddleop::controllers
