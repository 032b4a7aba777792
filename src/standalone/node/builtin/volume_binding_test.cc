#include "standalone/node/builtin/volume_binding.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::standalone::node {
namespace {

std::shared_ptr<const VolumeView> Volume(const std::string& name, const std::string& size,
                                         const std::string& more = "") {
  auto view = VolumeView::Parse(R"({"metadata":{"name":")" + name + R"("},"spec":{"capacity":
      {"storage":")" + size + R"("},"accessModes":["ReadWriteMany"],"storageClassName":"s")" +
                                more + "}}");
  EXPECT_OK(view);
  return std::make_shared<const VolumeView>(*view);
}

ClaimView Claim(const std::string& size, const std::string& more = "") {
  auto view = ClaimView::Parse(R"({"metadata":{"name":"c","namespace":"n","uid":"u"},"spec":{
      "accessModes":["ReadWriteMany"],"storageClassName":"s","resources":{"requests":{"storage":")" +
                               size + R"("}})" + more + "}}");
  EXPECT_OK(view);
  return *view;
}

TEST(ChooseVolume, TakesTheSmallestThatFits) {
  std::string why;
  const auto* chosen = ChooseVolume(
      Claim("5Gi"), {Volume("a", "1Gi"), Volume("b", "20Gi"), Volume("c", "10Gi")}, &why);
  ASSERT_NE(chosen, nullptr);
  EXPECT_EQ(chosen->volume.metadata.name, "c");
  EXPECT_EQ(ChooseVolume(Claim("50Gi"), {Volume("b", "20Gi")}, &why), nullptr);
  EXPECT_EQ(why, "no persistent volumes available for this claim");
}

TEST(ChooseVolume, ObeysNames) {
  std::string why;
  const ClaimView named = Claim("1Gi", R"(,"volumeName":"b")");
  EXPECT_EQ(
      ChooseVolume(named, {Volume("a", "1Gi"), Volume("b", "1Gi")}, &why)->volume.metadata.name,
      "b");
  EXPECT_EQ(ChooseVolume(named, {Volume("a", "1Gi")}, &why), nullptr);
  EXPECT_EQ(why, "volume \"b\" does not exist");
  why.clear();
  const auto taken =
      Volume("b", "1Gi", R"(,"claimRef":{"namespace":"n","name":"other","uid":"x"})");
  EXPECT_EQ(ChooseVolume(named, {taken}, &why), nullptr);
  EXPECT_EQ(why, "volume \"b\" already bound to a different claim.");
  const auto ours = Volume("z", "1Gi", R"(,"claimRef":{"namespace":"n","name":"c"})");
  EXPECT_EQ(ChooseVolume(Claim("1Gi"), {Volume("a", "1Gi"), ours}, &why), ours.get())
      << "a volume that names the claim is kept for it";
}

}  // namespace
}  // namespace paddleop::standalone::node
