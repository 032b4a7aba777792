#include "print_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paddleop::cmd {
namespace {

using api::Json;
using Line = std::vector<std::string>;

std::string Cell(const Json& cell) {
  if (cell.is_null()) return "";
  std::string text = cell.is_string() ? cell.get<std::string>() : cell.dump();
  return text.substr(0, text.find('\n'));
}

// Characters, not bytes.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string PrintTable(const Json& table, TableStyle& style) {
  std::vector<Line> lines(1);
  std::vector<std::size_t> shown;
  if (style.with_namespace) lines[0].emplace_back("NAMESPACE");
  const Json columns = table.value("columnDefinitions", Json::array());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].value("priority", 0) > 0 && !style.wide) continue;
    shown.push_back(i);
    std::string name = columns[i].value("name", "");
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    lines[0].push_back(std::move(name));
  }
  if (!style.headers) lines.clear();
  const Json rows = table.value("rows", Json::array());
  for (const Json& row : rows) {
    Line line;
    if (style.with_namespace) {
      line.push_back(row.at("object").at("metadata").value("namespace", ""));
    }
    for (const std::size_t i : shown) line.push_back(Cell(row.at("cells").at(i)));
    lines.push_back(std::move(line));
  }
  std::vector<std::size_t>& widths = style.widths;
  for (const Line& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  std::string out;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      out += line[i];
      if (i + 1 < line.size()) out += std::string(widths[i] - Width(line[i]) + 3, ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace paddleop::cmd
