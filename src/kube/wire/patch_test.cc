#include "kube/wire/patch.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::kube {
namespace {

TEST(JsonPatch, BuildsOperationsInOrder) {
  const ObjectPatch patch = JsonPatch()
                                .Test("/metadata/uid", JsonString("a\"b"))
                                .Add("/spec/x", "[1]")
                                .Replace("/spec/y", "{}")
                                .Remove("/metadata/annotations/" + PointerPart("a/b~c"))
                                .Build("status");
  EXPECT_EQ(patch.type, PatchType::kJson);
  EXPECT_EQ(patch.subresource, "status");
  EXPECT_EQ(patch.body, R"([{"op":"test","path":"/metadata/uid","value":"a\"b"},)"
                        R"({"op":"add","path":"/spec/x","value":[1]},)"
                        R"({"op":"replace","path":"/spec/y","value":{}},)"
                        R"({"op":"remove","path":"/metadata/annotations/a~1b~0c"}])");
}

TEST(PatchBody, WorksPreconditionsIn) {
  ObjectPatch json = JsonPatch().Remove("/a").Build();
  json.preconditions = {.uid = "u", .resource_version = "7"};
  auto body = PatchBody(json);
  ASSERT_OK(body);
  EXPECT_EQ(*body, R"([{"op":"test","path":"/metadata/uid","value":"u"},)"
                   R"({"op":"test","path":"/metadata/resourceVersion","value":"7"},)"
                   R"({"op":"remove","path":"/a"}])");

  body = PatchBody(MergePatch(R"({"spec":{"a":1}})", "", {.uid = "", .resource_version = "7"}));
  ASSERT_OK(body);
  EXPECT_EQ(*body, R"({"metadata":{"resourceVersion":"7"},"spec":{"a":1}})");
  EXPECT_CODE(PatchBody(MergePatch("[", "", {.uid = "u", .resource_version = ""})), Code::kInvalid);
}

struct DifferenceCase {
  const char* before;
  const char* after;
  const char* patch;  // nullptr: equal
};

TEST(MergeDifference, TouchesOnlyWhatChanged) {
  const DifferenceCase cases[] = {
      {R"({"a":1})", R"({"a":1})", nullptr},
      {R"({})", R"({"a":1})", R"({"a":1})"},
      {R"({"a":1,"b":2})", R"({"b":2})", R"({"a":null})"},
      {R"({"o":{"x":1,"y":2}})", R"({"o":{"x":1,"y":3}})", R"({"o":{"y":3}})"},
      {R"({"l":[1,2]})", R"({"l":[2]})", R"({"l":[2]})"},
      {R"({"o":{"x":1}})", R"({"o":7})", R"({"o":7})"},
      {R"({})", R"({"a":null})", nullptr},
      {R"({"a":{"b":1}})", R"({"a":{}})", R"({"a":{"b":null}})"},
  };
  for (const DifferenceCase& test : cases) {
    auto patch = MergeDifference(test.before, test.after);
    ASSERT_OK(patch);
    EXPECT_EQ(*patch, test.patch ? std::optional<std::string>(test.patch) : std::nullopt)
        << test.before << " to " << test.after;
  }
  EXPECT_CODE(MergeDifference("[]", "{}"), Code::kInvalid);
  EXPECT_CODE(MergeDifference("{", "{}"), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::kube
