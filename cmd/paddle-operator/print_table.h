#pragma once

#include <string>
#include <vector>

#include "api/meta/json.h"

namespace paddleop::cmd {

struct TableStyle {
  bool wide = false;
  bool with_namespace = false;
  bool headers = true;
  std::vector<std::size_t> widths = {};  // of the columns so far: what follows is aligned to them
};

// A meta/v1 Table as lines of aligned columns.
std::string PrintTable(const api::Json& table, TableStyle& style);

}  // namespace paddleop::cmd
