// A volume whose servers misbehave: answers of Redis that never arrive, Redis and MinIO killed and
// started again, or standing still. Operations are retried within their deadline or fail with a
// reason; what was acknowledged stays, and nothing is done by half.
#include <gtest/gtest.h>

#include <random>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "interop/chopping_proxy.h"
#include "interop/juicefs.h"
#include "interop/operations.h"
#include "volume/data/fsck.h"
#include "volume/data/gc.h"

namespace paddleop::testing {
namespace {

using volume::Volume;

constexpr int kOperationsPerRound = 12;

class VolumeFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto redis = Peer::Start("redis", {"--appendonly"});
    ASSERT_OK(redis);
    redis_.emplace(*std::move(redis));
    auto minio = Peer::Start("minio", {"--bucket", "faults"});
    ASSERT_OK(minio);
    minio_.emplace(*std::move(minio));
    proxy_.emplace(static_cast<std::uint16_t>(std::stoi(redis_->Get("port"))));
    volume::Setting setting;
    setting.name = "faults";
    setting.uuid = RandomUuid();
    setting.storage = "minio";
    setting.bucket = minio_->Get("endpoint") + "/faults";
    setting.access_key = minio_->Get("access_key");
    setting.secret_key = Secret(minio_->Get("secret_key"));
    setting.trash_days = 0;
    setting.block_size_kib = 64;
    const std::string url = fmt::format("redis://127.0.0.1:{}/1", proxy_->port());
    ASSERT_OK(volume::FormatVolume(ctx_, url, setting, false, log_, metrics_));
    auto opened = Volume::Open(
        ctx_, url,
        {.session =
             volume::SessionInfo{
                 .version = "1.3.1", .host_name = "test", .mount_point = "test", .process_id = 1},
         .memory_cache_bytes = 0},
        log_, metrics_);
    ASSERT_OK(opened);
    volume_ = *std::move(opened);
  }

  // Runs operations while `fault` is on; returns how many failed.
  Result<int> Round(Script& script, Model& model) {
    int failed = 0;
    const auto lines = script.Make(Model(model), kOperationsPerRound);
    for (const std::string& line : lines) {
      const Context limited = ctx_.WithTimeout(std::chrono::seconds(3));
      const auto done = Player(limited, *volume_).Run(line);
      if (done) {
        model.Apply(line);
        continue;
      }
      ++failed;
      const Code code = done.error().code();
      if (code != Code::kUnavailable && code != Code::kDeadline) {
        return std::unexpected(done.error().Wrap(line));
      }
      // What follows was made up for another state of the volume.
      failed_line_ = line;
      return failed;
    }
    return failed;
  }

  Context ctx_ = Context::Background().WithTimeout(std::chrono::minutes(8));
  Logger log_{LogLevel::kError};
  MetricsRegistry metrics_;
  TempDir dir_ = *TempDir::Create();
  std::optional<Peer> redis_;
  std::optional<Peer> minio_;
  std::optional<ChoppingProxy> proxy_;
  std::unique_ptr<Volume> volume_;
  std::string failed_line_;
};

TEST_F(VolumeFaultsTest, OperationsAreDoneOnceOrNotAtAll) {
  const char* given = std::getenv("FAULTS_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  SCOPED_TRACE(fmt::format("FAULTS_SEED={}", seed));
  Script script(seed);
  Model model;
  int failed = 0;
  for (int i = 0; i < 24; ++i) {
    failed_line_.clear();
    // Something goes wrong while the operations run, and is over when they have ended.
    std::jthread trouble([this, kind = script.Below(4), n = 3 + script.Below(20)] {
      switch (kind) {
        case 0:
          proxy_->CutOneIn(static_cast<std::uint32_t>(n));
          break;
        case 1:
          EXPECT_OK(redis_->Command("kill redis"));
          EXPECT_OK(redis_->Command("start redis"));
          break;
        case 2:
          EXPECT_OK(minio_->Command("kill minio"));
          EXPECT_OK(minio_->Command("start minio"));
          break;
        default:
          EXPECT_OK(minio_->Command("pause minio"));
          SleepBriefly(std::chrono::milliseconds(500));
          EXPECT_OK(minio_->Command("resume minio"));
      }
    });
    auto round = Round(script, model);
    ASSERT_OK(round);
    failed += *round;
    trouble.join();
    proxy_->CutOneIn(0);
    if (!failed_line_.empty()) {
      ASSERT_OK(SettleInterrupted(ctx_, *volume_, failed_line_, model)) << "round " << i;
    } else {
      auto files = FilesOf(*volume_);
      ASSERT_OK(files);
      ASSERT_EQ(model.Differs(*files), "") << "round " << i;
    }
  }
  std::printf("%d operations failed, %lu answers cut off (FAULTS_SEED=%lu)\n", failed,
              proxy_->cuts(), seed);

  ASSERT_OK(volume_->meta().DrainDeletions(ctx_));
  ASSERT_OK(volume_->meta().CloseSession(ctx_));
  ASSERT_OK(volume_->meta().RunMaintenance(ctx_, true));
  auto collected = volume::data::CollectGarbage(
      ctx_, volume_->meta(), volume_->objects(), volume_->setting().layout(),
      {.delete_leaked = true, .min_age = std::chrono::seconds(0)});
  ASSERT_OK(collected);
  auto report = volume::data::Fsck(ctx_, volume_->meta(), volume_->objects(),
                                   volume_->setting().layout(), true);
  ASSERT_OK(report);
  for (const auto& problem : report->problems) ADD_FAILURE() << problem.path << problem.detail;
  auto juicefs = Juicefs::Find(dir_.path());
  ASSERT_OK(juicefs);
  ASSERT_OK(juicefs->CheckClean(fmt::format("redis://127.0.0.1:{}/1", redis_->Get("port"))));
}

}  // namespace
}  // namespace paddleop::testing
