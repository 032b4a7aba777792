#include "api/batch/crd.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/posix.h"
#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

TEST(Crds, FitIntoTheAnnotationOfKubectlApply) {
  for (const Json& definition : CustomResourceDefinitions()) {
    EXPECT_LT(DumpJson(definition).size(), 240'000u) << definition["metadata"]["name"];
  }
}

TEST(Crds, PrintTheColumnsThatUsersKnow) {
  const auto all = CustomResourceDefinitions();
  const auto columns = [](const Json& definition) {
    std::string out;
    for (const Json& column : definition["spec"]["versions"][0]["additionalPrinterColumns"]) {
      if (column.contains("priority")) continue;
      out += column["name"].get<std::string>() + "=" + column["jsonPath"].get<std::string>() + " ";
    }
    return out;
  };
  EXPECT_EQ(columns(all[0]),
            "Status=.status.phase Mode=.status.mode Age=.metadata.creationTimestamp ");
  EXPECT_EQ(columns(all[1]),
            "TOTAL SIZE=.status.cacheStatus.totalSize CACHED SIZE=.status.cacheStatus.cachedSize "
            "AVAIL SPACE=.status.cacheStatus.diskAvail Runtime=.status.runtimeStatus.runtimeReady "
            "PHASE=.status.phase AGE=.metadata.creationTimestamp ");
  EXPECT_EQ(columns(all[2]), "PHASE=.status.phase ");
  EXPECT_EQ(all[0]["spec"]["names"]["shortNames"], Json::array({"pdj"}));
}

// A structural schema gives every node a type, unless it is an int-or-string.
void ExpectStructural(const Json& schema, const std::string& path) {
  EXPECT_FALSE(schema.contains("$ref")) << path;
  EXPECT_FALSE(schema.contains("description")) << path;
  EXPECT_TRUE(schema.contains("type") || schema.contains("x-kubernetes-int-or-string")) << path;
  if (schema.contains("properties")) {
    for (const auto& [name, property] : schema["properties"].items())
      ExpectStructural(property, fmt::format("{}.{}", path, name));
  }
  if (schema.contains("items")) ExpectStructural(schema["items"], path + "[]");
  if (schema.contains("additionalProperties"))
    ExpectStructural(schema["additionalProperties"], path + "{}");
}

TEST(Crds, AreStructural) {
  for (const Json& definition : CustomResourceDefinitions()) {
    ExpectStructural(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
  }
}

TEST(Crds, TheCheckedInManifestIsThisOne) {
  const auto text =
      ReadFile(std::string(std::getenv("PADDLEOP_SOURCE_DIR")) + "/deploy/v1/crd.yaml");
  ASSERT_OK(text);
  EXPECT_TRUE(*text == CrdManifest())
      << "run: build/dev/bin/paddle-operator crds > deploy/v1/crd.yaml";
}

}  // namespace
}  // namespace paddleop::api
