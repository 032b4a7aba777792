#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/testing/matchers.h"
#include "runtime/server/internal/child_process.h"
#include "runtime/server/juicefs_command.h"
#include "runtime/server/parts.h"

namespace paddleop::runtime {
namespace {

using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(JuicefsSync, HasOptionsOnTheLineAndKeysInTheEnvironment) {
  const auto command =
      JuicefsSync("juicefs", "/mnt/set", {.threads = 5, .force_update = true, .exclude = "*.tmp"},
                  {.uri = "s3://b.host/p",
                   .path = "train",
                   .credentials = {.access_key = "ak", .secret_key = Secret("sesame")}});
  EXPECT_THAT(command.argv,
              ElementsAre("juicefs", "sync", "--threads=5", "--force-update", "--exclude=*.tmp",
                          "--no-color", "s3://b.host/p/", "/mnt/set/train/"));
  EXPECT_THAT(command.argv, Each(Not(HasSubstr("sesame"))));
  EXPECT_THAT(command.environment, Contains("AWS_SECRET_ACCESS_KEY=sesame"));
}

TEST(JuicefsSync, SummaryIsRead) {
  const auto count = ReadSyncSummary(
      "<INFO>: Found: 1,234, excluded: 0, skipped: 4 (1 KiB), copied: 1,228 (5.00 GiB), failed: 2 "
      "[sync.go:1]\n");
  EXPECT_EQ(count.total, 1234);
  EXPECT_EQ(count.skipped, 4);
  EXPECT_EQ(count.done, 1228);
  EXPECT_EQ(count.failed, 2);
  EXPECT_EQ(ReadSyncSummary("nothing").total, 0);
}

TEST(JuicefsInfo, TotalsAreRead) {
  EXPECT_EQ(
      ReadInfo("/mnt/set :\n  inode: 1\n  files: 3\n   dirs: 2\n length: 14.65 KiB (15000 Bytes)\n"
               "   size: 32.00 KiB (32768 Bytes)\n   path: /\n"),
      (TreeTotals{.files = 3, .bytes = 15000}));
  EXPECT_EQ(ReadInfo("/mnt/set :\n  inode: 1\n  files: 0\n   dirs: 1\n length: 0 Bytes\n"),
            (TreeTotals{.files = 0, .bytes = 0}));
  EXPECT_EQ(ReadInfo("<FATAL>: no such directory\n"), std::nullopt);
}

TEST(JuicefsCache, FilesAreCountedWithoutTheirChecksums) {
  EXPECT_EQ(CachedBlockSize("17_0_4194304"), 4194304u);
  EXPECT_EQ(CachedBlockSize("17_0_4194304.tmp"), 0u);
  EXPECT_EQ(CachedBlockSize("4194304"), 0u);
  EXPECT_EQ(CachedBlockSize("_4194304"), 0u);
  EXPECT_EQ(CachedBlockSize("note_of_5"), 0u);
}

TEST(JuicefsWarmup, SharesAreThoseOfTheSampler) {
  std::vector<std::string> files;
  for (int i = 0; i < 10; ++i) files.emplace_back(1, static_cast<char>('a' + i));
  EXPECT_THAT(ShareOf(files, {}, 1, 2).value(), ElementsAre("f", "g", "h", "i", "j"));
  EXPECT_THAT(ShareOf(files, {.batch_size = 2}, 0, 2).value(),
              ElementsAre("a", "b", "e", "f", "i"));
}

TEST(RunChild, GivesOutputAndExitCode) {
  auto done = internal::RunChild(Context::Background(),
                                 {"sh", "-c", "echo out; echo $WORD >&2; exit 3"}, {"WORD=err"});
  ASSERT_OK(done);
  EXPECT_EQ(done->exit_code, 3);
  EXPECT_EQ(done->output, "out\nerr\n");
  EXPECT_CODE(internal::RunChild(Context::Background(), {"/no/such/program"}, {}), Code::kNotFound);
}

TEST(RunChild, EndsWithItsChildrenWhenStopped) {
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_CODE(internal::RunChild(Context::Background().WithStop(stop.get_token()),
                                 {"sh", "-c", "sleep 600 & wait"}, {}),
              Code::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(60));
}

TEST(LocalSource, MustLieBelowAnAllowedDirectory) {
  const std::vector<std::string> allowed = {"/data/sets"};
  EXPECT_OK(CheckLocalSource("s3://bucket/x", allowed));
  EXPECT_OK(CheckLocalSource("file:///data/sets/a/", allowed));
  for (const char* uri : {"file:///etc", "file:///data/sets/../../etc", "file:///data/setsother",
                          "sqlite3:///etc/x.db", "file:///"}) {
    EXPECT_CODE(CheckLocalSource(uri, allowed), Code::kPermission) << uri;
    EXPECT_CODE(CheckLocalSource(uri, {}), Code::kPermission) << uri;
  }
}

}  // namespace
}  // namespace paddleop::runtime
