#include "standalone/node/process/container_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/testing/matchers.h"
#include "kube/testing/wait_until.h"
#include "standalone/node/endpoint/log_reader.h"
#include "standalone/node/process/exit_watcher.h"

namespace paddleop::standalone::node {
namespace {

using kube::testing::WaitUntil;

constexpr char kSelf[] = "/proc/self/exe";

class ContainerProcessTest : public ::testing::Test {
 protected:
  ShimSpec Shell(const std::string& script) {
    ShimSpec spec;
    spec.argv = {"sh", "-c", script};
    spec.env = {{"PATH", "/usr/bin:/bin"}, {"WHO", "a pod"}};
    spec.cwd = "/";
    spec.directory = dir_->path() + "/run";
    return spec;
  }
  std::optional<ProcessExit> WaitForExit() {
    WaitUntil([&] { return ReadExit(dir_->path() + "/run").has_value(); });
    return ReadExit(dir_->path() + "/run");
  }
  std::string Log() {
    std::string out;
    EXPECT_OK(ReadLog(ctx_, dir_->path() + "/run", {}, [&](std::string_view text) -> Result<void> {
      out += text;
      return {};
    }));
    return out;
  }

  Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(60));
  Result<TempDir> dir_ = TempDir::Create();
};

TEST_F(ContainerProcessTest, RunsACommandAndTellsHowItEnded) {
  const auto state =
      StartContainer(ctx_, kSelf, Shell("echo \"hello from $WHO\"; echo oops >&2; exit 7"));
  ASSERT_OK(state);
  const auto exit = WaitForExit();
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 7);
  EXPECT_FALSE(exit->start_failed);
  EXPECT_NE(Log().find("hello from a pod\n"), std::string::npos);
  EXPECT_NE(Log().find("oops\n"), std::string::npos);
}

TEST_F(ContainerProcessTest, GivesExactlyItsEnvironment) {
  ::setenv("SECRET_OF_THE_AGENT", "x", 1);
  ASSERT_OK(StartContainer(ctx_, kSelf, Shell("env")));
  ASSERT_TRUE(WaitForExit());
  EXPECT_EQ(Log().find("SECRET_OF_THE_AGENT"), std::string::npos);
  EXPECT_NE(Log().find("WHO=a pod\n"), std::string::npos);
}

TEST_F(ContainerProcessTest, SaysWhichProgramIsMissing) {
  ShimSpec spec = Shell("");
  spec.argv = {"no-such-program"};
  const auto state = StartContainer(ctx_, kSelf, spec);
  ASSERT_CODE(state, Code::kInvalid);
  EXPECT_NE(state.error().message().find("\"no-such-program\": executable file not found"),
            std::string::npos);
  const auto exit = ReadExit(spec.directory);
  ASSERT_TRUE(exit);
  EXPECT_TRUE(exit->start_failed);
  EXPECT_EQ(exit->code, 128);
}

TEST_F(ContainerProcessTest, EndsWhenAskedToAndWhenForced) {
  const auto polite = StartContainer(ctx_, kSelf, Shell("exec sleep 600"));
  ASSERT_OK(polite);
  EXPECT_TRUE(polite->shim.Alive());
  TerminateContainer(*polite);
  ASSERT_TRUE(WaitForExit());
  EXPECT_EQ(ReadExit(dir_->path() + "/run")->code, 143);

  std::filesystem::remove_all(dir_->path() + "/run");
  const auto stubborn =
      StartContainer(ctx_, kSelf, Shell("trap '' TERM; echo ready; while :; do sleep 1; done"));
  ASSERT_OK(stubborn);
  ASSERT_TRUE(WaitUntil([&] { return Log() == "ready\n"; }));
  TerminateContainer(*stubborn);
  KillContainer(*stubborn);
  ASSERT_TRUE(WaitForExit());
  EXPECT_EQ(ReadExit(dir_->path() + "/run")->code, 137);
  EXPECT_TRUE(WaitUntil([&] { return !stubborn->shim.Alive(); }));
}

TEST_F(ContainerProcessTest, TellsTheWatcher) {
  auto watcher = ExitWatcher::Start();
  ASSERT_OK(watcher);
  const auto state = StartContainer(ctx_, kSelf, Shell("exit 0"));
  ASSERT_OK(state);
  std::atomic<int> told = 0;
  (*watcher)->Watch(state->shim.pid, [&] { ++told; });
  EXPECT_TRUE(WaitUntil([&] { return told == 1; }));
  EXPECT_TRUE(ReadExit(dir_->path() + "/run"));
  (*watcher)->Watch(state->shim.pid, [&] { ++told; });  // long gone
  EXPECT_TRUE(WaitUntil([&] { return told == 2; }));
}

TEST_F(ContainerProcessTest, RootGetsProcessesAndMountsOfItsOwn) {
  ASSERT_EQ(::geteuid(), 0U) << "namespaces need root";
  ASSERT_OK(MakeDirectories(dir_->path() + "/volume"));
  ASSERT_OK(WriteFileAtomic(dir_->path() + "/volume/a", "data of the volume\n"));
  ASSERT_OK(WriteFileAtomic(dir_->path() + "/hosts", "127.0.0.1 localhost\n10.0.0.1 a-name\n"));
  ASSERT_OK(MakeDirectories(dir_->path() + "/stage"));
  ShimSpec spec = Shell(
      "hostname; cat /no-such-top/deep/a; cat /etc/hosts; ls /proc | grep -c '^[0-9]*$'; "
      "cat /usr/no-such-share/a; ls /usr/bin/env; echo x > /ro/x || echo read-only");
  spec.namespaces = true;
  spec.hostname = "pod-0";
  spec.hosts_file = dir_->path() + "/hosts";
  spec.stage = dir_->path() + "/stage";
  spec.data_dir = dir_->path();
  spec.mounts = {{dir_->path() + "/volume", "/no-such-top/deep", false},
                 {dir_->path() + "/volume", "/usr/no-such-share", false},
                 {dir_->path() + "/volume", "/ro", true}};
  ASSERT_OK(StartContainer(ctx_, kSelf, spec));
  ASSERT_TRUE(WaitForExit());
  const std::string log = Log();
  EXPECT_TRUE(log.starts_with("pod-0\ndata of the volume\n127.0.0.1 localhost\n10.0.0.1 a-name\n"))
      << log;
  EXPECT_NE(log.find("data of the volume\n/usr/bin/env\n"), std::string::npos) << log;
  EXPECT_NE(log.find("read-only\n"), std::string::npos) << log;
  EXPECT_FALSE(std::filesystem::exists("/no-such-top"));
  EXPECT_FALSE(std::filesystem::exists("/usr/no-such-share"));
}

TEST_F(ContainerProcessTest, ProgramsAreRunToTheirEnd) {
  const auto done = RunProgram(ctx_, {"cat"}, "input");
  ASSERT_OK(done);
  EXPECT_EQ(done->output, "input");
  EXPECT_EQ(done->exit_code, 0);
  EXPECT_CODE(RunProgram(ctx_, {"no-such-program"}), Code::kNotFound);
  EXPECT_CODE(RunProgram(ctx_.WithTimeout(std::chrono::milliseconds(200)), {"sleep", "600"}),
              Code::kDeadline);
}

}  // namespace
}  // namespace paddleop::standalone::node
