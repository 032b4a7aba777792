#include "api/batch/rules.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/posix.h"
#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

// The same file is put to a real API server by tests/integration/crd_test: what one refuses and the
// other accepts is a bug.
Json Cases() {
  const auto text =
      ReadFile(std::string(std::getenv("PADDLEOP_SOURCE_DIR")) + "/tests/data/validation.json");
  EXPECT_OK(text);
  auto json = ParseJson(*text);
  EXPECT_OK(json);
  return *std::move(json);
}

template <class T>
T Make(const Json& test, const Json& spec, const std::string& phase = {}) {
  Json object = {{"metadata", {{"name", test["name"]}}}, {"spec", spec}};
  if (!phase.empty()) object["status"]["phase"] = phase;
  auto made = T::FromJson(object);
  EXPECT_OK(made) << test["case"];
  return *std::move(made);
}

void ExpectRefusals(const Json& test, const std::vector<Violation>& found,
                    std::set<std::string>& seen) {
  const std::string label = test["case"];
  EXPECT_EQ(found.size(), test["refused"].size()) << label << ": " << Describe(found);
  for (const std::string expected : test["refused"]) {
    const auto match = [&](const Violation& v) { return v.message.starts_with(expected); };
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), match)) << label << ": " << Describe(found);
  }
  for (const auto& violation : found) seen.insert(violation.field + violation.message);
}

TEST(Rules, RefuseWhatTheApiServerRefuses) {
  std::set<std::string> seen;
  const Json cases = Cases();
  for (const Json& test : cases["create"]) {
    const std::string kind = test["kind"];
    if (kind == "PaddleJob")
      ExpectRefusals(test, Validate(Make<PaddleJob>(test, test["spec"])), seen);
    if (kind == "SampleSet")
      ExpectRefusals(test, Validate(Make<SampleSet>(test, test["spec"])), seen);
    if (kind == "SampleJob")
      ExpectRefusals(test, Validate(Make<SampleJob>(test, test["spec"])), seen);
  }
  for (const Json& test : cases["update"]) {
    const auto before = Make<SampleSet>(test, test["before"], test["phase"]);
    const auto after = Make<SampleSet>(test, test["after"], test["phase"]);
    ExpectRefusals(test, ValidateUpdate(before, after), seen);
  }
  // Every rule has a case that only it refuses, at least on one role.
  std::set<std::string_view> messages;
  for (const auto& rule : PaddleJobRules()) messages.insert(rule.message);
  for (const auto& rule : SampleSetRules()) messages.insert(rule.message);
  for (const auto& rule : SampleJobRules()) messages.insert(rule.message);
  for (const auto message : messages) {
    if (message.starts_with("spec is missing"))
      continue;  // covered below; a case always has a spec
    EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [&](auto& s) {
      return s.ends_with(message);
    })) << message;
  }
}

TEST(Rules, MissingSpecIsExplained) {
  const auto job = PaddleJob::FromJson(Json{{"metadata", {{"name", "a"}}}});
  ASSERT_OK(job);
  EXPECT_NE(Describe(Validate(*job)).find("spec is missing"), std::string::npos);
}

TEST(Rules, DescribeJoinsThem) {
  EXPECT_EQ(Describe({{"spec", "a"}, {"", "b"}}), "spec: a; b");
  EXPECT_EQ(Describe({}), "");
}

}  // namespace
}  // namespace paddleop::api
