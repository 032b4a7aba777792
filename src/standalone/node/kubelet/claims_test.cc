#include "standalone/node/kubelet/claims.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::standalone::node {
namespace {

TEST(ClaimSource, ReadsOursAndHostPaths) {
  const auto ours = ReadClaimSource(R"({"metadata":{"name":"imagenet"},"spec":{"csi":{
      "driver":"csi.samplefs.paddlepaddle.org","volumeAttributes":{"mountOptions":"cache-size=1"},
      "nodePublishSecretRef":{"name":"s","namespace":"n"}}}})");
  ASSERT_OK(ours);
  EXPECT_EQ(ours->options, "cache-size=1");
  EXPECT_EQ(ours->secret, (api::ObjectKey{"n", "s"}));
  EXPECT_EQ(ReadClaimSource(R"({"spec":{"hostPath":{"path":"/data"}}})")->host_path, "/data");
  const auto other = ReadClaimSource(R"({"metadata":{"name":"x"},"spec":{"csi":{
      "driver":"csi.juicefs.com"}}})");
  ASSERT_CODE(other, Code::kNotSupported);
  EXPECT_NE(other.error().message().find("csi.juicefs.com"), std::string::npos);
}

TEST(ClaimSource, LogicalNodesHaveCachesOfTheirOwn) {
  EXPECT_EQ(WithCachePrefix("a=b,cache-dir=/x:/y/z,cache-size=3", "/n/0"),
            "a=b,cache-dir=/n/0/x:/n/0/y/z,cache-size=3");
  EXPECT_EQ(WithCachePrefix("cache-dir=memory", "/n"), "cache-dir=memory");
  EXPECT_EQ(WithCachePrefix("", "/n"), "");
}

}  // namespace
}  // namespace paddleop::standalone::node
