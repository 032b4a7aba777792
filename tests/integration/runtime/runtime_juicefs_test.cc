// A runtime of driver juicefs: the official client does the work, on its own mount.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "integration/runtime/runtime_set.h"
#include "interop/juicefs.h"
#include "runtime/server/juicefs_engine.h"
#include "runtime/server/server.h"
#include "runtime/server/testing/auth_dir.h"

namespace paddleop::testing {
namespace {

using runtime::JobKind;
using runtime::JobRequest;
using runtime::JobState;
using ::testing::HasSubstr;

constexpr std::size_t kFiles = 60;
constexpr std::size_t kSize = 5000;

class RuntimeJuicefs : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create("runtime-juicefs");
    ASSERT_OK(dir);
    dir_.emplace(*std::move(dir));
    auto juicefs = Juicefs::Find(dir_->File("home"));
    ASSERT_OK(juicefs);
    juicefs_.emplace(*std::move(juicefs));
    auto program = Peer::Path("juicefs");
    ASSERT_OK(program);
    const std::string meta = "sqlite3://" + dir_->File("meta.db");
    ASSERT_OK(juicefs_->Run(
        {"format", "--storage=file", "--bucket=" + dir_->File("blocks") + "/", meta, "samples"}));
    auto mount = juicefs_->MountAt(meta, dir_->File("mount"));
    ASSERT_OK(mount);
    mount_ = *std::move(mount);
    auto files = MakeFiles(dir_->File("source"), kFiles, kSize);
    ASSERT_OK(files);
    files_ = *std::move(files);

    ASSERT_OK(runtime::testing::WriteAuthDir(dir_->File("auth"), authority_, 0));
    auto server =
        runtime::Server::Start({.index = 0,
                                .address = "127.0.0.1",
                                .port = 0,
                                .auth_dir = dir_->File("auth"),
                                .open =
                                    [this, juice = *program + "/juicefs"](const Context& ctx) {
                                      return runtime::OpenJuicefsEngine(
                                          ctx,
                                          {.set = "set",
                                           .mount = mount_->path(),
                                           .program = juice,
                                           .cache_directories = {dir_->File("home") + "/cache"},
                                           .source_dirs = {dir_->File("source")}},
                                          log_);
                                    }},
                               log_, metrics_);
    ASSERT_OK(server);
    server_ = *std::move(server);
    auto client =
        runtime::OpenRuntimeClient({.address = fmt::format("127.0.0.1:{}", server_->port()),
                                    .tls_name = runtime::RuntimeTlsName("set", "ns", 0),
                                    .ca_pem = authority_.cert_pem(),
                                    .token = Secret(runtime::testing::kToken),
                                    .timeout = std::chrono::seconds(60)});
    ASSERT_OK(client);
    client_ = *std::move(client);
    ASSERT_TRUE(WaitFor([&] {
      auto info = client_->GetCacheInfo(ctx_);
      return info && info->ready;
    }));
  }
  void TearDown() override {
    server_.reset();
    mount_.reset();
  }
  runtime::JobResult Run(const JobRequest& request) {
    runtime::JobResult last;
    auto posted = client_->Post(ctx_, request);
    EXPECT_OK(posted);
    EXPECT_TRUE(WaitFor(
        [&] {
          auto result = client_->GetResult(ctx_, request.kind, request.name);
          if (result) last = *result;
          return result && Finished(result->state);
        },
        std::chrono::seconds(120)));
    return last;
  }

  const Context ctx_ = Context::Background();
  std::optional<TempDir> dir_;
  std::optional<Juicefs> juicefs_;
  std::unique_ptr<Juicefs::Mount> mount_;
  std::vector<std::string> files_;
  net::testing::CertificateAuthority authority_;
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  std::unique_ptr<runtime::Server> server_;
  std::unique_ptr<runtime::RuntimeClient> client_;
};

TEST_F(RuntimeJuicefs, EveryKindOfJob) {
  JobRequest sync{.kind = JobKind::kSync, .name = RandomUuid()};
  sync.sources = {{.uri = "file://" + dir_->File("source") + "/", .path = "train"}};
  const auto synced = Run(sync);
  ASSERT_EQ(synced.state, JobState::kSucceeded) << synced.message;
  EXPECT_EQ(synced.progress.files.done, static_cast<std::int64_t>(kFiles)) << synced.message;
  for (const std::string& file : files_) {
    auto text = ReadFile(mount_->path() + "/train/" + file);
    ASSERT_OK(text);
    EXPECT_TRUE(*text == ContentOf(file, kSize));
  }
  JobRequest warmup{.kind = JobKind::kWarmup, .name = RandomUuid()};
  warmup.warmup.paths = {"train"};
  const auto warmed = Run(warmup);
  EXPECT_EQ(warmed.state, JobState::kSucceeded) << warmed.message;
  EXPECT_EQ(warmed.progress.files.done, static_cast<std::int64_t>(kFiles));
  EXPECT_TRUE(WaitFor([&] {
    auto info = client_->GetCacheInfo(ctx_);
    return info && info->cached_size == kFiles * kSize && info->total_size == kFiles * kSize &&
           info->total_files == kFiles;
  }));
  const auto cleared = Run({.kind = JobKind::kClear, .name = RandomUuid()});
  EXPECT_EQ(cleared.state, JobState::kSucceeded) << cleared.message;
  EXPECT_TRUE(WaitFor([&] {
    auto info = client_->GetCacheInfo(ctx_);
    return info && info->cached_size < kFiles * kSize;
  }));
  JobRequest rmr{.kind = JobKind::kRmr, .name = RandomUuid()};
  rmr.paths.paths = {"train/class-000"};
  const auto removed = Run(rmr);
  EXPECT_EQ(removed.state, JobState::kSucceeded) << removed.message;
  EXPECT_FALSE(std::filesystem::exists(mount_->path() + "/train/class-000"));
  EXPECT_TRUE(std::filesystem::exists(mount_->path() + "/train/class-001"));

  sync.name = RandomUuid();
  sync.sources[0].uri = "file:///etc/";
  const auto outside = Run(sync);
  EXPECT_EQ(outside.state, JobState::kFailed);
  EXPECT_THAT(outside.message, HasSubstr("--source-dir"));
}

}  // namespace
}  // namespace paddleop::testing
