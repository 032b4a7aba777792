#include "fuse/internal/told_lengths.h"

#include <gtest/gtest.h>

namespace paddleop::fuse {
namespace {

using volume::Ino;

TEST(ToldLengths, DoubtsWhatTheKernelMayStillBelieve) {
  ToldLengths told(1.0);
  auto now = ToldLengths::Clock::now();
  const auto note = [&](std::uint64_t length) {
    now += std::chrono::milliseconds(1);
    EXPECT_TRUE(told.Note(Ino{7}, length, now, now));
  };
  EXPECT_FALSE(told.Doubts(Ino{7}, 10, now)) << "it was told nothing";
  note(10);
  EXPECT_FALSE(told.Doubts(Ino{7}, 10, now)) << "it is right";
  EXPECT_TRUE(told.Doubts(Ino{7}, 11, now));
  EXPECT_FALSE(told.Doubts(Ino{7}, 11, now)) << "it was made to forget";
  note(10);
  EXPECT_FALSE(told.Doubts(Ino{7}, 11, now + std::chrono::seconds(3))) << "it forgot by itself";
  now += std::chrono::seconds(3);
  note(10);
  note(11);
  EXPECT_TRUE(told.Doubts(Ino{7}, 11, now)) << "which of the two came last?";
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

TEST(ToldLengths, KnowsAnAnswerThatWasOvertaken) {
  ToldLengths told(1.0);
  const auto start = ToldLengths::Clock::now();
  const auto after = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  EXPECT_FALSE(told.Doubts(Ino{7}, 11, after(20)));
  EXPECT_FALSE(told.Note(Ino{7}, 10, after(10), after(30))) << "asked for before it was opened";
  EXPECT_FALSE(told.Doubts(Ino{7}, 11, after(40))) << "the kernel was not to believe it";
  EXPECT_TRUE(told.Note(Ino{7}, 11, after(10), after(50))) << "it is what was opened";
  EXPECT_TRUE(told.Note(Ino{7}, 12, after(41), after(50))) << "asked for after that";
  EXPECT_TRUE(told.Note(Ino{8}, 10, after(10), after(50))) << "another file";
}

TEST(ToldLengths, OfWhatItForgotAnEarlierAnswerMayBeOvertaken) {
  ToldLengths told(1.0);
  const auto start = ToldLengths::Clock::now();
  const auto later = start + std::chrono::milliseconds(10);
  for (std::uint64_t i = 1; i <= 200'000; ++i) told.Doubts(Ino{i}, i, later);
  int noted = 0;
  for (std::uint64_t i = 1; i <= 200'000; ++i) noted += told.Note(Ino{i}, i + 1, start) ? 1 : 0;
  EXPECT_EQ(noted, 0);
  EXPECT_TRUE(told.Note(Ino{5}, 6, later + std::chrono::milliseconds(1)));
}

TEST(ToldLengths, WithoutATimeoutThereIsNothingToDoubt) {
  ToldLengths told(0);
  EXPECT_TRUE(told.Note(Ino{7}, 10, ToldLengths::Clock::now()));
  EXPECT_FALSE(told.Doubts(Ino{7}, 11));
}

}  // namespace
}  // namespace paddleop::fuse
