// How a request is written down in libcurl's options.
#include <algorithm>

#include "base/check.h"
#include "net/internal/transfer.h"

namespace paddleop::net::internal {
namespace {

// As the curl program: one read of the socket for many segments, yet small enough for malloc to
// keep it between requests.
constexpr long kReceiveBuffer = 100 << 10;
constexpr long kMaxRedirects = 5;
constexpr std::size_t kMaxUrlBytes = 64 << 10;

bool IsTokenChar(char c) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kMarks.contains(c);
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenChar);
}

// A line break or NUL in a value would let it write headers of its own.
bool IsFieldValue(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

struct curl_blob BlobOf(const std::string& text) {
  // The transfer keeps the material alive as long as the option is set.
  return {.data = const_cast<char*>(text.data()), .len = text.size(), .flags = CURL_BLOB_NOCOPY};
}

bool WantsBody(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

// host and port of an authority without its user part: "[::1]:80" is "[::1]" and "80".
std::pair<std::string, std::string> SplitAuthority(std::string_view authority) {
  const auto bracket = authority.rfind(']');
  const auto colon = authority.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) {
    return {std::string(authority), ""};
  }
  return {std::string(authority.substr(0, colon)), std::string(authority.substr(colon + 1))};
}

}  // namespace

template <class T>
void Transfer::Set(CURLoption option, T value) {
  const auto code = curl_easy_setopt(easy_, option, value);
  CHECK(code == CURLE_OK, "libcurl option {}: {}", static_cast<int>(option),
        curl_easy_strerror(code));
}

