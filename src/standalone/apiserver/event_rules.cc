#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "standalone/apiserver/event_forms.h"
#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/internal/kind_rules.h"
#include "standalone/apiserver/internal/names.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr std::size_t kMaxWord = 128;
constexpr std::size_t kMaxNote = 1024;

void CheckLength(const Json& event, const char* field, std::size_t most, bool needed,
                 std::vector<Cause>& out) {
  const std::string text = TextAt(event, field);
  if (text.empty() && needed) out.push_back(Required(field));
  if (text.size() > most) {
    out.push_back(InvalidValue(field, "\"\"", fmt::format("can have at most {} characters", most)));
  }
}

// Of events with an eventTime, which newer recorders write.
void CheckReport(const Json& event, bool core, std::vector<Cause>& out) {
  const char* const reporter = core ? "reportingComponent" : "reportingController";
  const std::string controller = TextAt(event, "reportingComponent");
  if (controller.empty()) out.push_back(Required(reporter));
  if (const auto wrong = WrongQualifiedName(controller)) {
    out.push_back(InvalidValue(reporter, Quoted(controller), *wrong));
  }
  CheckLength(event, "reportingInstance", kMaxWord, true, out);
  CheckLength(event, "action", kMaxWord, true, out);
  CheckLength(event, "reason", kMaxWord, true, out);
  CheckLength(event, "message", kMaxNote, false, out);
}

void CheckSeries(const Json& event, std::vector<Cause>& out) {
  if (ValueAt(event, "series") == nullptr) return;
  if (NumberAt(event, "series.count") < 2) {
    out.push_back(InvalidValue("series.count", "\"\"", "should be at least 2"));
  }
  if (TextAt(event, "series.lastObservedTime").empty()) {
    out.push_back(Required("series.lastObservedTime"));
  }
}

void CheckNew(const Json& event, std::vector<Cause>& out) {
  CheckSeries(event, out);
  if (TextAt(event, "eventTime").empty()) out.push_back(Required("eventTime"));
  const std::string type = TextAt(event, "type");
  if (type != "Normal" && type != "Warning") {
    out.push_back(InvalidValue("type", "\"\"", fmt::format("has invalid value: {}", type)));
  }
  for (const char* field : {"firstTimestamp", "lastTimestamp", "count", "source"}) {
    const Json* value = ValueAt(event, field);
    if (value == nullptr || value->empty() || *value == 0) continue;
    out.push_back(InvalidValue(field, "\"\"", "needs to be unset"));
  }
}

void CheckChanged(const Json& before, const Json& event, std::vector<Cause>& out) {
  if (before.value("series", Json()) != event.value("series", Json())) CheckSeries(event, out);
  for (const char* field :
       {"involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
        "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance"}) {
    const Json now = event.value(field, Json());
    if (before.value(field, Json()) == now) continue;
    out.push_back(InvalidValue(
        field == std::string_view("reportingComponent") ? "reportingController" : field, now.dump(),
        "field is immutable"));
  }
}

}  // namespace

// k8s.io/kubernetes/pkg/apis/core/validation/events.go: strict in the newer group only.
void CheckEvent(const Kind& kind, const Json& object, const Json* before, std::vector<Cause>& out) {
  const bool core = !kind.other_form();
  const Json event = ToStored(kind, object);
  const std::string about = TextAt(event, "involvedObject.namespace");
  const std::string ns = TextAt(event, "metadata.namespace");
  const bool reported = !TextAt(event, "eventTime").empty();
  const bool fits = about.empty() ? ns == "default" || (reported && ns == "kube-system")
                                  : reported || about == ns;
  if (!fits) {
    out.push_back(
        InvalidValue("involvedObject.namespace", Quoted(about), "does not match event.namespace"));
  }
  if (reported) CheckReport(event, core, out);
  if (core) return;
  if (before == nullptr) {
    CheckNew(event, out);
  } else {
    CheckChanged(ToStored(kind, *before), event, out);
  }
}

}  // namespace paddleop::standalone::apiserver
