// One list of fields serves both directions. A struct describes itself once,
//
//   template <class Io> void Describe(Io& io, ObjectReference& r) { io("name", r.name); ... }
//
// and Reader or Writer walks that list. JSON null counts as absent, as everywhere in the Kubernetes
// API. Only .cc files include this header.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/meta/json.h"
#include "api/meta/object_meta.h"
#include "api/meta/time.h"
#include "base/status.h"

namespace paddleop::api::internal {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsIntMap = false;
template <>
inline constexpr bool kIsIntMap<std::map<std::string, std::int64_t, std::less<>>> = true;

// Fills structs from JSON. The first field of a wrong type is remembered with its path; reading
// goes on, so a caller that tolerates errors still gets the rest.
class Reader {
 public:
  static constexpr bool kReading = true;

  explicit Reader(const Json& object, std::string path = {})
      : object_(&object), path_(std::move(path)) {
    if (!object.is_object()) Wrong(path_.empty() ? "document" : path_, "object", object);
  }

  template <class T>
  void operator()(const char* key, T& out) {
    const Json* value = Find(key);
    if (value != nullptr) Value(*value, key, out);
  }
  // For fields that are written even when zero.
  template <class T>
  void Required(const char* key, T& out) {
    (*this)(key, out);
  }
  // For fields whose default is not zero; the struct's initialiser is that default.
  template <class T>
  void Default(const char* key, T& out, const std::type_identity_t<T>& /*fallback*/) {
    (*this)(key, out);
  }
  // For fields of this object that another struct holds.
  template <class T>
  void Inline(T& out) {
    Describe(*this, out);
  }
  // object[outer][key]
  template <class T>
  void Nested(const char* outer, const char* key, T& out) {
    const Json* object = Find(outer);
    if (object == nullptr) return;
    Reader nested(*object, PathOf(outer));
    nested(key, out);
    if (!error_) error_ = std::move(nested.error_);
  }

  Result<void> Finish() const {
    if (error_) return std::unexpected(*error_);
    return {};
  }
  template <class T>
  Result<T> Finish(T value) const {
    if (error_) return std::unexpected(*error_);
    return value;
  }

 private:
  const Json* Find(const char* key) const {
    if (!object_->is_object()) return nullptr;
    const auto it = object_->find(key);
    return it == object_->end() || it->is_null() ? nullptr : &*it;
  }
  std::string PathOf(const std::string& key) const {
    return path_.empty() ? key : path_ + "." + key;
  }
  void Wrong(const std::string& path, const char* expected, const Json& found) {
    if (!error_) {
      error_ = Status(Code::kInvalid,
                      fmt::format("{}: expected {}, found {}", path, expected, found.type_name()));
    }
  }

  template <class T>
  void Value(const Json& in, const std::string& key, T& out) {
    if constexpr (kIsOptional<T>) {
      Value(in, key, out.emplace());
    } else if constexpr (kIsVector<T>) {
      if (!in.is_array()) return Wrong(PathOf(key), "array", in);
      out.clear();
      out.reserve(in.size());
      for (std::size_t i = 0; i < in.size(); ++i) {
        Value(in[i], fmt::format("{}[{}]", key, i), out.emplace_back());
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!in.is_string()) return Wrong(PathOf(key), "string", in);
      out = in.get_ref<const std::string&>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!in.is_boolean()) return Wrong(PathOf(key), "boolean", in);
      out = in.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      Integer(in, key, out);
    } else if constexpr (std::is_same_v<T, double>) {
      if (!in.is_number()) return Wrong(PathOf(key), "number", in);
      out = in.get<double>();
    } else if constexpr (std::is_same_v<T, Time>) {
      if (!in.is_string()) return Wrong(PathOf(key), "time", in);
      const auto time = ParseTime(in.get_ref<const std::string&>());
      if (!time) return Wrong(PathOf(key), "RFC 3339 time", in);
      out = *time;
    } else if constexpr (std::is_same_v<T, RawJson>) {
      out.text = DumpJson(in);
    } else if constexpr (std::is_same_v<T, StringMap>) {
      Map(in, key, out);
    } else if constexpr (kIsIntMap<T>) {
      if (!in.is_object()) return Wrong(PathOf(key), "object", in);
      for (const auto& [name, value] : in.items())
        Integer(value, fmt::format("{}.{}", key, name), out[name]);
    } else {
      Reader nested(in, PathOf(key));
      Describe(nested, out);
      if (!error_) error_ = std::move(nested.error_);
    }
  }

