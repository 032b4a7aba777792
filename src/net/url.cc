#include "net/url.h"

#include <algorithm>
#include <charconv>

#include "base/crypto.h"

namespace paddleop::net {
namespace {

bool IsAlpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// What may not stand in any part of a URL (RFC 3986, section 2) and would only confuse what is
// built from it: white space, controls and bytes outside ASCII.
bool IsForbidden(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; }

// Reads one URL; every failure quotes it without its password.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Url> Parse() {
    if (std::ranges::any_of(text_, IsForbidden)) {
      return Bad("white space or a control character must be percent-encoded");
    }
    if (text_.contains('#')) return Bad("a '#' must be written %23");
    std::string_view rest = text_;
    RETURN_IF_ERROR(TakeScheme(rest));
    const auto authority_end = std::min(rest.find_first_of("/?"), rest.size());
    RETURN_IF_ERROR(ReadAuthority(rest.substr(0, authority_end)));
    rest.remove_prefix(authority_end);
    const auto path_end = std::min(rest.find('?'), rest.size());
    ASSIGN_OR_RETURN(url_.path, Decode(rest.substr(0, path_end), "path"));
    if (path_end < rest.size()) RETURN_IF_ERROR(ReadQuery(rest.substr(path_end + 1)));
    return std::move(url_);
  }

 private:
  std::unexpected<Status> Bad(std::string_view why) const {
    return Fail(Code::kInvalid, "URL \"{}\": {}", RedactUrl(text_), why);
  }

  Result<std::string> Decode(std::string_view part, std::string_view what) const {
    auto decoded = UrlDecode(part);
    if (!decoded)
      return Bad(fmt::format("the {} has a '%' that two hex digits do not follow", what));
    return decoded;
  }

  Result<void> TakeScheme(std::string_view& rest) {
    const auto end = rest.find("://");
    if (end == std::string_view::npos || end == 0) return Bad("it must begin with scheme://");
    const auto scheme = rest.substr(0, end);
    const auto fits = [](char c) {
      return IsAlpha(c) || IsDigit(c) || c == '+' || c == '-' || c == '.';
    };
    if (!IsAlpha(scheme.front()) || !std::ranges::all_of(scheme, fits)) {
      return Bad("the scheme may have only letters, digits, '+', '-' and '.'");
    }
    for (const char c : scheme) {
      url_.scheme.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    }
    rest.remove_prefix(end + 3);
    return {};
  }

  Result<void> ReadAuthority(std::string_view authority) {
    // The last one: passwords are often pasted without encoding their '@'.
    const auto at = authority.rfind('@');
    if (at != std::string_view::npos) {
      const auto user_info = authority.substr(0, at);
      const auto colon = std::min(user_info.find(':'), user_info.size());
      ASSIGN_OR_RETURN(url_.user, Decode(user_info.substr(0, colon), "user"));
      if (colon < user_info.size()) {
        ASSIGN_OR_RETURN(auto password, Decode(user_info.substr(colon + 1), "password"));
        url_.password = Secret(std::move(password));
      }
      authority.remove_prefix(at + 1);
    }
    return ReadHostAndPort(authority);
  }

  Result<void> ReadHostAndPort(std::string_view text) {
    std::string_view host = text;
    std::string_view port;
    bool has_port = false;
    if (text.starts_with('[')) {
      const auto close = text.find(']');
      if (close == std::string_view::npos) return Bad("the '[' of the host has no ']'");
      host = text.substr(1, close - 1);
      if (host.empty()) return Bad("there is no address between '[' and ']'");
      const auto after = text.substr(close + 1);
      has_port = after.starts_with(':');
      if (!after.empty() && !has_port) return Bad("only a port may follow the ']' of the host");
      if (has_port) port = after.substr(1);
    } else if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
      host = text.substr(0, colon);
      port = text.substr(colon + 1);
      has_port = true;
      // A list of hosts, each with its port, is left to whoever knows that scheme.
      if (host.contains(':') && !host.contains(',')) {
        return Bad("an IPv6 address must stand in brackets");
      }
    }
    if (host.find_first_of("[]<>\"\\^`{|}") != std::string_view::npos) {
      return Bad("the host has a character that no host name has");
    }
    if (has_port) RETURN_IF_ERROR(ReadPort(port));
    if (has_port && host.empty()) return Bad("there is a port but no host");
    ASSIGN_OR_RETURN(url_.host, Decode(host, "host"));
    return {};
  }

  Result<void> ReadPort(std::string_view text) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0) {
      return Bad("the port must be a number from 1 to 65535");
    }
    url_.port = port;
    return {};
  }

  Result<void> ReadQuery(std::string_view query) {
    while (!query.empty()) {
      const auto end = std::min(query.find('&'), query.size());
      std::string pair(query.substr(0, end));
      query.remove_prefix(std::min(end + 1, query.size()));
      if (pair.empty()) continue;
      std::ranges::replace(pair, '+', ' ');
      const auto eq = std::min(pair.find('='), pair.size());
      ASSIGN_OR_RETURN(auto name, Decode(std::string_view(pair).substr(0, eq), "query"));
      std::string value;
      if (eq < pair.size()) {
        ASSIGN_OR_RETURN(value, Decode(std::string_view(pair).substr(eq + 1), "query"));
      }
      url_.query.emplace(std::move(name), std::move(value));
    }
    return {};
  }

  std::string_view text_;
  Url url_;
};

}  // namespace

std::string Url::Authority() const {
  std::string out = host.contains(':') && !host.contains(',') ? "[" + host + "]" : host;
  if (port) out += fmt::format(":{}", *port);
  return out;
}

std::string Url::Redacted() const {
  std::string out = scheme + "://" + Authority() + UrlEncode(path, "/:!$&'()*+,;=");
  char separator = '?';
  for (const auto& [name, value] : query) {
    out += separator + UrlEncode(name) + "=" + UrlEncode(value, "/:,");
    separator = '&';
  }
  return RedactUrl(out);
}

Result<Url> ParseUrl(std::string_view text) { return Parser(text).Parse(); }

}  // namespace paddleop::net
