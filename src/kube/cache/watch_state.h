#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/backoff.h"
#include "base/status.h"

namespace paddleop::kube {

// What an informer does next, as a state machine: list all pages, then watch from the list's
// version, resume when the watch ends, list again when the version has expired, and back off when
// things fail. It touches no socket and no clock: whoever drives it reports what happened.
class WatchState {
 public:
  enum class Action { kListPage, kWatch, kWait };
  struct Step {
    Action action = Action::kListPage;
    std::string continue_token;    // kListPage; empty: the first page
    std::string resource_version;  // kWatch
    Clock::Duration delay{};       // kWait
  };

  explicit WatchState(const BackoffOptions& backoff) : backoff_(backoff) {}

  Step Next() const;

  void OnPage(std::string_view resource_version, std::string_view continue_token);
  void OnListFailed(const Status& why);
  // An event or bookmark at this version has been taken in.
  void OnEvent(std::string_view resource_version);
  // The watch ended after `lasted`, by the server's will or with an error.
  void OnWatchEnded(const Result<void>& how, Clock::Duration lasted);
  void OnWaited() { delay_ = Clock::Duration::zero(); }

 private:
  void ListAgain();

  Backoff backoff_;
  bool listing_ = true;
  bool expired_ = false;  // the last failure was an expired version
  std::string continue_token_;
  std::string resource_version_;
  Clock::Duration delay_{};
};

}  // namespace paddleop::kube