  template <class T>
  void Integer(const Json& in, const std::string& key, T& out) {
    if (in.is_number_unsigned() &&
        in.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) {
      return Wrong(PathOf(key), "smaller integer", in);
    }
    if (in.is_number_integer()) {
      const auto wide = in.get<std::int64_t>();
      if (wide < std::numeric_limits<T>::min() || wide > std::numeric_limits<T>::max()) {
        return Wrong(PathOf(key), "integer in range", in);
      }
      out = static_cast<T>(wide);
      return;
    }
    // YAML writers turn 2 into 2.0 now and then; the API server accepts that, so we do.
    if (in.is_number_float() && in.get<double>() >= -9.0e15 && in.get<double>() <= 9.0e15) {
      const double wide = in.get<double>();
      const auto whole = static_cast<std::int64_t>(wide);
      if (static_cast<double>(whole) == wide && whole <= std::numeric_limits<T>::max() &&
          whole >= std::numeric_limits<T>::min()) {
        out = static_cast<T>(whole);
        return;
      }
    }
    Wrong(PathOf(key), "integer", in);
  }

  void Map(const Json& in, const std::string& key, StringMap& out) {
    if (!in.is_object()) return Wrong(PathOf(key), "object", in);
    out.clear();
    for (const auto& [name, value] : in.items()) {
      if (value.is_string()) {
        out.emplace(name, value.get_ref<const std::string&>());
      } else if (value.is_number()) {
        out.emplace(name, value.dump());  // int-or-string, as in resource lists
      } else if (!value.is_null()) {
        Wrong(PathOf(key) + "." + name, "string", value);
      }
    }
  }

  const Json* object_;
  std::string path_;
  std::optional<Status> error_;
};

// Builds JSON from structs. What is empty, false or zero is left out, unless the field says
// otherwise.
class Writer {
 public:
  static constexpr bool kReading = false;

  template <class T>
  void operator()(const char* key, T& in) {
    if (!Empty(in)) Put(key, in);
  }
  template <class T>
  void Required(const char* key, T& in) {
    if constexpr (kIsOptional<std::remove_const_t<T>>) {
      if (!in) return;
    }
    Put(key, in);
  }
  template <class T>
  void Default(const char* key, T& in, const std::type_identity_t<T>& fallback) {
    if (!(in == fallback)) out_[key] = ToValue(in);
  }
  template <class T>
  void Inline(T& in) {
    Describe(*this, in);
  }
  template <class T>
  void Nested(const char* outer, const char* key, T& in) {
    if (!Empty(in)) out_[outer][key] = ToValue(in);
  }

  Json Take() { return std::move(out_); }

 private:
  template <class T>
  static bool Empty(const T& in) {
    if constexpr (kIsOptional<T>) {
      return !in.has_value();
    } else if constexpr (std::is_arithmetic_v<T>) {
      return in == T{};
    } else if constexpr (!std::is_same_v<T, Time> && requires { in.empty(); }) {
      return in.empty();
    } else {
      return false;
    }
  }

  template <class T>
  void Put(const char* key, T& in) {
    Json value = ToValue(in);
    // A nested struct of which nothing is set is left out; an optional one was set on purpose.
    if constexpr (!kIsOptional<T> && !kIsVector<T> && std::is_class_v<T> &&
                  !std::is_same_v<T, RawJson>) {
      if (value.is_object() && value.empty()) return;
    }
    out_[key] = std::move(value);
  }

  template <class T>
  static Json ToValue(T& in) {
    using Plain = std::remove_const_t<T>;
    if constexpr (kIsOptional<Plain>) {
      return ToValue(*in);
    } else if constexpr (kIsVector<Plain>) {
      Json array = Json::array();
      for (auto& item : in) array.push_back(ToValue(item));
      return array;
    } else if constexpr (std::is_same_v<Plain, Time>) {
      return FormatTime(in);
    } else if constexpr (std::is_same_v<Plain, RawJson>) {
      auto parsed = ParseJson(in.text);
      return parsed ? *std::move(parsed) : Json();
    } else if constexpr (std::is_arithmetic_v<Plain> || std::is_same_v<Plain, std::string>) {
      return Json(in);
    } else if constexpr (std::is_same_v<Plain, StringMap> || kIsIntMap<Plain>) {
      Json object = Json::object();
      for (const auto& [name, value] : in) object[name] = value;
      return object;
    } else {
      Writer nested;
      Describe(nested, in);
      return nested.Take();
    }
  }

  Json out_ = Json::object();
};

// object[key], or a null value where there is no such thing.
inline const Json& Child(const Json& object, const char* key) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto it = object.find(key);
  return it == object.end() ? kNone : *it;
}

template <class T>
Result<T> Read(const Json& json, std::string path = {}) {
  T value{};
  Reader reader(json, std::move(path));
  Describe(reader, value);
  return reader.Finish(std::move(value));
}

template <class T>
Json Write(const T& value) {
  Writer writer;
  // Describe takes a mutable reference so that one list serves both ways; the writer changes
  // nothing.
  Describe(writer, const_cast<T&>(value));
  return writer.Take();
}

}  // namespace paddleop::api::internal

namespace paddleop::api {

template <class T>
Result<T> ParseAs(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  return T::FromJson(json);
}

}  // namespace paddleop::api
