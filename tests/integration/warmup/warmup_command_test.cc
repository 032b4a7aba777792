// `samplefs warmup`, `clear` and `status` as processes, on Redis and MinIO.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "support/peer.h"
#include "volume/data/testing/packed_volume.h"

namespace paddleop::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using volume::data::testing::PackedVolume;

class WarmupCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    redis_ = new Peer(*Peer::Start("redis"));
    minio_ = new Peer(*Peer::Start("minio", {"--bucket", "warm"}));
  }
  static void TearDownTestSuite() {
    delete redis_;
    delete minio_;
  }

  void SetUp() override {
    static int database = 0;
    url_ = fmt::format("redis://127.0.0.1:{}/{}", redis_->Get("port"), ++database);
    name_ = fmt::format("vol{}", database);
    auto made = Run(
        {"format", url_, name_, "--storage", "minio", "--bucket", minio_->Get("endpoint") + "/warm",
         "--access-key", minio_->Get("access_key"), "--block-size", "256K", "--trash-days", "0"},
        {"SECRET_KEY=" + minio_->Get("secret_key")});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  ProcessResult Run(std::vector<std::string> args, const std::vector<std::string>& env = {}) {
    args.insert(args.begin(), BinDir() + "/samplefs");
    auto result = RunProcess(args, env);
    EXPECT_OK(result);
    return result ? *result : ProcessResult{};
  }
  // With the flags of this test's cache.
  ProcessResult Cached(std::vector<std::string> args) {
    for (const char* arg : {"--free-space-ratio", "0.001", "--cache-dir"}) args.emplace_back(arg);
    args.push_back(dir_.File("cache"));
    return Run(std::move(args));
  }
  static Json LastLine(const std::string& text) {
    std::istringstream lines(text);
    std::string last;
    for (std::string line; std::getline(lines, line);) last = line;
    return Json::parse(last, nullptr, false);
  }
  // One plain file per sample; packing is the import's business.
  void AddFiles(int count, std::size_t size) {
    for (int i = 0; i < count; ++i) {
      ASSERT_OK(MakeDirectories(dir_.File("data")));
      ASSERT_OK(WriteFileAtomic(dir_.File(fmt::format("data/s{:03}", i)),
                                std::string(size, static_cast<char>('a' + i % 26))));
    }
    const auto copied = Run({"cp", "-r", url_, "file:" + dir_.File("data"), "/data"});
    ASSERT_EQ(copied.exit_code, 0) << copied.err << copied.out;
  }

  static inline Peer* redis_ = nullptr;
  static inline Peer* minio_ = nullptr;
  TempDir dir_ = *TempDir::Create();
  std::string url_;
  std::string name_;
};

