#include "signals.h"

#include <pthread.h>
#include <csignal>

#include "base/thread_pool.h"

namespace paddleop::cmd {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR2);  // our own, to end the thread
  return set;
}

}  // namespace

StopOnSignal::StopOnSignal() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this, set] {
    SetThreadName("signals");
    int signal = 0;
    do {
      sigwait(&set, &signal);
      source_.request_stop();
    } while (signal != SIGUSR2);
  });
}

StopOnSignal::~StopOnSignal() { pthread_kill(thread_.native_handle(), SIGUSR2); }

}  // namespace paddleop::cmd
