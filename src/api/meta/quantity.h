#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::api {

// A resource quantity: 100m, 1.5, 2Gi, 3e6. Exact down to 10^-9 and up to some 10^19; what lies
// beyond is kInvalid. Sums keep the form of the left operand.
class Quantity {
 public:
  enum class Form { kDecimal, kBinary };

  Quantity() = default;
  static Result<Quantity> Parse(std::string_view text);
  static Quantity FromInteger(std::int64_t value, Form form = Form::kDecimal);

  // The canonical form, as an API server would print it: the largest suffix that leaves an integer.
  std::string ToString() const;
  // Rounded up.
  std::int64_t ToInteger() const;

  // False, and unchanged, if the sum would not fit.
  bool Add(const Quantity& other);
  bool Multiply(std::int64_t factor);

  bool operator==(const Quantity& other) const { return nano_ == other.nano_; }
  auto operator<=>(const Quantity& other) const { return nano_ <=> other.nano_; }

 private:
  __extension__ using Int128 = __int128;

  Int128 nano_ = 0;
  Form form_ = Form::kDecimal;
};

}  // namespace paddleop::api