TEST_F(WarmupCommand, WarmsChecksShowsAndClears) {
  AddFiles(24, 300'000);
  auto check = Cached({"warmup", url_, "/data", "--check", "--json"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_EQ(LastLine(check.out)["percent"], 0.0);
  auto warm = Cached({"warmup", url_, "/data", "--json"});
  EXPECT_EQ(warm.exit_code, 0) << warm.err;
  const Json done = LastLine(warm.out);
  EXPECT_EQ(done["state"], "done") << warm.out;
  EXPECT_EQ(done["files"]["total"], 24);
  EXPECT_EQ(done["bytes"]["fetched"], 24 * 300'000);
  check = Cached({"warmup", url_, "/data", "--check", "--json"});
  EXPECT_EQ(LastLine(check.out)["percent"], 100.0);
  auto status = Cached({"status", url_, "--json"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  const Json cache = LastLine(status.out)["cache"];
  EXPECT_GE(cache["cachedBytes"], 24 * 300'000);
  EXPECT_EQ(cache["cachedBytes"], cache["pinnedBytes"]);
  EXPECT_EQ(cache["directories"].size(), 1u);
  auto text = Cached({"status", url_});
  EXPECT_THAT(text.out, HasSubstr("pinned"));
  // The cached data serves readers when the store is away.
  ASSERT_OK(minio_->Command("pause minio"));
  auto again = Cached({"warmup", url_, "/data", "--json"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  ASSERT_OK(minio_->Command("resume minio"));
  EXPECT_EQ(LastLine(again.out)["bytes"]["fetched"], 0);
  auto unpinned = Cached({"clear", url_, "--plan", "warmup", "--json"});
  EXPECT_EQ(LastLine(unpinned.out)["blocks"], 48) << unpinned.err;
  auto cleared = Cached({"clear", url_, "--json"});
  EXPECT_EQ(LastLine(cleared.out)["blocks"], 48) << cleared.err;
  status = Cached({"status", url_, "--json"});
  EXPECT_EQ(LastLine(status.out)["cache"]["cachedBytes"], 0);
}

TEST_F(WarmupCommand, C27_EachCommandDoesWhatItSaysAndExitsAccordingly) {
  AddFiles(4, 1000);
  const auto names = [&] { return Run({"ls", url_, "/data"}).out; };
  EXPECT_THAT(names(), HasSubstr("s001"));
  EXPECT_EQ(Cached({"warmup", url_, "data"}).exit_code, 0);
  EXPECT_EQ(Cached({"clear", url_, "data"}).exit_code, 0);
  EXPECT_THAT(names(), HasSubstr("s001")) << "only the cache was cleared";
  EXPECT_EQ(Run({"rmr", url_, "data/s001"}).exit_code, 0);
  EXPECT_THAT(names(), ::testing::Not(HasSubstr("s001")));
  const auto synced = Run({"sync", url_, "file://" + dir_.File("data") + "/", "--to", "again"});
  EXPECT_EQ(synced.exit_code, 0) << synced.err;
  EXPECT_THAT(Run({"ls", url_, "/again"}).out, HasSubstr("s001"));
  EXPECT_NE(Run({"rmr", url_, "data/s001"}).exit_code, 0) << "it is not there any more";
}

TEST_F(WarmupCommand, WarmsARanksShareFromAList) {
  AddFiles(10, 10'000);
  std::string list;
  for (int i = 9; i >= 0; --i) list += fmt::format("s{:03} {}\n", i, i % 3);
  ASSERT_OK(WriteFileAtomic(dir_.File("list.txt"), list));
  auto warm = Cached({"warmup", url_, "data", "--file", dir_.File("list.txt"), "--strategy",
                      "sequence", "--ranks", "2", "--rank", "1", "--batch-size", "2", "--json"});
  EXPECT_EQ(warm.exit_code, 0) << warm.err;
  EXPECT_EQ(LastLine(warm.out)["files"]["total"], 5);
  EXPECT_EQ(LastLine(warm.out)["blocks"]["done"], 5);
}

TEST_F(WarmupCommand, FailuresAreListedAndTheExitCodeSaysPartly) {
  AddFiles(3, 1000);
  ASSERT_OK(WriteFileAtomic(dir_.File("list.txt"), "data/s000\ndata/gone\n"));
  auto warm = Cached(
      {"warmup", url_, "--file", dir_.File("list.txt"), "--report", dir_.File("failed.json")});
  EXPECT_EQ(warm.exit_code, 3) << warm.out;
  EXPECT_THAT(warm.err, HasSubstr("data/gone"));
  auto report = ReadFile(dir_.File("failed.json"));
  ASSERT_OK(report);
  EXPECT_EQ(Json::parse(*report)["path"], "data/gone");
  ASSERT_EQ(::unlink(dir_.File("failed.json").c_str()), 0);
  auto check = Cached({"warmup", url_, "--file", dir_.File("list.txt"), "--check", "--report",
                       dir_.File("failed.json")});
  EXPECT_EQ(check.exit_code, 3) << "what is there is cached, but not all is there: " << check.out;
  EXPECT_THAT(check.err, HasSubstr("data/gone"));
  EXPECT_EQ(*ReadFile(dir_.File("failed.json")), *report);
  EXPECT_EQ(Cached({"warmup", url_, "--check", "--evict"}).exit_code, 2);
  EXPECT_EQ(Cached({"warmup", url_, "/nowhere"}).exit_code, 1);
  EXPECT_EQ(Cached({"warmup", url_, "--strategy", "best"}).exit_code, 2);
  EXPECT_EQ(Cached({"warmup", url_, "--rank", "1"}).exit_code, 2);
  EXPECT_EQ(Run({"warmup", url_, "--cache-dir", "relative"}).exit_code, 2);
}

TEST_F(WarmupCommand, AKilledWarmUpGoesOnWhereItWas) {
  AddFiles(60, 250'000);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::execl((BinDir() + "/samplefs").c_str(), "samplefs", "warmup", url_.c_str(), "--threads",
              "2", "--cache-dir", dir_.File("cache").c_str(), "--free-space-ratio", "0.001",
              nullptr);
      ::_exit(127);
    }
    SleepBriefly(std::chrono::milliseconds(250 + 150 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  auto warm = Cached({"warmup", url_, "--json"});
  EXPECT_EQ(warm.exit_code, 0) << warm.err;
  EXPECT_EQ(LastLine(warm.out)["blocks"]["done"], 60);
  auto status = Cached({"status", url_, "--json"});
  EXPECT_EQ(LastLine(status.out)["cache"]["directories"][0]["blocks"], 60);
  EXPECT_EQ(LastLine(status.out)["cache"]["cachedBytes"],
            LastLine(status.out)["cache"]["pinnedBytes"]);
}

TEST_F(WarmupCommand, TwoProcessesFillOneDirectory) {
  AddFiles(40, 100'000);
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::execl((BinDir() + "/samplefs").c_str(), "samplefs", "warmup", url_.c_str(), "--cache-dir",
              dir_.File("cache").c_str(), "--free-space-ratio", "0.001", "--plan",
              i == 0 ? "one" : "two", nullptr);
      ::_exit(127);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  auto status = Cached({"status", url_, "--json"});
  const Json directory = LastLine(status.out)["cache"]["directories"][0];
  EXPECT_EQ(directory["blocks"], 40);
  EXPECT_EQ(directory["bytes"], 40 * 102'400);
  EXPECT_EQ(directory["pinnedBytes"], 40 * 102'400);
}

}  // namespace
}  // namespace paddleop::testing
