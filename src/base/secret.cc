#include "base/secret.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace paddleop {
namespace {

bool NamesASecret(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array<std::string_view, 6> kWords = {"password", "passwd",    "secret",
                                                      "token",    "signature", "credential"};
  return std::ranges::any_of(kWords, [&](auto word) { return lower.contains(word); });
}

std::string RedactQuery(std::string_view query) {
  std::string out;
  while (!query.empty()) {
    const auto end = std::min(query.find('&'), query.size());
    const auto pair = query.substr(0, end);
    const auto eq = pair.find('=');
    if (eq != std::string_view::npos && NamesASecret(pair.substr(0, eq))) {
      out.append(pair.substr(0, eq + 1)).append("***");
    } else {
      out.append(pair);
    }
    if (end == query.size()) break;
    out.push_back('&');
    query.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

std::string RedactUrl(std::string_view url) {
  std::string out;
  const auto scheme = url.find("://");
  const auto start = scheme == std::string_view::npos ? 0 : scheme + 3;
  const auto query = url.find('?', start);
  const auto body = url.substr(0, query);
  // Keys may contain '/', so the user part ends at the last '@' before the query.
  const auto at = body.rfind('@');
  if (at != std::string_view::npos && at >= start) {
    const auto colon = body.find(':', start);
    if (colon != std::string_view::npos && colon < at) {
      out.append(body.substr(0, colon + 1)).append("***");
    } else {
      out.append(body.substr(0, at));
    }
    out.append(body.substr(at));
  } else {
    out.append(body);
  }
  if (query != std::string_view::npos) out.append("?").append(RedactQuery(url.substr(query + 1)));
  return out;
}

}  // namespace paddleop
