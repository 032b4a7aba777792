#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <ctime>

namespace paddleop {
namespace {

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      break;
  }
  return "off";
}

// Length of the valid UTF-8 sequence at the start of `text`, or 0.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  std::size_t length = 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF)
    length = 2;
  else if (first >= 0xE0 && first <= 0xEF)
    length = 3;
  else if (first >= 0xF0 && first <= 0xF4)
    length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now - seconds).count();
  const std::time_t time = std::chrono::system_clock::to_time_t(seconds);
  std::tm utc{};
  gmtime_r(&time, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, micros);
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    const char c = text.front();
    std::size_t used = 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else if (used = Utf8Length(text); used == 0) {
          out += "\\ufffd";
          used = 1;
        } else {
          out.append(text.substr(0, used));
        }
    }
    text.remove_prefix(used);
  }
  out.push_back('"');
}

class Logger::Output {
 public:
  Output() : sink_(std::make_unique<spdlog::sinks::stderr_sink_mt>()) { sink_->set_pattern("%v"); }
  explicit Output(Sink sink) : function_(std::move(sink)) {}

  void Write(std::string_view line) {
    if (function_) return function_(line);
    sink_->log(spdlog::details::log_msg("", spdlog::level::info,
                                        spdlog::string_view_t(line.data(), line.size())));
    sink_->flush();
  }

 private:
  std::unique_ptr<spdlog::sinks::stderr_sink_mt> sink_;
  Sink function_;
};

Result<LogLevel> ParseLogLevel(std::string_view name) {
  for (auto level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError, LogLevel::kOff}) {
    if (name == LevelName(level)) return level;
  }
  return Fail(Code::kInvalid, "log level \"{}\" is not one of debug, info, warn, error, off", name);
}

Logger::Logger(LogLevel level) : level_(level), output_(std::make_unique<Output>()) {}
Logger::Logger(LogLevel level, Sink sink)
    : level_(level), output_(std::make_unique<Output>(std::move(sink))) {}
Logger::~Logger() = default;
Logger::Logger(Logger&&) noexcept = default;
Logger& Logger::operator=(Logger&&) noexcept = default;

bool Logger::Enabled(LogLevel level) const { return level >= level_ && level != LogLevel::kOff; }

void Logger::Debug(const Context& ctx, std::string_view message, Fields fields) const {
  Write(LogLevel::kDebug, ctx, message, fields);
}
void Logger::Info(const Context& ctx, std::string_view message, Fields fields) const {
  Write(LogLevel::kInfo, ctx, message, fields);
}
void Logger::Warn(const Context& ctx, std::string_view message, Fields fields) const {
  Write(LogLevel::kWarn, ctx, message, fields);
}
void Logger::Error(const Context& ctx, std::string_view message, Fields fields) const {
  Write(LogLevel::kError, ctx, message, fields);
}

void Logger::Write(LogLevel level, const Context& ctx, std::string_view message,
                   Fields fields) const {
  if (!Enabled(level)) return;
  std::string line = R"({"time":")" + Timestamp() + R"(","level":")";
  line.append(LevelName(level)).append(R"(","msg":)");
  AppendJsonString(line, message);
  const auto append = [&](std::string_view key, std::string_view value) {
    line.push_back(',');
    AppendJsonString(line, key);
    line.push_back(':');
    AppendJsonString(line, value);
  };
  for (const auto& [key, value] : ctx.fields()) append(key, value);
  for (const LogField& field : fields) append(field.key, field.value);
  line.push_back('}');
  output_->Write(line);
}

}  // namespace paddleop
