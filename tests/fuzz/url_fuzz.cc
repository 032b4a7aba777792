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
  // Unless somebody wrote it elsewhere too.
  const auto& password = url->password.Reveal();
  bool elsewhere = (url->host + url->path).contains(password);
  for (const auto& [name, value] : url->query) elsewhere |= (name + '=' + value).contains(password);
  if (password.size() >= 8 && !elsewhere) {
    CHECK(!url->Redacted().contains(password), "{}", url->Redacted());
  }
  return 0;
}
