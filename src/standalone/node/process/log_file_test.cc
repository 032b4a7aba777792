#include "standalone/node/process/log_file.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "standalone/node/endpoint/log_reader.h"

namespace paddleop::standalone::node {
namespace {

class LogFileTest : public ::testing::Test {
 protected:
  std::string Read(const LogQuery& query) {
    std::string out;
    EXPECT_OK(ReadLog(Context::Background(), dir_->path(), query,
                      [&](std::string_view text) -> Result<void> {
                        out += text;
                        return {};
                      }));
    return out;
  }
  Result<TempDir> dir_ = TempDir::Create();
};

TEST_F(LogFileTest, KeepsLinesWhole) {
  auto log = LogFile::Open(dir_->File("log"), 1 << 20);
  ASSERT_OK(log);
  log->Feed("stdout", "one\ntw");
  log->Feed("stderr", "error\n");
  log->Feed("stdout", "o\nthree");
  log->Finish();
  EXPECT_EQ(Read({}), "one\nerror\ntwo\nthree");
  EXPECT_EQ(Read({.tail_lines = 2}), "two\nthree");
  EXPECT_EQ(Read({.tail_lines = 0}), "");
  EXPECT_EQ(Read({.tail_lines = 100}), "one\nerror\ntwo\nthree");
  EXPECT_EQ(Read({.limit_bytes = 5}), "one\ne");
  EXPECT_EQ(Read({.since = std::chrono::system_clock::now() + std::chrono::hours(1)}), "");
  EXPECT_TRUE(Read({.timestamps = true}).starts_with("20"));
}

TEST_F(LogFileTest, LongLinesComeInPieces) {
  auto log = LogFile::Open(dir_->File("log"), 1 << 20);
  ASSERT_OK(log);
  const std::string text(50'000, 'x');
  log->Feed("stdout", text + "\nnext\n");
  EXPECT_EQ(Read({}), text + "\nnext\n");
}

TEST_F(LogFileTest, StartsAnewAtItsLimit) {
  auto log = LogFile::Open(dir_->File("log"), 1000);
  ASSERT_OK(log);
  for (int i = 0; i < 100; ++i) log->Feed("stdout", fmt::format("line {}\n", i));
  EXPECT_LE(ReadFile(dir_->File("log"))->size(), 1000u);
  EXPECT_TRUE(ReadFile(dir_->File("log.1")));
  EXPECT_TRUE(Read({}).ends_with("line 99\n"));
}

}  // namespace
}  // namespace paddleop::standalone::node
