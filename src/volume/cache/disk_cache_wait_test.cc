// Nobody waits for long: not for other processes, nor for walks, nor for disks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "volume/cache/testing/cache_fixture.h"
#include "volume/cache/testing/held_access.h"

namespace paddleop::volume {
namespace {

using namespace std::chrono_literals;
using testing::DiskCacheTest;
using testing::HeldAccess;
using Steady = std::chrono::steady_clock;

class DiskCacheWait : public DiskCacheTest {};

TEST_F(DiskCacheWait, AStoppedProcessWithTheLockStopsNobodyElse) {
  options_.lock_patience = 500ms;
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  auto other = OpenFile(Root() + "/.samplefs.lock", O_RDWR | O_CLOEXEC);
  ASSERT_OK(other);
  ASSERT_EQ(::flock(other->get(), LOCK_EX), 0);
  auto begin = Steady::now();
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 10; i < 22; ++i)
      threads.emplace_back([&, i] { EXPECT_FALSE(Put(*cache, Block(i))); });
  }
  EXPECT_LT(Steady::now() - begin, 4 * options_.lock_patience) << "they wait together";
  begin = Steady::now();
  for (std::uint64_t i = 30; i < 60; ++i) EXPECT_FALSE(Put(*cache, Block(i)));
  EXPECT_LT(Steady::now() - begin, 4 * options_.lock_patience) << "what is known is not tried";
  EXPECT_TRUE(Holds(*cache, Block(1)));
  EXPECT_TRUE(cache->Status()[0].usable);
  // It goes on.
  ASSERT_EQ(::flock(other->get(), LOCK_UN), 0);
  clock_.Advance(10s);
  EXPECT_TRUE(Put(*cache, Block(10)));
  EXPECT_TRUE(Put(*cache, Block(11)));
}

TEST_F(DiskCacheWait, NobodyWaitsForAWalk) {
  options_.recount_interval = 0s;  // no walks but the one below
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_OK(Store(*cache, Block(i), "p"));
  HeldAccess walks;
  walks.Watch(Root() + "/raw", FAN_OPEN_PERM | FAN_ONDIR);
  auto counted = std::async(std::launch::async, [&] { return cache->Recount(ctx_); });
  std::uint64_t next = 10;
  const auto begin = Steady::now();
  while (counted.wait_for(0s) != std::future_status::ready) {
    if (!walks.WaitForOne(100ms)) continue;
    // Each walk meets a change.
    auto put = std::async(std::launch::async, [&] { return Put(*cache, Block(next)); });
    const bool done = put.wait_for(5s) == std::future_status::ready;
    // As in a large directory.
    std::this_thread::sleep_until(begin + 500ms);
    walks.LetOneGo();
    ASSERT_TRUE(done) << "the walk has the lock";
    EXPECT_TRUE(put.get());
    ++next;
  }
  ASSERT_OK(counted.get());
  // Of what came meanwhile the walk may have seen a part.
  const auto blocks = next - 10 + 3;
  EXPECT_GE(cache->Usage().blocks, blocks - 1);
  EXPECT_LE(cache->Usage().blocks, blocks + 1);
  EXPECT_EQ(cache->Status()[0].pinned_bytes, 3u * (kBlock + 4096));
}

}  // namespace
}  // namespace paddleop::volume
