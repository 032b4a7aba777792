#include "api/meta/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace paddleop::api {
namespace {

__extension__ using Int128 = __int128;

constexpr Int128 kNano = 1'000'000'000;
// Well below 2^127, so that one multiplication by 10 or 1024 never overflows.
constexpr Int128 kLargest = static_cast<Int128>(10'000'000'000'000'000'000ULL) * kNano;

struct Suffix {
  std::string_view text;
  int exponent;  // of 10, or of 1024 for binary
};
constexpr std::array<Suffix, 10> kDecimal = {{{"n", -9},
                                              {"u", -6},
                                              {"m", -3},
                                              {"", 0},
                                              {"k", 3},
                                              {"M", 6},
                                              {"G", 9},
                                              {"T", 12},
                                              {"P", 15},
                                              {"E", 18}}};
constexpr std::array<Suffix, 6> kBinary = {
    {{"Ki", 1}, {"Mi", 2}, {"Gi", 3}, {"Ti", 4}, {"Pi", 5}, {"Ei", 6}}};

std::string Print(Int128 value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  if (negative) value = -value;
  std::string out;
  for (; value > 0; value /= 10)
    out.push_back(static_cast<char>('0' + static_cast<int>(value % 10)));
  if (negative) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

// value * 10^exponent, rounded away from zero where digits are lost. False on overflow.
bool Scale(Int128& value, int exponent) {
  for (; exponent > 0; --exponent) {
    value *= 10;
    if (value > kLargest || value < -kLargest) return false;
  }
  for (; exponent < 0 && value != 0; ++exponent) {
    const bool lossy = value % 10 != 0;
    value /= 10;
    if (lossy) value += value < 0 ? -1 : 1;
  }
  return true;
}

}  // namespace

Result<Quantity> Quantity::Parse(std::string_view text) {
  const auto bad = [&] {
    return Fail(Code::kInvalid, "\"{}\" is not a quantity (examples: 500m, 2, 1.5Gi)", text);
  };
  std::size_t pos = 0;
  bool negative = false;
  if (pos < text.size() && (text[pos] == '+' || text[pos] == '-')) negative = text[pos++] == '-';
  Int128 value = 0;
  int fraction = 0;
  bool digits = false;
  bool point = false;
  for (; pos < text.size(); ++pos) {
    const char c = text[pos];
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      digits = true;
      if (fraction >= 12) continue;  // beyond what a quantity can hold
      value = value * 10 + (c - '0');
      if (value > kLargest) return bad();
      if (point) ++fraction;
    } else {
      break;
    }
  }
  if (!digits) return bad();

  Quantity out;
  const auto suffix = text.substr(pos);
  int exponent = 9 - fraction;
  if (const auto* it =
          std::find_if(kBinary.begin(), kBinary.end(), [&](auto& s) { return s.text == suffix; });
      it != kBinary.end()) {
    out.form_ = Form::kBinary;
    for (int i = 0; i < it->exponent; ++i) {
      value *= 1024;
      if (value > kLargest) return bad();
    }
  } else if (const auto* decimal = std::find_if(kDecimal.begin(), kDecimal.end(),
                                                [&](auto& s) { return s.text == suffix; });
             decimal != kDecimal.end()) {
    exponent += decimal->exponent;
  } else if (suffix.size() >= 2 && (suffix[0] == 'e' || suffix[0] == 'E')) {
    int power = 0;
    const char* begin = suffix.data() + (suffix[1] == '+' ? 2 : 1);
    const char* end = suffix.data() + suffix.size();
    const auto [stop, error] = std::from_chars(begin, end, power);
    if (error != std::errc{} || stop != end || power < -30 || power > 30) return bad();
    exponent += power;
  } else {
    return bad();
  }
  if (!Scale(value, exponent)) return bad();
  out.nano_ = negative ? -value : value;
  return out;
}

Quantity Quantity::FromInteger(std::int64_t value, Form form) {
  Quantity out;
  out.nano_ = static_cast<Int128>(value) * kNano;
  out.form_ = form;
  return out;
}

std::string Quantity::ToString() const {
  if (nano_ == 0) return "0";
  if (form_ == Form::kBinary && nano_ % kNano == 0) {
    Int128 value = nano_ / kNano;
    std::size_t power = 0;
    while (power < kBinary.size() && value % 1024 == 0) {
      value /= 1024;
      ++power;
    }
    return Print(value) + std::string(power == 0 ? "" : kBinary[power - 1].text);
  }
  Int128 value = nano_;
  std::size_t power = 0;
  while (power + 1 < kDecimal.size() && value % 1000 == 0) {
    value /= 1000;
    ++power;
  }
  return Print(value) + std::string(kDecimal[power].text);
}

std::int64_t Quantity::ToInteger() const {
  Int128 value = nano_ / kNano;
  if (nano_ > 0 && nano_ % kNano != 0) ++value;
  constexpr Int128 kMost = INT64_MAX;
  return static_cast<std::int64_t>(std::clamp(value, -kMost, kMost));
}

bool Quantity::Add(const Quantity& other) {
  const Int128 sum = nano_ + other.nano_;
  if (sum > kLargest || sum < -kLargest) return false;
  if (nano_ == 0) form_ = other.form_;
  nano_ = sum;
  return true;
}

bool Quantity::Multiply(std::int64_t factor) {
  if (nano_ != 0 && factor != 0) {
    const Int128 magnitude = nano_ < 0 ? -nano_ : nano_;
    const Int128 most = kLargest / magnitude;
    if (factor > most || factor < -most) return false;
  }
  nano_ *= factor;
  return true;
}

}  // namespace paddleop::api
