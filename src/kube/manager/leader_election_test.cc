#include "kube/manager/leader_election.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/wait_until.h"

namespace paddleop::kube {
namespace {

using paddleop::testing::ManualClock;
using std::chrono::seconds;
using testing::FailingCluster;
using testing::FakeCluster;
using testing::Fault;
using testing::WaitUntil;

class LeaderElectionTest : public ::testing::Test {
 protected:
  LeaderElectionOptions Options(std::string identity) {
    return {.ns = "system", .name = "lease", .identity = std::move(identity)};
  }
  std::string LeaseJson() {
    const auto lease = cluster_.Get(ctx_, kLeases, {"system", "lease"});
    return lease ? lease->json : "";
  }

  const Context ctx_ = Context::Background();
  Logger log_{LogLevel::kOff};
  ManualClock clock_;
  FakeCluster cluster_;
  FailingCluster failing_{cluster_};
};

// Runs Hold() on a thread, as Manager does on its own.
class Holder {
 public:
  explicit Holder(LeaderElector& elector)
      : thread_([this, &elector](std::stop_token stop) {
          ended_ = elector.Hold(Context::Background().WithStop(stop));
          done_ = true;
        }) {}
  bool done() const { return done_; }
  Result<void> Stop() {
    thread_.request_stop();
    thread_.join();
    return ended_;
  }

