// The tests' main(): this program is also the shim that the tested code starts.
#include <gtest/gtest.h>

#include <csignal>

#include "standalone/node/process/shim.h"

int main(int argc, char** argv) {
  paddleop::standalone::node::ShimMain(argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
