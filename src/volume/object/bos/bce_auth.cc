#include "volume/object/bos/bce_auth.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/crypto.h"
#include "volume/object/internal/rest_store.h"
#include "volume/object/internal/times.h"

namespace paddleop::volume::object {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string Joined(std::vector<std::string> lines, char separator) {
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text.push_back(separator);
    text += line;
  }
  return text;
}

}  // namespace

std::string BceCanonicalRequest(const BceRequest& request) {
  internal::Pairs query;
  for (const auto& parameter : request.query) {
    if (Lower(parameter.first) != "authorization") query.push_back(parameter);
  }
  std::vector<std::string> headers;
  for (const auto& [name, value] : request.headers) {
    const std::string_view trimmed = Trimmed(value, " \t");
    if (!trimmed.empty()) headers.push_back(UrlEncode(Lower(name)) + ":" + UrlEncode(trimmed));
  }
  return request.method + "\n" + UrlEncode(request.path, "/") + "\n" +
         internal::EncodeQuery(query) + "\n" + Joined(std::move(headers), '\n');
}

std::string BceAuthorization(const Credentials& credentials, const BceRequest& request,
                             std::chrono::system_clock::time_point now, int expiry_seconds,
                             bool name_headers) {
  const std::string prefix = fmt::format("bce-auth-v1/{}/{}/{}", credentials.access_key,
                                         internal::IsoTime(now), expiry_seconds);
  // The text of the digest, not the digest, is the next key.
  const std::string key = HexEncode(HmacSha256(credentials.secret_key.Reveal(), prefix));
  std::vector<std::string> names;
  for (const auto& [name, value] : request.headers) {
    if (name_headers && !Trimmed(value, " \t").empty()) names.push_back(Lower(name));
  }
  return prefix + "/" + Joined(std::move(names), ';') + "/" +
         HexEncode(HmacSha256(key, BceCanonicalRequest(request)));
}

}  // namespace paddleop::volume::object
