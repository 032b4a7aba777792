#pragma once

#include <string>
#include <vector>

#include "api/meta/json.h"
#include "standalone/apiserver/kinds.h"
#include "standalone/apiserver/table.h"

namespace paddleop::standalone::apiserver {

struct Column {
  std::string name;
  std::string type = "string";
  std::string format = {};
  int priority = 0;  // above 0: only in wide output
};

struct Printer {
  std::vector<Column> columns;
  std::vector<api::Json> (*cells)(const api::Json& object, WallTime now) = nullptr;
};

// The printer of a built-in kind.
const Printer& PrinterOf(const Kind& kind);
std::vector<api::Json> PodCells(const api::Json& pod, WallTime now);

// "5m" since the time in that field; "<unknown>" without one.
std::string AgeOf(const api::Json& object, WallTime now);
std::string Since(const std::string& time, WallTime now);
std::string OrNone(std::string text);

}  // namespace paddleop::standalone::apiserver
