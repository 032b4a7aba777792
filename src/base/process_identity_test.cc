#include "base/process_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paddleop {
namespace {

TEST(ProcessIdentity, TellsTheLivingFromTheDead) {
  const ProcessIdentity self = ProcessIdentity::Of(::getpid());
  EXPECT_TRUE(self.Alive());
  EXPECT_FALSE((ProcessIdentity{.pid = self.pid, .start_ticks = self.start_ticks + 1}).Alive());
  EXPECT_FALSE(ProcessIdentity{}.Alive());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(ProcessIdentity::Of(child).Alive()) << "a zombie";
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(ProcessIdentity::Of(child).Alive());
}

}  // namespace
}  // namespace paddleop
