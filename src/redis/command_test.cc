#include "redis/command.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace paddleop::redis {
namespace {

using namespace std::string_literals;

TEST(CommandTest, EncodesTextBytesAndNumbers) {
  Commands commands;
  commands.Add({"SET", "k\0\r\n"s, "v"});
  EXPECT_EQ(commands.bytes(), "*3\r\n$3\r\nSET\r\n$4\r\nk\0\r\n\r\n$1\r\nv\r\n"s);
  commands.Clear();
  commands.Add({"INCRBY", "", INT64_MIN});
  EXPECT_EQ(commands.bytes(), "*3\r\n$6\r\nINCRBY\r\n$0\r\n\r\n$20\r\n-9223372036854775808\r\n");
  EXPECT_EQ(Arg(UINT64_MAX).view(), "18446744073709551615");
  EXPECT_EQ(Arg(std::uint8_t{7}).view(), "7");
}

TEST(CommandTest, ANumberSurvivesCopies) {
  std::vector<Arg> args = {"A", 1, 22};
  args.push_back(args[1]);
  const std::vector<Arg> copy = args;
  args.clear();
  EXPECT_EQ(copy[1].view(), "1");
  EXPECT_EQ(copy[3].view(), "1");
}

TEST(CommandTest, MarksLongBatchesAtCommands) {
  Commands commands;
  const std::string value(1000, 'x');
  for (int i = 0; i < 200; ++i) commands.Add({"SET", i, value});
  Commands both;
  both.Add({"MULTI"});
  both.Append(commands);
  both.Append(commands);
  EXPECT_EQ(both.size(), 401U);
  ASSERT_GE(both.marks().size(), 4U);
  for (const auto& mark : both.marks()) {
    EXPECT_EQ(both.bytes().substr(mark.bytes, 1), "*");
    // Each command starts with an asterisk of its own; the arguments have none.
    std::size_t commands_before = 0;
    for (const char c : both.bytes().substr(0, mark.bytes)) commands_before += c == '*' ? 1 : 0;
    EXPECT_EQ(commands_before, mark.count);
  }
  both.Clear();
  EXPECT_TRUE(both.empty());
  EXPECT_TRUE(both.marks().empty());
}

}  // namespace
}  // namespace paddleop::redis