 private:
  Result<void> ended_;
  std::atomic<bool> done_ = false;
  std::jthread thread_;
};

TEST_F(LeaderElectionTest, TheFirstOneCreatesTheLease) {
  LeaderElector elector(Options("one"), failing_, log_, clock_);
  EXPECT_FALSE(elector.is_leader());
  ASSERT_OK(elector.Acquire(ctx_));
  EXPECT_TRUE(elector.is_leader());
  EXPECT_THAT(LeaseJson(), ::testing::HasSubstr(R"("holderIdentity":"one")"));
  EXPECT_THAT(LeaseJson(), ::testing::HasSubstr(R"("leaseDurationSeconds":15)"));
  EXPECT_THAT(LeaseJson(), ::testing::HasSubstr(R"("renewTime":"2023-11-14T22:13:20.000000Z")"));
}

TEST_F(LeaderElectionTest, TheSecondOneWaitsUntilTheLeaseRunsOut) {
  LeaderElector one(Options("one"), failing_, log_, clock_);
  ASSERT_OK(one.Acquire(ctx_));
  LeaderElector two(Options("two"), failing_, log_, clock_);
  std::jthread waiter([&] { EXPECT_OK(two.Acquire(ctx_)); });
  for (int passed = 0; passed < 14; passed += 2) {
    clock_.WaitForSleepers(1);
    EXPECT_FALSE(two.is_leader());
    clock_.Advance(seconds(2));
  }
  while (!two.is_leader()) {
    clock_.Advance(seconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  waiter.join();
  EXPECT_THAT(LeaseJson(), ::testing::HasSubstr(R"("leaseTransitions":1)"));
  // The first one learns of it at its next renewal.
  Holder holder(one);
  clock_.WaitForSleepers(1);
  clock_.Advance(seconds(2));
  EXPECT_TRUE(WaitUntil([&] { return holder.done(); }));
  EXPECT_FALSE(one.is_leader());
  EXPECT_FALSE(holder.Stop());
}

TEST_F(LeaderElectionTest, RenewingIsOneRequestEach) {
  LeaderElector elector(Options("one"), failing_, log_, clock_);
  ASSERT_OK(elector.Acquire(ctx_));
  const std::size_t before = cluster_.Requests();
  Holder holder(elector);
  for (std::size_t i = 1; i <= 20; ++i) {
    clock_.WaitForSleepers(1);
    clock_.Advance(seconds(2));
    ASSERT_TRUE(WaitUntil([&] { return cluster_.Requests() == before + i; }));
  }
  EXPECT_OK(holder.Stop());
  EXPECT_TRUE(elector.is_leader());
  EXPECT_EQ(cluster_.Requests("patch"), 20u);
}

TEST_F(LeaderElectionTest, AReleasedLeaseIsTakenAtOnce) {
  LeaderElector one(Options("one"), failing_, log_, clock_);
  ASSERT_OK(one.Acquire(ctx_));
  ASSERT_OK(one.Release(ctx_));
  EXPECT_FALSE(one.is_leader());
  EXPECT_THAT(LeaseJson(), ::testing::HasSubstr(R"("holderIdentity":"")"));
  LeaderElector two(Options("two"), failing_, log_, clock_);
  ASSERT_OK(two.Acquire(ctx_));
  EXPECT_TRUE(two.is_leader());
  EXPECT_OK(one.Release(ctx_)) << "releasing what one does not have is nothing";
  EXPECT_THAT(LeaseJson(), ::testing::HasSubstr(R"("holderIdentity":"two")"));
}

TEST_F(LeaderElectionTest, AFewFailedRenewalsAreSurvivedAndManyAreNot) {
  LeaderElector elector(Options("one"), failing_, log_, clock_);
  ASSERT_OK(elector.Acquire(ctx_));
  Holder holder(elector);
  failing_.FailNext("patch", Fault::kServerError, 3);
  for (std::size_t i = 1; i <= 4; ++i) {
    clock_.WaitForSleepers(1);
    clock_.Advance(seconds(2));
    if (i < 4) {
      ASSERT_TRUE(WaitUntil([&] { return failing_.failed() == i; }));
    }
  }
  ASSERT_TRUE(WaitUntil([&] { return cluster_.Requests("patch") == 1; }));
  EXPECT_TRUE(elector.is_leader());
  // The last renewal was at 8 s; at 18 s, five seconds before the lease runs out, it is over.
  failing_.FailNext("*", Fault::kServerError, 100);
  for (std::size_t i = 1; i <= 4; ++i) {
    clock_.WaitForSleepers(1);
    clock_.Advance(seconds(2));
    ASSERT_TRUE(WaitUntil([&] { return failing_.failed() == 3 + i; }));
    EXPECT_TRUE(elector.is_leader());
  }
  clock_.WaitForSleepers(1);
  clock_.Advance(seconds(2));
  ASSERT_TRUE(WaitUntil([&] { return holder.done(); }));
  EXPECT_FALSE(elector.is_leader());
  EXPECT_CODE(holder.Stop(), Code::kUnavailable);
}

TEST_F(LeaderElectionTest, ALostReplyToARenewalDoesNotCostTheLead) {
  LeaderElector elector(Options("one"), failing_, log_, clock_);
  ASSERT_OK(elector.Acquire(ctx_));
  Holder holder(elector);
  failing_.FailNext("patch", Fault::kLostReply);
  for (int i = 0; i < 4; ++i) {
    clock_.WaitForSleepers(1);
    clock_.Advance(seconds(2));
    ASSERT_TRUE(WaitUntil(
        [&] { return cluster_.Requests("patch") + cluster_.Requests("get") > std::size_t(i); }));
  }
  clock_.WaitForSleepers(1);
  EXPECT_TRUE(elector.is_leader());
  EXPECT_OK(holder.Stop());
}

TEST_F(LeaderElectionTest, ADeletedLeaseIsMadeAgain) {
  LeaderElector elector(Options("one"), failing_, log_, clock_);
  ASSERT_OK(elector.Acquire(ctx_));
  ASSERT_OK(cluster_.Delete(ctx_, kLeases, {"system", "lease"}));
  Holder holder(elector);
  for (int i = 0; i < 3; ++i) {
    clock_.WaitForSleepers(1);
    clock_.Advance(seconds(2));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_TRUE(WaitUntil([&] { return !LeaseJson().empty(); }));
  EXPECT_TRUE(elector.is_leader());
  EXPECT_OK(holder.Stop());
}

TEST_F(LeaderElectionTest, OptionsAreChecked) {
  EXPECT_OK(Options("x").Validate());
  LeaderElectionOptions bad = Options("x");
  bad.renew_deadline = bad.lease_duration;
  EXPECT_CODE(bad.Validate(), Code::kInvalid);
  bad = Options("x");
  bad.ns.clear();
  EXPECT_CODE(bad.Validate(), Code::kInvalid);
  EXPECT_FALSE(LeaderElector(Options(""), failing_, log_, clock_).identity().empty());
}

}  // namespace
}  // namespace paddleop::kube
