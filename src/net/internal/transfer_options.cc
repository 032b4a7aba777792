// How a request is written down in libcurl's options.
#include <algorithm>

#include "base/check.h"
#include "net/internal/transfer.h"

namespace paddleop::net::internal {
namespace {

// libcurl's buffer, of which every request has one of its own. For bulk data as the curl program
// does: one read of the socket for many segments, yet small enough for malloc to keep it between
// requests. Small for the many short answers, and for watches, which stay open.
constexpr long kBulkBuffer = 100 << 10;
constexpr long kSmallBuffer = 16 << 10;
// What is handed to the socket at a time of a large body: the receiver wakes up less often.
constexpr long kUploadBuffer = 512 << 10;
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

template <class T>
void Set(CURL* handle, CURLoption option, T value) {
  const auto code = curl_easy_setopt(handle, option, value);
  CHECK(code == CURLE_OK, "libcurl option {}: {}", static_cast<int>(option),
        curl_easy_strerror(code));
}

}  // namespace

void Transfer::SetFixedOptions() {
  const auto& options = config_.options;
  Set(template_, CURLOPT_ERRORBUFFER, error_.data());
  Set(template_, CURLOPT_PRIVATE, static_cast<void*>(this));
  Set(template_, CURLOPT_NOSIGNAL, 1L);
  // Otherwise giving up on a slow name server waits for that server.
  Set(template_, CURLOPT_QUICK_EXIT, 1L);
  Set(template_, CURLOPT_PROTOCOLS_STR, "http,https");
  Set(template_, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  Set(template_, CURLOPT_MAXREDIRS, kMaxRedirects);
  // Object keys may contain "..": the path is the caller's.
  Set(template_, CURLOPT_PATH_AS_IS, 1L);
  Set(template_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  Set(template_, CURLOPT_TCP_KEEPALIVE, 1L);
  Set(template_, CURLOPT_BUFFERSIZE, kSmallBuffer);
  Set(template_, CURLOPT_USERAGENT, options.user_agent.c_str());
  Set(template_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  Set(template_, CURLOPT_HTTP_VERSION,
      static_cast<long>(options.http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  // Requests wait until it is known whether they can share the first connection.
  if (options.http2) Set(template_, CURLOPT_PIPEWAIT, 1L);
  if (!options.unix_socket.empty())
    Set(template_, CURLOPT_UNIX_SOCKET_PATH, options.unix_socket.c_str());
  if (config_.use_proxies) {
    Set(template_, CURLOPT_NOPROXY, config_.no_proxy.c_str());
  } else {
    Set(template_, CURLOPT_PROXY, "");
  }
  SetPeerVerification();
  Set(template_, CURLOPT_HEADERFUNCTION, &OnHeaderC);
  Set(template_, CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(template_, CURLOPT_WRITEFUNCTION, &OnBodyC);
  Set(template_, CURLOPT_WRITEDATA, static_cast<void*>(this));
  Set(template_, CURLOPT_READFUNCTION, &OnReadC);
  Set(template_, CURLOPT_READDATA, static_cast<void*>(this));
  Set(template_, CURLOPT_PREREQFUNCTION, &OnPrerequestC);
  Set(template_, CURLOPT_PREREQDATA, static_cast<void*>(this));
}

void Transfer::SetPeerVerification() {
  const auto& tls = config_.options.tls;
  Set(template_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  Set(template_, CURLOPT_SSL_VERIFYPEER, tls.insecure_skip_verify ? 0L : 1L);
  Set(template_, CURLOPT_SSL_VERIFYHOST, tls.insecure_skip_verify ? 0L : 2L);
  if (!tls.ca_file.empty() || !tls.ca_pem.empty()) {
    // libcurl would trust the system's roots besides our own CA.
    Set(template_, CURLOPT_CAINFO, static_cast<const char*>(nullptr));
    Set(template_, CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
}

Result<void> Transfer::SetTls() {
  ASSIGN_OR_RETURN(auto material, config_.tls->Current());
  if (material == material_) return {};
  auto ca = BlobOf(material->ca), cert = BlobOf(material->cert),
       key = BlobOf(material->key.Reveal());
  if (!material->ca.empty()) Set(template_, CURLOPT_CAINFO_BLOB, &ca);
  if (!material->cert.empty()) {
    Set(template_, CURLOPT_SSLCERT_BLOB, &cert);
    Set(template_, CURLOPT_SSLKEY_BLOB, &key);
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
    return Fail(Code::kInvalid, "the URL must begin with http:// or https://");
  }
  const auto& server_name = config_.options.tls.server_name;
  if (!https || server_name.empty()) {
    Set(easy_, CURLOPT_URL, url.c_str());
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
  Set(easy_, CURLOPT_URL,
      fmt::format("https://{}{}{}", server_name, suffix, text.substr(end)).c_str());
  connect_to_.reset(curl_slist_append(nullptr, fmt::format("::{}:{}", host, port).c_str()));
  Set(easy_, CURLOPT_CONNECT_TO, connect_to_.get());
  return {};
}

Result<void> Transfer::SetHeaders() {
  headers_.reset();
  const auto append = [&](const std::string& line) {
    curl_slist* const list = curl_slist_append(headers_.get(), line.c_str());
    CHECK(list != nullptr, "libcurl added no header: out of memory");
    if (!headers_) headers_.reset(list);
  };
  for (const auto& [name, value] : request_->headers) {
    if (!IsToken(name) || !IsFieldValue(value)) {
      return Fail(Code::kInvalid, "header \"{}\" has a character that none may have",
                  IsToken(name) ? name : "?");
    }
    append(value.empty() ? fmt::format("{};", name) : fmt::format("{}: {}", name, value));
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
  if (headers_) Set(easy_, CURLOPT_HTTPHEADER, headers_.get());
  return {};
}

void Transfer::SetMethodAndBody() {
  const auto& method = request_->method;
  std::string_view implied = "GET";
  if (request_->body_source) {
    implied = "PUT";
    Set(easy_, CURLOPT_UPLOAD, 1L);
    if (request_->body_size.value_or(0) > kBulkBuffer)
      Set(easy_, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBuffer);
    Set(easy_, CURLOPT_INFILESIZE_LARGE,
        request_->body_size ? static_cast<curl_off_t>(*request_->body_size) : curl_off_t{-1});
  } else if (!request_->body.empty() || WantsBody(method)) {
    implied = "POST";
    Set(easy_, CURLOPT_POST, 1L);
    Set(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_->body.size()));
    Set(easy_, CURLOPT_POSTFIELDS, request_->body.data());
  } else if (method == "HEAD") {
    implied = "HEAD";
    Set(easy_, CURLOPT_NOBODY, 1L);
  }
  if (method != implied) Set(easy_, CURLOPT_CUSTOMREQUEST, method.c_str());
  if (FollowsRedirects()) Set(easy_, CURLOPT_FOLLOWLOCATION, 1L);
}

Result<void> Transfer::Begin(const HttpRequest& request, const Delivery& delivery) {
  request_ = &request;
  delivery_ = delivery;
  response_ = {};
  header_bytes_ = received_ = 0;
  uploaded_ = 0;
  attempts_ = 0;
  connect_to_.reset();
  body_started_ = false;
  failure_.reset();
  error_[0] = '\0';
  if (!IsToken(request.method)) return Fail(Code::kInvalid, "this is no HTTP method");
  RETURN_IF_ERROR(SetTls());
  CHECK(easy_ == nullptr, "the last request was not ended");
  easy_ = curl_easy_duphandle(template_);
  CHECK(easy_ != nullptr, "libcurl gave no handle: out of memory");
  RETURN_IF_ERROR(SetUrl());
  RETURN_IF_ERROR(SetHeaders());
  SetMethodAndBody();
  if (std::ssize(delivery.buffer) > kSmallBuffer) Set(easy_, CURLOPT_BUFFERSIZE, kBulkBuffer);
  return {};
}

}  // namespace paddleop::net::internal
