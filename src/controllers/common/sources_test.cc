#include "controllers/common/sources.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::controllers {
namespace {

SecretView With(const std::map<std::string, std::string>& values) {
  auto secret = std::make_shared<api::SecretObject>();
  for (const auto& [key, value] : values) secret->data.emplace(key, Secret(value));
  return {SecretView::State::kFound, {"n", "s"}, secret};
}

TEST(Sources, AnUnknownSchemeIsRefusedByName) {
  EXPECT_OK(CheckSource("bos://b.bj.bcebos.com/p", "samplefs", "f"));
  EXPECT_OK(CheckSource("/data/set", "samplefs", "f"));
  auto refused = CheckSource("oss://ak:sk@b.host/p", "samplefs", "spec.source.uri");
  EXPECT_CODE(refused, Code::kInvalid);
  EXPECT_NE(refused.error().message().find("spec.source.uri: unknown scheme \"oss\""),
            std::string::npos);
  EXPECT_EQ(refused.error().message().find("sk"), std::string::npos);
  EXPECT_OK(CheckSource("oss://b.host/p", "juicefs", "f"));
  EXPECT_CODE(CheckSource("bucket", "samplefs", "f"), Code::kInvalid);
}

TEST(Sources, C28_KeysMayHoldAnything) {
  const auto source = MakeSource("s3://AK:s/k@x+y@bucket.host/p", "", {});
  EXPECT_EQ(source.uri, "s3://bucket.host/p");
  EXPECT_EQ(source.credentials.access_key, "AK");
  EXPECT_EQ(source.credentials.secret_key.Reveal(), "s/k@x+y");
  EXPECT_EQ(MakeSource("s3://AK:s%2Fk@b.host/p", "", {}).credentials.secret_key.Reveal(), "s/k");
}

TEST(Sources, KeysComeFromTheSecretTrimmed) {
  const auto source =
      MakeSource("bos://b.host/p", "x", With({{"access-key", "AK\n"}, {"secret-key", " S/K@ \n"}}));
  EXPECT_EQ(source.credentials.access_key, "AK");
  EXPECT_EQ(source.credentials.secret_key.Reveal(), "S/K@");
  EXPECT_EQ(source.path, "x");
  EXPECT_TRUE(MakeSource("bos://b.host/p", "", {}).credentials.empty()) << "a public bucket";
  EXPECT_EQ(MakeSource("/d", "", {}).uri, "file:///d");
}

TEST(Sources, KeysOfTheVolumeAreForItsOwnKindOfStore) {
  EXPECT_TRUE(SharesKeys("s3://b", With({{"storage", "minio"}})));
  EXPECT_FALSE(SharesKeys("bos://b", With({{"storage", "redis"}})));
  EXPECT_FALSE(SharesKeys("bos://b", {}));
}

}  // namespace
}  // namespace paddleop::controllers
