// A client killed at any moment, over and over: what it acknowledged is there, what it was doing is
// there entirely or not at all, and both clients find the volume clean.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "interop/juicefs.h"
#include "interop/operations.h"
#include "volume/data/fsck.h"
#include "volume/data/gc.h"

namespace paddleop::testing {
namespace {

using volume::Volume;

// Runs the lines until killed; how many were acknowledged.
Result<std::size_t> RunAndKill(const std::string& url, const std::vector<std::string>& lines,
                               std::chrono::microseconds after) {
  int to[2];
  int from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) {
    return Fail(Code::kInternal, "pipe2");
  }
  UniqueFd to_read(to[0]);
  UniqueFd to_write(to[1]);
  UniqueFd from_read(from[0]);
  UniqueFd from_write(from[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to_read.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, from_write.get(), 1);
  std::string program = BinDir() + "/volume_victim";
  std::string argument = url;
  char* argv[] = {program.data(), argument.data(), nullptr};
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Fail(Code::kInternal, "posix_spawn {}: {}", program, failed);
  to_read.Reset();
  from_write.Reset();

  std::string input;
  for (const auto& line : lines) input += line + "\n";
  auto written = WriteAll(to_write.get(), input);
  // The clock runs from the first operation on, so that kills fall among operations.
  std::string acknowledged;
  char buffer[4096];
  auto n = ::read(from_read.get(), buffer, sizeof buffer);
  if (n > 0) acknowledged.append(buffer, static_cast<std::size_t>(n));
  SleepBriefly(std::chrono::duration_cast<std::chrono::milliseconds>(after));
  std::this_thread::sleep_for(after % std::chrono::milliseconds(1));
  ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  RETURN_IF_ERROR(written);
  while ((n = ::read(from_read.get(), buffer, sizeof buffer)) > 0) {
    acknowledged.append(buffer, static_cast<std::size_t>(n));
  }
  if (!WIFSIGNALED(status)) {
    return Fail(Code::kInternal, "the victim ended by itself, with {}", WEXITSTATUS(status));
  }
  return static_cast<std::size_t>(std::ranges::count(acknowledged, '\n'));
}

constexpr int kOperations = 60;  // more than a victim lives to do, mostly

class KillTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    juicefs_.emplace(*Juicefs::Find(dir_.path()));
    url_ = "sqlite3://" + dir_.File("meta.db");
    if (GetParam() == "redis") {
      auto redis = Peer::Start("redis", {"--appendonly"});
      ASSERT_OK(redis);
      redis_.emplace(*std::move(redis));
      url_ = fmt::format("redis://127.0.0.1:{}/1", redis_->Get("port"));
    }
    volume::Setting setting;
    setting.name = "killed";
    setting.uuid = RandomUuid();
    setting.storage = "file";
    setting.bucket = dir_.File("blocks") + "/";
    setting.trash_days = 0;
    setting.block_size_kib = 64;
    ASSERT_OK(volume::FormatVolume(ctx_, url_, setting, false, log_, metrics_));
    auto opened = Volume::Open(ctx_, url_, {.memory_cache_bytes = 0}, log_, metrics_);
    ASSERT_OK(opened);
    volume_ = *std::move(opened);
  }

  // Some time later, any other client has cleaned up after the dead ones.
  void CleanUp() {
    ASSERT_OK(volume_->meta().DrainDeletions(ctx_));
    ManualClock later(std::chrono::system_clock::now() + std::chrono::hours(3));
    auto meta = volume::OpenMetaStore(ctx_, url_, {.background_jobs = false, .clock = &later});
    ASSERT_OK(meta);
    ASSERT_OK((*meta)->Load(ctx_));
    (*meta)->SetSliceDeleter([&](const Context& ctx, volume::SliceKey slice) {
      return volume_->blocks().DeleteSlice(ctx, slice);
    });
    ASSERT_OK((*meta)->RunMaintenance(ctx_, true));
    ASSERT_OK((*meta)->DrainDeletions(ctx_));
    auto sessions = (*meta)->ListSessions(ctx_);
    ASSERT_OK(sessions);
    EXPECT_TRUE(sessions->empty()) << sessions->size() << " dead sessions are left";
    // Objects that were stored and never committed.
    auto collected =
        volume::data::CollectGarbage(ctx_, **meta, volume_->objects(), volume_->setting().layout(),
                                     {.delete_leaked = true, .min_age = std::chrono::seconds(0)});
    ASSERT_OK(collected);
    EXPECT_EQ(collected->failed_objects, 0U);
  }

  void CheckBothClients() {
    ASSERT_NO_FATAL_FAILURE(CleanUp());
    auto report = volume::data::Fsck(ctx_, volume_->meta(), volume_->objects(),
                                     volume_->setting().layout(), true);
    ASSERT_OK(report);
    for (const auto& problem : report->problems) ADD_FAILURE() << problem.path << problem.detail;
    ASSERT_OK(juicefs_->CheckClean(url_));
  }

  Context ctx_ = Context::Background();
  Logger log_{LogLevel::kError};
  MetricsRegistry metrics_;
  TempDir dir_ = *TempDir::Create();
  std::optional<Peer> redis_;
  std::optional<Juicefs> juicefs_;
  std::string url_;
  std::unique_ptr<Volume> volume_;
};

TEST_P(KillTest, NothingIsLostOrHalfDone) {
  const char* given = std::getenv("KILL_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  const char* number = std::getenv("KILLS");
  const int kills = number != nullptr ? std::stoi(number) : 110;
  SCOPED_TRACE(fmt::format("KILL_SEED={}", seed));
  Script script(seed);
  Model model;
  std::size_t acknowledged = 0;
  std::map<std::string, int> interrupted;
  for (int i = 0; i < kills; ++i) {
    const auto lines = script.Make(Model(model), kOperations);
    auto done = RunAndKill(url_, lines, std::chrono::microseconds(script.Below(60'000)));
    ASSERT_OK(done);
    acknowledged += *done;
    for (std::size_t k = 0; k < *done; ++k) model.Apply(lines[k]);
    if (*done == lines.size()) continue;  // killed while it waited for more
    const std::string& last = lines[*done];
    ++interrupted[last.substr(0, last.find(' '))];

    ASSERT_OK(SettleInterrupted(ctx_, *volume_, last, model)) << "kill " << i;
  }
  ASSERT_NO_FATAL_FAILURE(CheckBothClients());
  std::string summary;
  for (const auto& [operation, count] : interrupted) {
    summary += fmt::format(" {}:{}", operation, count);
  }
  std::printf("%d kills, %zu operations acknowledged, interrupted:%s (KILL_SEED=%lu)\n", kills,
              acknowledged, summary.c_str(), seed);
}

INSTANTIATE_TEST_SUITE_P(Engines, KillTest, ::testing::Values("sqlite", "redis"),
                         [](const auto& engine) { return engine.param; });

}  // namespace
}  // namespace paddleop::testing
