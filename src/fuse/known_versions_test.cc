#include "fuse/internal/known_versions.h"

#include <gtest/gtest.h>

namespace paddleop::fuse {
namespace {

using namespace std::chrono_literals;
using volume::Attr;
using volume::Ino;

Attr Version(std::int64_t seconds, std::uint64_t length = 100) {
  Attr attr;
  attr.mtime = {.seconds = seconds, .nanos = 0};
  attr.length = length;
  return attr;
}

TEST(KnownVersions, PagesStayOnceTheOldOnesAreDropped) {
  KnownVersions known;
  const auto start = KnownVersions::Clock::now();
  EXPECT_FALSE(known.Unchanged(Ino{7}, Version(1), 0, 1, start));
  EXPECT_FALSE(known.Unchanged(Ino{7}, Version(1), 0, 2, start)) << "who was first may not have";
  known.Closed(Ino{7}, 9);
  EXPECT_FALSE(known.Unchanged(Ino{7}, Version(1), 0, 3, start)) << "nobody of these";
  known.Closed(Ino{7}, 2);
  EXPECT_TRUE(known.Unchanged(Ino{7}, Version(1), 0, 4, start));
  EXPECT_FALSE(known.Unchanged(Ino{7}, Version(2), 0, 5, start));
  known.Closed(Ino{7}, 4);
  EXPECT_FALSE(known.Unchanged(Ino{7}, Version(2), 0, 6, start)) << "it has kept the old ones";
  EXPECT_TRUE(known.Unchanged(Ino{7}, Version(2), 0, 7, start + 2s));
  EXPECT_FALSE(known.Unchanged(Ino{7}, Version(2), 1, 8, start + 2s)) << "something was lost";
}

TEST(KnownVersions, ManyPagesTakeTheirTime) {
  KnownVersions known;
  const auto start = KnownVersions::Clock::now();
  EXPECT_FALSE(known.Unchanged(Ino{7}, Version(1, 100ULL << 30), 0, 1, start));
  EXPECT_FALSE(known.Unchanged(Ino{7}, Version(1, 100ULL << 30), 0, 2, start + 60s));
  EXPECT_TRUE(known.Unchanged(Ino{7}, Version(1, 100ULL << 30), 0, 3, start + 200s));
}

}  // namespace
}  // namespace paddleop::fuse
