#include "integration/object/minio.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "base/testing/matchers.h"

namespace paddleop::volume::object::testing {
namespace {

// Ends the server while the program still is whole.
class MinioEnvironment final : public ::testing::Environment {
 public:
  void TearDown() override { peer_.reset(); }
  std::unique_ptr<paddleop::testing::Peer> peer_;
};

MinioEnvironment& SharedMinio() {
  static auto* const environment =
      static_cast<MinioEnvironment*>(::testing::AddGlobalTestEnvironment(new MinioEnvironment));
  return *environment;
}
const MinioEnvironment& registered = SharedMinio();

}  // namespace

paddleop::testing::Peer& Minio() {
  auto& peer = SharedMinio().peer_;
  if (!peer) {
    auto started = paddleop::testing::Peer::Start("minio", {"--domain", "localhost"});
    if (!started) {
      std::fprintf(stderr, "minio: %s\n", started.error().ToString().c_str());
      std::abort();
    }
    peer = std::make_unique<paddleop::testing::Peer>(*std::move(started));
  }
  return *peer;
}

std::string BucketAddress(std::string_view bucket) {
  return fmt::format("{}/{}", Minio().Get("endpoint"), bucket);
}

StorageConfig MinioConfig(std::string_view bucket) {
  return {.storage = "minio",
          .bucket = BucketAddress(bucket),
          .access_key = Minio().Get("access_key"),
          .secret_key = Secret(Minio().Get("secret_key"))};
}

std::string NewBucketName() {
  static std::atomic<int> count = 0;
  return fmt::format("bucket-{}", ++count);
}

std::unique_ptr<ObjectStore> NewBucket(StoreOptions options, std::string* name) {
  const std::string bucket = NewBucketName();
  if (name != nullptr) *name = bucket;
  auto store = OpenStore(MinioConfig(bucket), options);
  EXPECT_OK(store);
  if (!store) return nullptr;
  EXPECT_OK((*store)->Create(Context::Background().WithTimeout(std::chrono::seconds(30))));
  return *std::move(store);
}

std::string Boto3(std::string_view action, std::string_view bucket,
                  const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {
      "/usr/bin/python3",
      paddleop::testing::SourceDir() + "/tests/integration/object/boto3_client.py",
      std::string(action), std::string(bucket)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto result = paddleop::testing::RunProcess(
      argv, {"S3_ENDPOINT=" + Minio().Get("endpoint"), "S3_ACCESS_KEY=" + Minio().Get("access_key"),
             "S3_SECRET_KEY=" + Minio().Get("secret_key")});
  EXPECT_OK(result);
  if (!result) return "";
  EXPECT_EQ(result->exit_code, 0) << result->err;
  return result->out;
}

}  // namespace paddleop::volume::object::testing
