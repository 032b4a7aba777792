// Reading optional members of JSON objects with errors that name the field. Only .cc files include
// this header.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>

#include "base/status.h"

namespace paddleop::runtime::internal {

using Json = nlohmann::json;

// Collects the first error; what is absent keeps its default.
class Fields {
 public:
  explicit Fields(const Json& object, std::string path = {})
      : object_(object), path_(std::move(path)) {
    if (!object.is_object()) Wrong("", "an object", object);
  }

  void operator()(const char* key, std::string& out) {
    if (const Json* v = Find(key)) {
      if (v->is_string()) {
        out = v->get<std::string>();
      } else {
        Wrong(key, "a string", *v);
      }
    }
  }
  void operator()(const char* key, bool& out) {
    if (const Json* v = Find(key)) {
      if (v->is_boolean()) {
        out = v->get<bool>();
      } else {
        Wrong(key, "true or false", *v);
      }
    }
  }
  void operator()(const char* key, double& out) {
    if (const Json* v = Find(key)) {
      if (v->is_number()) {
        out = v->get<double>();
      } else {
        Wrong(key, "a number", *v);
      }
    }
  }
  template <class Int>
    requires std::is_integral_v<Int>
  void operator()(const char* key, Int& out) {
    const Json* v = Find(key);
    if (v == nullptr) return;
    if (v->is_number_unsigned()) {
      const auto value = v->get<std::uint64_t>();
      if (value <= static_cast<std::uint64_t>(std::numeric_limits<Int>::max())) {
        out = static_cast<Int>(value);
        return;
      }
    } else if (v->is_number_integer() && std::is_signed_v<Int>) {
      const auto value = v->get<std::int64_t>();
      if (value >= static_cast<std::int64_t>(std::numeric_limits<Int>::min())) {
        out = static_cast<Int>(value);
        return;
      }
    }
    Wrong(key, "an integer in range", *v);
  }

  // The member, or null if it is absent.
  const Json* Find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  // An array member, or null.
  const Json* Array(const char* key) {
    const Json* v = Find(key);
    if (v != nullptr && !v->is_array()) {
      Wrong(key, "an array", *v);
      return nullptr;
    }
    return v;
  }
  void Add(const Result<void>& result) {
    if (!result && !error_) error_ = result.error();
  }
  std::string PathOf(const std::string& key) const {
    return path_.empty() ? key : (key.empty() ? path_ : path_ + "." + key);
  }

  Result<void> Finish() const {
    if (error_) return std::unexpected(*error_);
    return {};
  }

 private:
  void Wrong(const std::string& key, const char* expected, const Json& found) {
    if (error_) return;
    const std::string where = PathOf(key);
    error_ = Status(Code::kInvalid,
                    fmt::format("{}: expected {}, found {}", where.empty() ? "body" : where,
                                expected, found.type_name()));
  }

  const Json& object_;
  std::string path_;
  std::optional<Status> error_;
};

}  // namespace paddleop::runtime::internal
