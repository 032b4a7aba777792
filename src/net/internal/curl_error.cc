#include "net/internal/curl_error.h"

#include <algorithm>
#include <array>

namespace paddleop::net::internal {
namespace {

// A server that refuses our certificate says so in a TLS alert; with TLS 1.3 it arrives only with
// the first read, as a plain receive error, so the text is all there is.
bool IsCertificateAlert(std::string_view detail) {
  constexpr std::array<std::string_view, 4> kAlerts = {"certificate", "unknown ca", "access denied",
                                                       "handshake failure"};
  return detail.contains("alert") &&
         std::ranges::any_of(kAlerts, [&](auto alert) { return detail.contains(alert); });
}

Code CodeOf(CURLcode code, std::string_view detail) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:  // also HTTP/0.9 and unreadable status lines
    case CURLE_URL_MALFORMAT:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_OUT_OF_MEMORY:  // what a header line over libcurl's own limit ends with
    case CURLE_FILESIZE_EXCEEDED:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_BAD_FUNCTION_ARGUMENT:
      return Code::kInvalid;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return Code::kPermission;
    case CURLE_SSL_CONNECT_ERROR:
      return IsCertificateAlert(detail) ? Code::kPermission : Code::kUnavailable;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      if (IsCertificateAlert(detail)) return Code::kPermission;
      return detail.contains("chunked-encod") ? Code::kInvalid : Code::kUnavailable;
    default:
      return Code::kUnavailable;
  }
}

}  // namespace

std::string_view SentNote(bool sent) { return sent ? ", sent: yes" : ", sent: no"; }

Status StatusOfCurl(CURLcode code, std::string_view detail, bool sent) {
  const auto kind = CodeOf(code, detail);
  if (detail.empty()) detail = curl_easy_strerror(code);
  return Status(kind, fmt::format("{}{}", detail, SentNote(sent)));
}

}  // namespace paddleop::net::internal
