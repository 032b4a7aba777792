#include "net/internal/resolve.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "base/testing/no_more_threads.h"

namespace paddleop::net::internal {
namespace {

TEST(Resolve, WhereNoThreadCanBeStartedOnlyNamesAreUnavailable) {
  const Context ctx = Context::Background().WithTimeout(std::chrono::seconds(30));
  {
    const paddleop::testing::NoMoreThreads none;
    for (int i = 0; i < 100; ++i)
      ASSERT_CODE(Resolve(ctx, "localhost", 80), Code::kUnavailable) << i;
    EXPECT_OK(Resolve(ctx, "127.0.0.1", 80));
  }
  EXPECT_OK(Resolve(ctx, "localhost", 80)) << "what failed to start does not count";
}

}  // namespace
}  // namespace paddleop::net::internal
