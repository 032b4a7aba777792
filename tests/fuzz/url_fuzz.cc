// Any text as a URL: what is accepted must survive being written and read again, and what is shown
// to people must not contain the password.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/crypto.h"
#include "net/url.h"

using paddleop::net::ParseUrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto url = ParseUrl(text);
  if (!url) return 0;
  const auto again = ParseUrl(url->scheme + "://" + paddleop::UrlEncode(url->user) + ":" +
                              paddleop::UrlEncode(url->password.Reveal()) + "@" + url->Authority() +
                              paddleop::UrlEncode(url->path, "/"));
  // Hosts may be written with percent signs; decoded they need not be hosts any more.
  if (!url->host.contains('%') && again) {
    CHECK(again->user == url->user && again->password == url->password, "{}", text);
    CHECK(again->path == url->path && again->port == url->port, "{}", text);
  }
  auto other = *url;
  other.user = "somebody";
  other.password = paddleop::Secret("else");
  CHECK(url->Redacted() == other.Redacted(), "{}", url->Redacted());
  return 0;
}
