#include "kube/manager/events.h"

#include <gmock/gmock.h>

#include "base/testing/matchers.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/wait_until.h"

namespace paddleop::kube {
namespace {

using testing::FailingCluster;
using testing::FakeCluster;
using testing::Fault;
using ::testing::HasSubstr;

class EventsTest : public ::testing::Test {
 protected:
  EventRecorderOptions Options() {
    return {.component = "test-controller", .instance = "host", .queue_limit = 5, .burst = 50};
  }
  std::vector<RawObject> Written(const std::string& ns = "n") {
    auto page = cluster_.List(ctx_, kEvents, ns, {});
    EXPECT_OK(page);
    return page->items;
  }
  Result<void> Flush(EventRecorder& events) {
    return events.Flush(ctx_.WithTimeout(std::chrono::seconds(20)));
  }
  double Dropped() {
    return metrics_
        .AddCounter("paddleop_kube_events_dropped_total", "", {{"component", "test-controller"}})
        .Value();
  }

  const Context ctx_ = Context::Background();
  const ObjectReference about_ = ReferenceTo(kPods, {"n", "a"}, "u-1");
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  FakeCluster cluster_;
  FailingCluster failing_{cluster_};
};

TEST_F(EventsTest, AnEventSaysWhatKubectlShows) {
  EventRecorder events(Options(), failing_, log_, metrics_);
  events.Record(about_, EventType::kWarning, "Failed", "no \"room\"");
  ASSERT_OK(Flush(events));
  const auto written = Written();
  ASSERT_EQ(written.size(), 1u);
  EXPECT_TRUE(written[0].name.starts_with("a."));
  for (const char* part :
       {R"("type":"Warning")", R"("reason":"Failed")", R"("message":"no \"room\"")", R"("count":1)",
        R"("kind":"Pod")", R"("uid":"u-1")", R"("component":"test-controller")",
        R"("reportingInstance":"host")"})
    EXPECT_THAT(written[0].json, HasSubstr(part));
}

TEST_F(EventsTest, TheSameAgainIsCounted) {
  EventRecorder events(Options(), failing_, log_, metrics_);
  for (int i = 0; i < 3; ++i) {
    events.Record(about_, EventType::kNormal, "Created", "pod b");
    ASSERT_OK(Flush(events));
  }
  events.Record(about_, EventType::kNormal, "Created", "pod c");
  ASSERT_OK(Flush(events));
  const auto written = Written();
  ASSERT_EQ(written.size(), 2u);
  EXPECT_THAT(written[0].json + written[1].json, HasSubstr(R"("count":3)"));
  EXPECT_EQ(cluster_.Requests("patch", &kEvents), 2u);
}

TEST_F(EventsTest, AnEventThatTheServerForgotIsMadeAgain) {
  EventRecorder events(Options(), failing_, log_, metrics_);
  events.Record(about_, EventType::kNormal, "Created", "pod b");
  ASSERT_OK(Flush(events));
  ASSERT_OK(cluster_.Delete(ctx_, kEvents, {"n", Written().at(0).name}));
  events.Record(about_, EventType::kNormal, "Created", "pod b");
  ASSERT_OK(Flush(events));
  EXPECT_EQ(Written().size(), 1u);
}

TEST_F(EventsTest, RecordingNeverBlocksAndTheQueueHasALimit) {
  failing_.FailRandomly(1, 1.0);
  EventRecorderOptions options = Options();
  options.flush_timeout = std::chrono::milliseconds(10);
  EventRecorder events(options, failing_, log_, metrics_);
  for (int i = 0; i < 40; ++i)
    events.Record(about_, EventType::kNormal, "Created", fmt::format("pod {}", i));
  EXPECT_GE(Dropped(), 40 - 5 - 1);
  events.Stop();
  events.Record(about_, EventType::kNormal, "Late", "after the end");
}

TEST_F(EventsTest, AFaultIsTriedAgain) {
  EventRecorder events(Options(), failing_, log_, metrics_);
  failing_.FailNext("create", Fault::kServerError, 2);
  events.Record(about_, EventType::kNormal, "Created", "pod b");
  ASSERT_OK(Flush(events));
  EXPECT_EQ(Written().size(), 1u);
}

TEST_F(EventsTest, StopSendsWhatIsQueued) {
  EventRecorder events(Options(), failing_, log_, metrics_);
  for (int i = 0; i < 4; ++i)
    events.Record(about_, EventType::kNormal, "Created", fmt::format("pod {}", i));
  events.Stop();
  EXPECT_EQ(Written().size(), 4u);
}

TEST_F(EventsTest, LongMessagesAreCutAndClusterScopedOnesGoToDefault) {
  EventRecorder events(Options(), failing_, log_, metrics_);
  std::string text;
  while (text.size() < 2000) text += "ü";
  events.Record(ReferenceTo(kNodes, {"", "node"}, "u-2"), EventType::kNormal, "Long", text);
  ASSERT_OK(Flush(events));
  const auto written = Written("default");
  ASSERT_EQ(written.size(), 1u);
  EXPECT_LT(written[0].json.size(), 1700u);
}

}  // namespace
}  // namespace paddleop::kube
