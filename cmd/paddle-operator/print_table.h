#pragma once

#include <string>
#include <vector>

#include "api/meta/json.h"

namespace paddleop::cmd {

struct TableStyle {
  bool wide = false;
  bool with_namespace = false;
  bool headers = true;
};

// A meta/v1 Table as lines of aligned columns.
std::string PrintTable(const api::Json& table, const TableStyle& style);

}  // namespace paddleop::cmd
