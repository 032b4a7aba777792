#include "fuse/internal/told_lengths.h"

#include <gtest/gtest.h>

namespace paddleop::fuse {
namespace {

using volume::Ino;

TEST(ToldLengths, DoubtsWhatTheKernelMayStillBelieve) {
  ToldLengths told(1.0);
  const auto start = ToldLengths::Clock::now();
  EXPECT_FALSE(told.Doubts(Ino{7}, 10, start)) << "it was told nothing";
  told.Note(Ino{7}, 10, start);
  EXPECT_FALSE(told.Doubts(Ino{7}, 10, start)) << "it is right";
  EXPECT_TRUE(told.Doubts(Ino{7}, 11, start));
  EXPECT_FALSE(told.Doubts(Ino{7}, 11, start)) << "it was made to forget";
  told.Note(Ino{7}, 10, start);
  EXPECT_FALSE(told.Doubts(Ino{7}, 11, start + std::chrono::seconds(3))) << "it forgot by itself";
  told.Note(Ino{7}, 10, start);
  told.Note(Ino{7}, 11, start);
  EXPECT_TRUE(told.Doubts(Ino{7}, 11, start)) << "which of the two came last?";
}

TEST(ToldLengths, WhatItForgotItDoubts) {
  ToldLengths told(1.0);
  const auto start = ToldLengths::Clock::now();
  for (std::uint64_t i = 1; i <= 200'000; ++i) told.Note(Ino{i}, i, start);
  int doubts = 0;
  for (std::uint64_t i = 1; i <= 200'000; ++i) doubts += told.Doubts(Ino{i}, i + 1, start) ? 1 : 0;
  EXPECT_EQ(doubts, 200'000);
  EXPECT_FALSE(told.Doubts(Ino{5}, 5, start + std::chrono::seconds(3)));
}

TEST(ToldLengths, WithoutATimeoutThereIsNothingToDoubt) {
  ToldLengths told(0);
  told.Note(Ino{7}, 10);
  EXPECT_FALSE(told.Doubts(Ino{7}, 11));
}

}  // namespace
}  // namespace paddleop::fuse
