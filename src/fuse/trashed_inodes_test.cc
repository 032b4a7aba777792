#include "fuse/internal/trashed_inodes.h"

#include <gtest/gtest.h>

namespace paddleop::fuse {
namespace {

using volume::Ino;

TEST(TrashedInodes, KnowsWhatTheKernelWasToldOf) {
  TrashedInodes trashed;
  EXPECT_FALSE(trashed.Knows(Ino{7}));
  trashed.Note(Ino{7});
  EXPECT_TRUE(trashed.Knows(Ino{7}));
  EXPECT_FALSE(trashed.Knows(Ino{8}));
  trashed.Forget(Ino{8});
  trashed.Forget(Ino{7});
  EXPECT_FALSE(trashed.Knows(Ino{7}));
}

TEST(TrashedInodes, IsBounded) {
  TrashedInodes trashed;
  int known = 0;
  for (std::uint64_t i = 1; i <= 200'000; ++i) trashed.Note(Ino{i});
  for (std::uint64_t i = 1; i <= 200'000; ++i) known += trashed.Knows(Ino{i}) ? 1 : 0;
  EXPECT_GT(known, 1'000);
  EXPECT_LT(known, 20'000);
}

}  // namespace
}  // namespace paddleop::fuse
