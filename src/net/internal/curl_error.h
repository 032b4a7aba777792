#pragma once

#include <curl/curl.h>

#include <string_view>

#include "base/status.h"

namespace paddleop::net::internal {

// The one place that reads libcurl's errors. `detail` is its error buffer (may be empty), `sent`
// tells whether the request may have reached the server.
Status StatusOfCurl(CURLcode code, std::string_view detail, bool sent);

// ", sent: yes" or ", sent: no", the tail of every transport error.
std::string_view SentNote(bool sent);

}  // namespace paddleop::net::internal
