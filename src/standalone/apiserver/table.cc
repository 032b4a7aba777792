#include "standalone/apiserver/table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/batch/crd.h"
#include "api/meta/time.h"
#include "standalone/apiserver/event_forms.h"
#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/internal/printers.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

struct CustomColumn {
  Column column;
  std::string path;
};

const std::vector<CustomColumn>& CustomColumns(const Kind& kind) {
  static const auto kAll = [] {
    std::map<std::string, std::vector<CustomColumn>> all;
    for (const Json& definition : api::CustomResourceDefinitions()) {
      auto& columns = all[TextAt(definition, "metadata.name")];
      columns.push_back({{"Name", "string", "name", 0}, "metadata.name"});
      for (const Json& column : definition["spec"]["versions"][0]["additionalPrinterColumns"]) {
        columns.push_back({{column["name"], column["type"], "", column.value("priority", 0)},
                           column["jsonPath"].get<std::string>().substr(1)});
      }
    }
    return all;
  }();
  return kAll.at(kind.FullName());
}

Json CustomCell(const CustomColumn& column, const Json& object, WallTime now) {
  const Json* value = ValueAt(object, column.path);
  if (value == nullptr) return nullptr;
  if (column.column.type == "date") {
    return value->is_string() ? Json(Since(value->get<std::string>(), now)) : Json("<unknown>");
  }
  if (column.column.type == "string" && !value->is_string()) return value->dump();
  return *value;
}

Json ColumnJson(const Column& column) {
  return {{"name", column.name},
          {"type", column.type},
          {"format", column.format},
          {"description", ""},
          {"priority", column.priority}};
}

Json Row(const Kind& kind, const StoredObject& object, RowObject with, WallTime now) {
  const Json json = Json::parse(object.json);
  Json row = {{"cells", Json::array()}};
  if (kind.custom) {
    for (const auto& column : CustomColumns(kind)) {
      row["cells"].push_back(CustomCell(column, json, now));
    }
  } else {
    row["cells"] = PrinterOf(kind).cells(kind.other_form() ? ToStored(kind, json) : json, now);
  }
  if (with == RowObject::kMetadata) {
    row["object"] = {{"kind", "PartialObjectMetadata"},
                     {"apiVersion", "meta.k8s.io/v1"},
                     {"metadata", json["metadata"]}};
  } else {
    row["object"] = with == RowObject::kObject ? json : Json(nullptr);
  }
  return row;
}

Json Empty(const Kind& kind) {
  Json table = {{"kind", "Table"},
                {"apiVersion", "meta.k8s.io/v1"},
                {"metadata", Json::object()},
                {"columnDefinitions", Json::array()},
                {"rows", Json::array()}};
  if (kind.custom) {
    for (const auto& column : CustomColumns(kind)) {
      table["columnDefinitions"].push_back(ColumnJson(column.column));
    }
  } else {
    for (const auto& column : PrinterOf(kind).columns) {
      table["columnDefinitions"].push_back(ColumnJson(column));
    }
  }
  return table;
}

}  // namespace

std::string HumanDuration(std::chrono::seconds duration) {
  const auto seconds = duration.count();
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  if (seconds < 120) return fmt::format("{}s", seconds);
  const auto with = [](auto big, const char* unit, auto small, const char* small_unit) {
    return small == 0 ? fmt::format("{}{}", big, unit)
                      : fmt::format("{}{}{}{}", big, unit, small, small_unit);
  };
  const auto minutes = seconds / 60;
  if (minutes < 10) return with(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return fmt::format("{}m", minutes);
  const auto hours = minutes / 60;
  if (hours < 8) return with(hours, "h", minutes % 60, "m");
  if (hours < 48) return fmt::format("{}h", hours);
  const auto days = hours / 24;
  if (hours < 192) return with(days, "d", hours % 24, "h");
  if (days < 730) return fmt::format("{}d", days);
  if (days < 2920) return with(days / 365, "y", days % 365, "d");
  return fmt::format("{}y", days / 365);
}

std::string Since(const std::string& time, WallTime now) {
  const auto parsed = api::ParseMicroTime(time);
  if (!parsed) return "<unknown>";
  return HumanDuration(std::chrono::duration_cast<std::chrono::seconds>(now - *parsed));
}

std::string AgeOf(const Json& object, WallTime now) {
  return Since(TextAt(object, "metadata.creationTimestamp"), now);
}

std::string OrNone(std::string text) { return text.empty() ? "<none>" : std::move(text); }

Json MakeTable(const Kind& kind, std::span<const ObjectPtr> objects, RowObject with, WallTime now) {
  Json table = Empty(kind);
  for (const ObjectPtr& object : objects) table["rows"].push_back(Row(kind, *object, with, now));
  return table;
}

std::string MakeTableText(const Kind& kind, const StoredObject& object, RowObject with,
                          WallTime now) {
  Json table = Empty(kind);
  table["metadata"]["resourceVersion"] = std::to_string(object.revision);
  table["rows"].push_back(Row(kind, object, with, now));
  return api::DumpJson(table);
}

Json PartialObject(const StoredObject& object) {
  return {{"kind", "PartialObjectMetadata"},
          {"apiVersion", "meta.k8s.io/v1"},
          {"metadata", Json::parse(object.json)["metadata"]}};
}

}  // namespace paddleop::standalone::apiserver
