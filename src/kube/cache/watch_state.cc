#include "kube/cache/watch_state.h"

namespace paddleop::kube {
namespace {

// A watch that fails this often in a row is not resumed any more: the server may no longer know the
// version (restored from a backup) and not say so.
constexpr int kResumes = 5;
// A server that ends watches sooner than this gets them more slowly.
constexpr std::chrono::seconds kShortWatch{1};

}  // namespace

WatchState::Step WatchState::Next() const {
  if (delay_ > Clock::Duration::zero())
    return {.action = Action::kWait, .continue_token = {}, .resource_version = {}, .delay = delay_};
  if (listing_)
    return {.action = Action::kListPage,
            .continue_token = continue_token_,
            .resource_version = {},
            .delay = {}};
  return {.action = Action::kWatch,
          .continue_token = {},
          .resource_version = resource_version_,
          .delay = {}};
}

void WatchState::ListAgain() {
  listing_ = true;
  continue_token_.clear();
}

void WatchState::OnPage(std::string_view resource_version, std::string_view continue_token) {
  continue_token_ = continue_token;
  if (!continue_token.empty()) return;
  listing_ = false;
  resource_version_ = resource_version;
}

void WatchState::OnListFailed(const Status& why) {
  // An expired token cannot be continued; anything else is worth the same page again.
  if (why.code() == Code::kExpired) continue_token_.clear();
  delay_ = backoff_.Take();
}

void WatchState::OnEvent(std::string_view resource_version) {
  backoff_.Reset();
  expired_ = false;
  if (!resource_version.empty()) resource_version_ = resource_version;
}

void WatchState::OnWatchEnded(const Result<void>& how, Clock::Duration lasted) {
  if (how) {
    if (lasted >= kShortWatch) {
      backoff_.Reset();
      expired_ = false;
    } else if (backoff_.attempts() > 0 || lasted < std::chrono::milliseconds(100)) {
      delay_ = backoff_.Take();
    }
    return;
  }
  const Code code = how.error().code();
  if (code == Code::kExpired) {
    ListAgain();
    // Once is normal after a long silence; again without an event in between is a loop.
    if (expired_) delay_ = backoff_.Take();
    expired_ = true;
    return;
  }
  delay_ = backoff_.Take();
  const bool resumable = code == Code::kUnavailable || code == Code::kDeadline;
  if (!resumable || backoff_.attempts() > kResumes) ListAgain();
}

}  // namespace paddleop::kube
