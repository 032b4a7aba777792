#include "kube/cache/watch_state.h"

#include <gtest/gtest.h>

namespace paddleop::kube {
namespace {

using Action = WatchState::Action;
using std::chrono::milliseconds;
using std::chrono::seconds;

const BackoffOptions kExact{
    .initial = milliseconds(100), .maximum = milliseconds(400), .factor = 2.0, .jitter = 0.0};

Result<void> Failed(Code code) { return std::unexpected(Status(code, "injected")); }

// Past the first list, watching from version 10.
WatchState Watching() {
  WatchState state(kExact);
  state.OnPage("10", "");
  return state;
}

TEST(WatchState, ListsAllPagesThenWatches) {
  WatchState state(kExact);
  EXPECT_EQ(state.Next().action, Action::kListPage);
  EXPECT_EQ(state.Next().continue_token, "");
  state.OnPage("10", "token");
  EXPECT_EQ(state.Next().action, Action::kListPage);
  EXPECT_EQ(state.Next().continue_token, "token");
  state.OnPage("10", "");
  EXPECT_EQ(state.Next().action, Action::kWatch);
  EXPECT_EQ(state.Next().resource_version, "10");
}

TEST(WatchState, ResumesFromTheLastVersionWithoutDelay) {
  WatchState state = Watching();
  state.OnEvent("12");
  state.OnEvent("15");  // a bookmark counts as well
  state.OnWatchEnded({}, seconds(300));
  EXPECT_EQ(state.Next().action, Action::kWatch);
  EXPECT_EQ(state.Next().resource_version, "15");
}

TEST(WatchState, AnExpiredVersionIsListedAgainAtOnce) {
  WatchState state = Watching();
  state.OnWatchEnded(Failed(Code::kExpired), milliseconds(1));
  EXPECT_EQ(state.Next().action, Action::kListPage);
  EXPECT_EQ(state.Next().continue_token, "");
}

TEST(WatchState, VersionsThatExpireAgainAndAgainAreListedMoreSlowly) {
  WatchState state = Watching();
  state.OnWatchEnded(Failed(Code::kExpired), milliseconds(1));
  state.OnPage("20", "");
  state.OnWatchEnded(Failed(Code::kExpired), milliseconds(1));
  EXPECT_EQ(state.Next().action, Action::kWait);
  EXPECT_EQ(state.Next().delay, milliseconds(100));
  state.OnWaited();
  EXPECT_EQ(state.Next().action, Action::kListPage);
}

TEST(WatchState, ABrokenConnectionIsResumedAfterAGrowingDelay) {
  WatchState state = Watching();
  for (const milliseconds delay : {milliseconds(100), milliseconds(200), milliseconds(400)}) {
    state.OnWatchEnded(Failed(Code::kUnavailable), milliseconds(1));
    EXPECT_EQ(state.Next().action, Action::kWait);
    EXPECT_EQ(state.Next().delay, delay);
    state.OnWaited();
    EXPECT_EQ(state.Next().action, Action::kWatch);
    EXPECT_EQ(state.Next().resource_version, "10");
  }
  // An event shows that all is well: the next failure starts with the first delay.
  state.OnEvent("11");
  state.OnWatchEnded(Failed(Code::kUnavailable), milliseconds(1));
  EXPECT_EQ(state.Next().delay, milliseconds(100));
}

TEST(WatchState, AWatchThatCannotBeResumedIsListedAgain) {
  WatchState state = Watching();
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(state.Next().action, Action::kWatch);
    state.OnWatchEnded(Failed(Code::kUnavailable), milliseconds(1));
    state.OnWaited();
  }
  EXPECT_EQ(state.Next().action, Action::kListPage);
  // What is wrong with the request itself will not get better by sending it again.
  WatchState refused = Watching();
  refused.OnWatchEnded(Failed(Code::kInvalid), milliseconds(1));
  EXPECT_EQ(refused.Next().action, Action::kWait);
  refused.OnWaited();
  EXPECT_EQ(refused.Next().action, Action::kListPage);
}

TEST(WatchState, AServerThatEndsWatchesAtOnceIsNotHammered) {
  WatchState state = Watching();
  state.OnWatchEnded({}, milliseconds(1));
  EXPECT_EQ(state.Next().action, Action::kWait);
  state.OnWaited();
  state.OnWatchEnded({}, milliseconds(1));
  EXPECT_EQ(state.Next().delay, milliseconds(200));
}

TEST(WatchState, AFailedPageIsAskedForAgainAnExpiredTokenIsNot) {
  WatchState state(kExact);
  state.OnPage("10", "token");
  state.OnListFailed(Status(Code::kUnavailable, "away"));
  EXPECT_EQ(state.Next().action, Action::kWait);
  state.OnWaited();
  EXPECT_EQ(state.Next().continue_token, "token");
  state.OnListFailed(Status(Code::kExpired, "too old"));
  state.OnWaited();
  EXPECT_EQ(state.Next().action, Action::kListPage);
  EXPECT_EQ(state.Next().continue_token, "");
}

}  // namespace
}  // namespace paddleop::kube
