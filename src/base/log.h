#pragma once

#include <fmt/format.h>

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/context.h"

namespace paddleop {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

Result<LogLevel> ParseLogLevel(std::string_view name);

// One key and value of a log line. Anything fmt can print; a Secret prints as ***.
struct LogField {
  template <class T>
  LogField(std::string_view k, const T& v) : key(k), value(fmt::to_string(v)) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}

  std::string_view key;
  std::string value;
};

// Writes one JSON object a line: time, level, a constant message, the context's fields, the call's.
//
//   log.Info(ctx, "pod created", {{"pod", name}, {"role", role}});
//
// Error: someone must act. Warn: degraded. Info: state changed. Debug: the rest. An error is logged
// where it is handled, once. Thread-safe; a line is written whole.
class Logger {
 public:
  using Fields = std::initializer_list<LogField>;
  using Sink = std::function<void(std::string_view line)>;

  // To standard error.
  explicit Logger(LogLevel level = LogLevel::kInfo);
  // To `sink`, called with one line without its newline; for tests and embedded use.
  Logger(LogLevel level, Sink sink);
  ~Logger();
  Logger(Logger&&) noexcept;
  Logger& operator=(Logger&&) noexcept;

  void Debug(const Context& ctx, std::string_view message, Fields fields = {}) const;
  void Info(const Context& ctx, std::string_view message, Fields fields = {}) const;
  void Warn(const Context& ctx, std::string_view message, Fields fields = {}) const;
  void Error(const Context& ctx, std::string_view message, Fields fields = {}) const;

  bool Enabled(LogLevel level) const;

 private:
  void Write(LogLevel level, const Context& ctx, std::string_view message, Fields fields) const;

  class Output;
  LogLevel level_;
  std::unique_ptr<Output> output_;
};

// Appends `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);

}  // namespace paddleop
