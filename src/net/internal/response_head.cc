#include "net/internal/response_head.h"

#include <algorithm>
#include <array>
#include <ctime>

namespace paddleop::net::internal {
namespace {

bool SameName(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool IsServersBusiness(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"Content-Length", "Transfer-Encoding",
                                                      "Connection", "Keep-Alive", "Date"};
  return std::ranges::any_of(kNames, [&](auto known) { return SameName(known, name); });
}

bool IsOneLine(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, section 5.6.7), formatted once a second and thread.
std::string_view DateNow() {
  thread_local std::time_t formatted = 0;
  thread_local std::array<char, 32> text{};
  thread_local std::size_t length = 0;
  if (const auto now = std::time(nullptr); now != formatted) {
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    length = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    formatted = now;
  }
  return {text.data(), length};
}

}  // namespace

std::optional<std::string> FormatHead(const ServerResponse& response, const HeadOptions& options) {
  std::string out;
  out.reserve(256);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                 ReasonPhrase(response.status), DateNow());
  const bool upgrade = response.status == 101;
  for (const auto& [name, value] : response.headers) {
    if (!IsOneLine(name) || !IsOneLine(value)) return std::nullopt;
    if (IsServersBusiness(name) && !(upgrade && SameName(name, "Connection"))) continue;
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (options.framing == Framing::kLength) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", options.content_length);
  } else if (options.framing == Framing::kChunked) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  if (!options.keep_alive && !upgrade) out += "Connection: close\r\n";
  out += "\r\n";
  return out;
}

}  // namespace paddleop::net::internal
