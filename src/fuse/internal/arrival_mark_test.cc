#include "fuse/internal/arrival_mark.h"

#include <gtest/gtest.h>

#include <thread>

namespace paddleop::fuse {
namespace {

using namespace std::chrono_literals;

Context MarkTime(std::chrono::milliseconds time) { return Context::Background().WithTimeout(time); }

TEST(ArrivalMark, WaitsForWhatItsThreadHasOpened) {
  ArrivalMark mark;
  mark.Opened(7, 1);
  mark.ExpectFrom(7);
  mark.Opened(8, 2);
  EXPECT_TRUE(mark.Wait(MarkTime(60s))) << "others, and what was opened before";
  mark.Opened(7, 3);
  EXPECT_FALSE(mark.Wait(MarkTime(1ms)));
  mark.Released(2);
  EXPECT_FALSE(mark.Wait(MarkTime(1ms)));
  const std::jthread closes([&] { mark.Released(3); });
  EXPECT_TRUE(mark.Wait(MarkTime(60s)));
}

}  // namespace
}  // namespace paddleop::fuse
