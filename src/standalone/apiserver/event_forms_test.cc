#include "standalone/apiserver/event_forms.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "standalone/apiserver/internal/kind_rules.h"
#include "standalone/apiserver/table.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;
using ::testing::ElementsAre;

const Kind& NewerEvents() { return *FindKind("events.k8s.io", "v1", "events"); }

Json CoreEvent() {
  return Json::parse(R"({"apiVersion": "v1", "kind": "Event",
    "metadata": {"name": "e", "namespace": "n"}, "message": "what happened", "reason": "Started",
    "type": "Normal", "count": 3, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"},
    "source": {"component": "kubelet"}, "firstTimestamp": "2024-01-01T00:00:00Z",
    "lastTimestamp": "2024-01-01T00:00:10Z", "reportingComponent": "kubelet"})");
}

TEST(EventFormsTest, OneEventHasTwoForms) {
  const Json newer = FromStored(NewerEvents(), CoreEvent());
  EXPECT_EQ(newer, Json::parse(R"({"apiVersion": "events.k8s.io/v1", "kind": "Event",
    "metadata": {"name": "e", "namespace": "n"}, "note": "what happened", "reason": "Started",
    "type": "Normal", "deprecatedCount": 3,
    "regarding": {"kind": "Pod", "name": "p", "namespace": "n"},
    "deprecatedSource": {"component": "kubelet"},
    "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2024-01-01T00:00:10Z", "reportingController": "kubelet"})"));
  EXPECT_EQ(ToStored(NewerEvents(), newer), CoreEvent());
  EXPECT_EQ(FromStored(CoreKind("Event"), CoreEvent()), CoreEvent());
}

TEST(EventFormsTest, FieldsAreSelectedByTheNamesOfTheForm) {
  const ObjectPtr stored = MakeObject(CoreKind("Event"), CoreEvent(), 7);
  const ObjectPtr shown = ShownAs(NewerEvents(), stored);
  EXPECT_EQ(shown->revision, 7u);
  EXPECT_EQ(shown->Field("regarding.name"), "p");
  EXPECT_EQ(shown->Field("reportingController"), "kubelet");
  EXPECT_EQ(shown->Field("involvedObject.name"), std::nullopt);
  EXPECT_EQ(stored->Field("involvedObject.name"), "p");
  EXPECT_EQ(ShownAs(CoreKind("Event"), stored), stored);
}

TEST(EventFormsTest, BothFormsArePrintedAlike) {
  const ObjectPtr stored = MakeObject(CoreKind("Event"), CoreEvent(), 7);
  const ObjectPtr shown = ShownAs(NewerEvents(), stored);
  const WallTime now{};
  EXPECT_EQ(MakeTable(CoreKind("Event"), {&stored, 1}, RowObject::kNone, now),
            MakeTable(NewerEvents(), {&shown, 1}, RowObject::kNone, now));
}

std::vector<std::string> Wrong(const Kind& kind, const Json& event, const Json* before = nullptr) {
  std::vector<Cause> causes;
  CheckEvent(kind, event, before, causes);
  std::vector<std::string> out;
  for (const Cause& cause : causes) out.push_back(cause.field + ": " + cause.message);
  return out;
}

TEST(EventFormsTest, TheNewerGroupIsStrict) {
  EXPECT_THAT(Wrong(CoreKind("Event"), CoreEvent()), ElementsAre());
  EXPECT_THAT(Wrong(NewerEvents(), FromStored(NewerEvents(), CoreEvent())),
              ElementsAre("eventTime: Required value",
                          "firstTimestamp: Invalid value: \"\": needs to be unset",
                          "lastTimestamp: Invalid value: \"\": needs to be unset",
                          "count: Invalid value: \"\": needs to be unset",
                          "source: Invalid value: \"\": needs to be unset"));
  Json good = Json::parse(R"({"metadata": {"name": "e", "namespace": "n"}, "note": "a",
    "reason": "Started", "type": "Normal", "action": "Start", "regarding": {"namespace": "n"},
    "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "x.io/y",
    "reportingInstance": "y-0", "deprecatedSource": {}})");
  EXPECT_THAT(Wrong(NewerEvents(), good), ElementsAre());
  Json counted = good;
  counted["series"] = {{"count", 2}, {"lastObservedTime", "2024-01-01T00:00:01.000000Z"}};
  EXPECT_THAT(Wrong(NewerEvents(), counted, &good), ElementsAre());
  counted["note"] = "b";
  EXPECT_THAT(Wrong(NewerEvents(), counted, &good),
              ElementsAre("message: Invalid value: \"b\": field is immutable"));
}

}  // namespace
}  // namespace paddleop::standalone::apiserver
