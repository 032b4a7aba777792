// Cache Runtime Servers in memory: jobs end as the test wants, everything that was asked is kept.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "runtime/client/runtime_client.h"

namespace paddleop::controllers::testing {

// The runtimes of all sets, by TLS name. Thread-safe.
class FakeRuntimes {
 public:
  // What a posted job is at once; jobs that exist keep their state.
  void SetOutcome(runtime::JobState state);
  void SetState(const std::string& job, runtime::JobState state, std::string message = {});
  // All calls fail as if nobody were there.
  void SetAway(bool away);
  void Lose();  // the journals

  std::vector<runtime::JobRequest> posts() const;
  // How many different jobs were begun.
  std::size_t jobs() const;
  std::vector<std::string> cancelled() const;
  int terminations() const;
  int purges() const;

  // Borrows this object.
  runtime::RuntimeDialer Dialer();

 private:
  class Client;

  mutable Mutex mutex_;
  runtime::JobState outcome_ GUARDED_BY(mutex_) = runtime::JobState::kSucceeded;
  bool away_ GUARDED_BY(mutex_) = false;
  std::vector<runtime::JobRequest> posts_ GUARDED_BY(mutex_);
  std::map<std::string, runtime::JobResult> jobs_ GUARDED_BY(mutex_);
  std::vector<std::string> cancelled_ GUARDED_BY(mutex_);
  std::map<std::string, runtime::PeerTable> tables_ GUARDED_BY(mutex_);
  int terminations_ GUARDED_BY(mutex_) = 0;
  int purges_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paddleop::controllers::testing
