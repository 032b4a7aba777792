#include "base/bytes.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace paddleop {

std::uint64_t ByteReader::Take(std::size_t n) {
  if (in_.size() < n) {
    ok_ = false;
    in_ = {};
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < n; ++i) value = value << 8 | static_cast<unsigned char>(in_[i]);
  in_.remove_prefix(n);
  return value;
}

std::string_view ByteReader::Bytes(std::size_t n) {
  if (in_.size() < n) {
    ok_ = false;
    in_ = {};
    return {};
  }
  const auto taken = in_.substr(0, n);
  in_.remove_prefix(n);
  return taken;
}

std::string FormatSize(std::uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  // Rounding first, so that 9.96 is "10" and not "10.0", and 1023.7 KiB is "1.0 MiB".
  if (std::round(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const double tenths = std::round(value * 10) / 10;
  if (tenths < 10) return fmt::format("{:.1f} {}", tenths, kUnits[unit]);
  return fmt::format("{:.0f} {}", std::round(value), kUnits[unit]);
}

Result<std::uint64_t> ParseSize(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Fail(Code::kInvalid,
                "size \"{}\" {}; write a number with an optional unit such as 512, 64K or 4MiB",
                text, why);
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return bad("is not a number");
  if (number < 0) return bad("is negative");
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  std::string lower;
  for (char c : unit)
    lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  if (lower.ends_with("ib"))
    lower.resize(lower.size() - 2);
  else if (lower.ends_with("b") || lower.ends_with("i"))
    lower.resize(lower.size() - 1);
  static constexpr std::string_view kPrefixes = "kmgtpe";
  double factor = 1;
  if (!lower.empty()) {
    const auto power = kPrefixes.find(lower[0]);
    if (lower.size() != 1 || power == std::string_view::npos) return bad("has an unknown unit");
    factor = std::pow(1024.0, static_cast<double>(power + 1));
  }
  const double bytes = number * factor;
  if (bytes >= 18446744073709551616.0) return bad("is too large");
  return static_cast<std::uint64_t>(bytes);
}

std::string FormatCount(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

}  // namespace paddleop
