#include "standalone/node/endpoint/spdy_dictionary.h"

#include <string_view>

namespace paddleop::standalone::node {
namespace {

// Each stands there after its length, as in a header block.
constexpr std::string_view kWords[] = {"options",
                                       "head",
                                       "post",
                                       "put",
                                       "delete",
                                       "trace",
                                       "accept",
                                       "accept-charset",
                                       "accept-encoding",
                                       "accept-language",
                                       "accept-ranges",
                                       "age",
                                       "allow",
                                       "authorization",
                                       "cache-control",
                                       "connection",
                                       "content-base",
                                       "content-encoding",
                                       "content-language",
                                       "content-length",
                                       "content-location",
                                       "content-md5",
                                       "content-range",
                                       "content-type",
                                       "date",
                                       "etag",
                                       "expect",
                                       "expires",
                                       "from",
                                       "host",
                                       "if-match",
                                       "if-modified-since",
                                       "if-none-match",
                                       "if-range",
                                       "if-unmodified-since",
                                       "last-modified",
                                       "location",
                                       "max-forwards",
                                       "pragma",
                                       "proxy-authenticate",
                                       "proxy-authorization",
                                       "range",
                                       "referer",
                                       "retry-after",
                                       "server",
                                       "te",
                                       "trailer",
                                       "transfer-encoding",
                                       "upgrade",
                                       "user-agent",
                                       "vary",
                                       "via",
                                       "warning",
                                       "www-authenticate",
                                       "method",
                                       "get",
                                       "status",
                                       "200 OK",
                                       "version",
                                       "HTTP/1.1",
                                       "url",
                                       "public",
                                       "set-cookie",
                                       "keep-alive",
                                       "origin"};

// The rest stands there as it is.
constexpr std::string_view kRest =
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Una"
    "uthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service"
    " UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, "
    "Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,applicat"
    "ion/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf"
    "-8charset=iso-8859-1,utf-,*,enq=0.";

std::string MakeDictionary() {
  std::string out;
  for (const std::string_view word : kWords) {
    out += std::string_view("\0\0\0", 3);
    out += static_cast<char>(word.size());
    out += word;
  }
  out += kRest;
  return out;
}

}  // namespace

const std::string& SpdyDictionary() {
  static const std::string kDictionary = MakeDictionary();
  return kDictionary;
}

}  // namespace paddleop::standalone::node