void Transfer::SetFixedOptions() {
  const auto& options = config_.options;
  Set(CURLOPT_ERRORBUFFER, error_.data());
  Set(CURLOPT_PRIVATE, static_cast<void*>(this));
  Set(CURLOPT_NOSIGNAL, 1L);
  // Otherwise giving up on a slow name server waits for that server.
  Set(CURLOPT_QUICK_EXIT, 1L);
  Set(CURLOPT_PROTOCOLS_STR, "http,https");
  Set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  Set(CURLOPT_MAXREDIRS, kMaxRedirects);
  // Object keys may contain "..": the path is the caller's.
  Set(CURLOPT_PATH_AS_IS, 1L);
  Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  Set(CURLOPT_TCP_KEEPALIVE, 1L);
  Set(CURLOPT_BUFFERSIZE, kReceiveBuffer);
  Set(CURLOPT_USERAGENT, options.user_agent.c_str());
  Set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  Set(CURLOPT_HTTP_VERSION,
      static_cast<long>(options.http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  if (!options.unix_socket.empty()) Set(CURLOPT_UNIX_SOCKET_PATH, options.unix_socket.c_str());
  if (config_.use_proxies) {
    Set(CURLOPT_NOPROXY, config_.no_proxy.c_str());
  } else {
    Set(CURLOPT_PROXY, "");
  }
  SetPeerVerification();
  Set(CURLOPT_HEADERFUNCTION, &OnHeaderC);
  Set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(CURLOPT_WRITEFUNCTION, &OnBodyC);
  Set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  Set(CURLOPT_READFUNCTION, &OnReadC);
  Set(CURLOPT_READDATA, static_cast<void*>(this));
  Set(CURLOPT_PREREQFUNCTION, &OnPrerequestC);
  Set(CURLOPT_PREREQDATA, static_cast<void*>(this));
}

void Transfer::SetPeerVerification() {
  const auto& tls = config_.options.tls;
  Set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  Set(CURLOPT_SSL_VERIFYPEER, tls.insecure_skip_verify ? 0L : 1L);
  Set(CURLOPT_SSL_VERIFYHOST, tls.insecure_skip_verify ? 0L : 2L);
  if (!tls.ca_file.empty() || !tls.ca_pem.empty()) {
    // libcurl would trust the system's roots besides our own CA.
    Set(CURLOPT_CAINFO, static_cast<const char*>(nullptr));
    Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
}

Result<void> Transfer::SetTls() {
  ASSIGN_OR_RETURN(auto material, config_.tls->Current());
  if (material == material_) return {};
  auto ca = BlobOf(material->ca), cert = BlobOf(material->cert),
       key = BlobOf(material->key.Reveal());
  if (!material->ca.empty()) Set(CURLOPT_CAINFO_BLOB, &ca);
  if (!material->cert.empty()) {
    Set(CURLOPT_SSLCERT_BLOB, &cert);
    Set(CURLOPT_SSLKEY_BLOB, &key);
  }
  material_ = std::move(material);
  return {};
}

Result<void> Transfer::SetUrl() {
  const auto& url = request_->url;
  if (url.size() > kMaxUrlBytes) {
    return Fail(Code::kInvalid, "URL of {} bytes: the limit is {}", url.size(), kMaxUrlBytes);
  }
  const std::string_view text = url;
  const bool https = text.starts_with("https://");
  if (!https && !text.starts_with("http://")) {
    return Fail(Code::kInvalid, "{}: the URL must begin with http:// or https://", Name());
  }
  const auto& server_name = config_.options.tls.server_name;
  if (!https || server_name.empty()) {
    Set(CURLOPT_URL, url.c_str());
    return {};
  }
  // libcurl verifies and announces the URL's host, so the expected name goes into the URL and the
  // connection to the host that was really meant.
  const auto start = text.find("://") + 3;
  const auto end = std::min(text.find_first_of("/?#", start), text.size());
  auto authority = text.substr(start, end - start);
  authority.remove_prefix(authority.rfind('@') + 1);
  const auto [host, port] = SplitAuthority(authority);
  const auto suffix = port.empty() ? "" : ":" + port;
  Set(CURLOPT_URL, fmt::format("https://{}{}{}", server_name, suffix, text.substr(end)).c_str());
  connect_to_.reset(curl_slist_append(nullptr, fmt::format("::{}:{}", host, port).c_str()));
  Set(CURLOPT_CONNECT_TO, connect_to_.get());
  return {};
}

Result<void> Transfer::SetHeaders() {
  curl_slist* list = nullptr;
  headers_.reset();
  const auto append = [&](const std::string& line) {
    list = curl_slist_append(list, line.c_str());
    headers_.release();
    headers_.reset(list);
  };
  for (const auto& [name, value] : request_->headers) {
    if (!IsToken(name) || !IsFieldValue(value)) {
      return Fail(Code::kInvalid, "{}: header \"{}\" has a character that none may have", Name(),
                  IsToken(name) ? name : "?");
    }
    append(value.empty() ? name + ";" : name + ": " + value);
  }
  if (HasBody() || WantsBody(request_->method)) {
    // libcurl's own idea of a form, and its wait of a second for servers that do not know Expect.
    if (!request_->headers.Get("Content-Type")) append("Content-Type:");
    if (!request_->headers.Get("Expect")) append("Expect:");
  }
  if (connect_to_ && !request_->headers.Get("Host")) {
    const std::string_view text = request_->url;
    const auto start = text.find("://") + 3;
    const auto end = std::min(text.find_first_of("/?#", start), text.size());
    auto authority = text.substr(start, end - start);
    authority.remove_prefix(authority.rfind('@') + 1);
    append(fmt::format("Host: {}", authority));
  }
  Set(CURLOPT_HTTPHEADER, headers_.get());
  return {};
}

void Transfer::SetMethodAndBody() {
  const auto& method = request_->method;
  Set(CURLOPT_POSTFIELDS, static_cast<const char*>(nullptr));
  Set(CURLOPT_HTTPGET, 1L);  // clears what an upload or a HEAD had set
  std::string_view implied = "GET";
  if (request_->body_source) {
    implied = "PUT";
    Set(CURLOPT_UPLOAD, 1L);
    Set(CURLOPT_INFILESIZE_LARGE,
        request_->body_size ? static_cast<curl_off_t>(*request_->body_size) : curl_off_t{-1});
  } else if (!request_->body.empty() || WantsBody(method)) {
    implied = "POST";
    Set(CURLOPT_POST, 1L);
    Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_->body.size()));
    Set(CURLOPT_POSTFIELDS, request_->body.data());
  } else if (method == "HEAD") {
    implied = "HEAD";
    Set(CURLOPT_NOBODY, 1L);
  }
  Set(CURLOPT_CUSTOMREQUEST, method == implied ? nullptr : method.c_str());
  Set(CURLOPT_FOLLOWLOCATION, FollowsRedirects() ? 1L : 0L);
}

Result<void> Transfer::Begin(const HttpRequest& request, const Delivery& delivery) {
  request_ = &request;
  delivery_ = delivery;
  response_ = {};
  header_bytes_ = received_ = 0;
  uploaded_ = 0;
  attempts_ = 0;
  body_started_ = false;
  failure_.reset();
  error_[0] = '\0';
  if (!IsToken(request.method)) return Fail(Code::kInvalid, "HTTP method \"{}\"", request.method);
  RETURN_IF_ERROR(SetTls());
  RETURN_IF_ERROR(SetUrl());
  RETURN_IF_ERROR(SetHeaders());
  SetMethodAndBody();
  return {};
}

}  // namespace paddleop::net::internal
