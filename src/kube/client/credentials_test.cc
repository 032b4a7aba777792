#include "kube/client/credentials.h"

#include <gmock/gmock.h>

#include <thread>

#include "api/meta/time.h"
#include "base/posix.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "kube/client/exec_plugin.h"

namespace paddleop::kube {
namespace {

using paddleop::testing::ManualClock;
using ::testing::HasSubstr;

ExecPlugin Shell(const std::string& script) {
  ExecPlugin plugin;
  plugin.command = "sh";
  plugin.args = {"-c", script};
  return plugin;
}

constexpr char kPrint[] =
    R"(printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":%s}' )";

TEST(ExecPlugin, RunsOnceUntilTheCredentialRunsOut) {
  const auto dir = TempDir::Create();
  ASSERT_OK(dir);
  ManualClock clock;
  const std::string expires = api::FormatMicroTime(clock.WallNow() + std::chrono::minutes(5));
  const auto credentials = ExecCredentials(
      Shell("echo x >> " + dir->File("runs") + "; " + kPrint + R"('{"token":"t'$(wc -l < )" +
            dir->File("runs") + R"()'","expirationTimestamp":")" + expires + R"("}')"),
      clock);
  const Context ctx = Context::Background();
  auto first = credentials->Get(ctx);
  ASSERT_OK(first);
  EXPECT_EQ(first->token.Reveal(), "t1");
  EXPECT_EQ(credentials->Get(ctx)->token.Reveal(), "t1");
  clock.Advance(std::chrono::minutes(5) - std::chrono::seconds(9));
  EXPECT_EQ(credentials->Get(ctx)->token.Reveal(), "t2") << "renewed a little early";
  credentials->Invalidate();
  EXPECT_EQ(credentials->Get(ctx)->token.Reveal(), "t3");
}

TEST(ExecPlugin, IsToldWhatItIsFor) {
  ExecPlugin plugin =
      Shell(std::string(kPrint) +
            R"('{"token":"'$(printf '%s' "$KUBERNETES_EXEC_INFO" | tr -d '"')'"}')");
  plugin.cluster_json = R"({"server":"https://h"})";
  const auto answer = RunExecPlugin(Context::Background(), plugin);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->credential.token.Reveal(),
            "{apiVersion:client.authentication.k8s.io/v1,kind:ExecCredential,"
            "spec:{interactive:false,cluster:{server:https://h}}}");
}

TEST(ExecPlugin, MayAnswerWithACertificate) {
  const auto answer = RunExecPlugin(
      Context::Background(),
      Shell(std::string(kPrint) + R"('{"clientCertificateData":"C","clientKeyData":"K"}')"));
  ASSERT_OK(answer);
  EXPECT_EQ(answer->credential.cert_pem, "C");
  EXPECT_EQ(answer->credential.key_pem.Reveal(), "K");
  EXPECT_FALSE(answer->expires);
}

TEST(ExecPlugin, FailuresSayWhatIsWrong) {
  const Context ctx = Context::Background();
  EXPECT_CODE(RunExecPlugin(ctx, Shell("exit 3")), Code::kPermission);
  EXPECT_CODE(RunExecPlugin(ctx, Shell("echo nonsense")), Code::kInvalid);
  EXPECT_CODE(RunExecPlugin(ctx, Shell(std::string(kPrint) + "'{}'")), Code::kInvalid);
  EXPECT_CODE(RunExecPlugin(ctx, Shell(std::string(kPrint) + R"('{"clientKeyData":"K"}')")),
              Code::kInvalid);
  ExecPlugin slow = Shell("sleep 60");
  slow.timeout = std::chrono::milliseconds(50);
  EXPECT_CODE(RunExecPlugin(ctx, slow), Code::kDeadline);
  ExecPlugin missing;
  missing.command = "/nonexistent/plugin";
  missing.install_hint = "install it from the shop";
  const auto answer = RunExecPlugin(ctx, missing);
  ASSERT_CODE(answer, Code::kNotFound);
  EXPECT_THAT(answer.error().message(), HasSubstr("install it from the shop"));
  EXPECT_CODE(RunExecPlugin(ctx, Shell("head -c 2000000 /dev/zero")), Code::kInvalid);
}

TEST(ExecPlugin, OneThatTakesTooLongEndsWithAllItStarted) {
  const auto dir = TempDir::Create();
  ASSERT_OK(dir);
  ExecPlugin slow = Shell("sleep 600 & echo $! > " + dir->File("pid") + "; wait");
  slow.timeout = std::chrono::seconds(1);
  ASSERT_CODE(RunExecPlugin(Context::Background(), slow), Code::kDeadline);
  const auto pid = ReadFile(dir->File("pid"));
  ASSERT_OK(pid);
  const auto gone = [&] {
    const auto stat = ReadFile(fmt::format("/proc/{}/stat", std::stoi(*pid)));
    return !stat || stat->contains(") Z ");  // ended, and nobody may have asked for its status yet
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!gone() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(gone());
}

}  // namespace
}  // namespace paddleop::kube
