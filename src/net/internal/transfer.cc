#include "net/internal/transfer.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "net/internal/curl_error.h"

namespace paddleop::net::internal {
namespace {

template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The code of "HTTP/1.1 200 OK"; 0 if there is none.
int StatusOfLine(std::string_view line) {
  const auto space = std::min(line.find(' '), line.size());
  const auto rest = Trimmed(line.substr(space));
  return ParseNumber<int>(rest.substr(0, 3)).value_or(0);
}

bool IsIdempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
         method == "OPTIONS";
}

}  // namespace

Transfer::Transfer(const ClientConfig& config) : config_(config), template_(curl_easy_init()) {
  CHECK(template_ != nullptr, "libcurl gave no handle: out of memory");
  SetFixedOptions();
}

Transfer::~Transfer() {
  curl_easy_cleanup(easy_);
  curl_easy_cleanup(template_);
}

Transfer& Transfer::Of(CURL* easy) {
  Transfer* transfer = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
  return *transfer;
}

std::string Transfer::Name() const { return request_->method + " " + RedactUrl(request_->url); }

std::uint64_t Transfer::Progress() const {
  curl_off_t uploaded = 0;
  curl_easy_getinfo(easy_, CURLINFO_SIZE_UPLOAD_T, &uploaded);
  return header_bytes_ + received_ + static_cast<std::uint64_t>(uploaded);
}

bool Transfer::FollowsRedirects() const {
  // Repeating anything else elsewhere is for the caller to decide.
  return config_.options.follow_redirects &&
         (request_->method == "GET" || request_->method == "HEAD");
}

Result<HttpResponse> Transfer::End(CURLcode code, std::optional<Status> broken_off) {
  curl_easy_cleanup(std::exchange(easy_, nullptr));
  if (delivery_.received != nullptr) *delivery_.received = delivery_.into_buffer ? received_ : 0;
  const auto fail = [&](Status status) {
    return std::unexpected(sent() ? std::move(status).MarkMaybeDone() : std::move(status));
  };
  if (failure_) return fail(*std::move(failure_));
  if (broken_off) return fail(std::move(*broken_off).Wrap(Name()));
  if (code != CURLE_OK) return fail(StatusOfCurl(code, error_.data(), sent()).Wrap(Name()));
  if (response_.status < 200) {
    return fail(Status(Code::kInvalid, Name() + ": the response has no status line"));
  }
  return std::move(response_);
}

std::size_t Transfer::OnHeaderC(char* data, std::size_t size, std::size_t count, void* self) {
  const auto length = size * count;
  const bool ok = static_cast<Transfer*>(self)->OnHeader({data, length});
  return ok ? length : CURL_WRITEFUNC_ERROR;
}

std::size_t Transfer::OnBodyC(char* data, std::size_t size, std::size_t count, void* self) {
  const auto length = size * count;
  const bool ok = static_cast<Transfer*>(self)->OnBody({data, length});
  return ok ? length : CURL_WRITEFUNC_ERROR;
}

std::size_t Transfer::OnReadC(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<Transfer*>(self)->OnRead({data, size * count});
}

int Transfer::OnPrerequestC(void* self, char*, char*, int, int) {
  return static_cast<Transfer*>(self)->OnPrerequest() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

// libcurl repeats a request by itself when a pooled connection closes before the first byte of the
// answer. Once is right where repeating does no harm; a POST may have been carried out.
bool Transfer::OnPrerequest() {
  long redirects = 0;
  curl_easy_getinfo(easy_, CURLINFO_REDIRECT_COUNT, &redirects);
  ++attempts_;
  const long repeats = attempts_ - 1 - redirects;
  const bool replayable = IsIdempotent(request_->method) && uploaded_ == 0;
  if (repeats <= (replayable ? 1 : 0)) return true;
  failure_ = Status(Code::kUnavailable,
                    fmt::format("{}: the server closed the connection before it answered{}", Name(),
                                SentNote(true)));
  return false;
}

bool Transfer::OnHeader(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > config_.options.max_header_bytes) {
    failure_ =
        Status(Code::kInvalid, fmt::format("{}: the response header is over the limit of {}",
                                           Name(), FormatSize(config_.options.max_header_bytes)));
    return false;
  }
  if (body_started_) return true;  // a trailer
  if (line.starts_with("HTTP/")) {
    response_.headers = {};
    response_.status = StatusOfLine(line);
    return true;
  }
  if (Trimmed(line).empty()) return OnHeadersEnd();
  if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    response_.headers.Add(std::string(Trimmed(line.substr(0, colon))),
                          std::string(Trimmed(line.substr(colon + 1))));
  }
  return true;
}

bool Transfer::OnHeadersEnd() {
  if (response_.status < 200) return true;  // an interim response
  const bool redirected =
      FollowsRedirects() && response_.status / 100 == 3 && response_.headers.Get("Location");
  if (redirected) return true;
  if (const auto text = response_.headers.Get("Content-Length");
      text && request_->method != "HEAD") {
    const auto length = ParseNumber<std::uint64_t>(*text).value_or(0);
    const bool elsewhere = IsSuccess() && (delivery_.sink != nullptr || delivery_.into_buffer);
    const auto limit = IsSuccess() && delivery_.into_buffer ? delivery_.buffer.size()
                                                            : config_.options.max_response_bytes;
    if (length > limit && (!elsewhere || delivery_.into_buffer)) {
      failure_ =
          Status(Code::kInvalid, fmt::format("{}: the response of {} is over the limit of {}",
                                             Name(), FormatSize(length), FormatSize(limit)));
      return false;
    }
    if (!elsewhere) response_.body.reserve(length);
  }
  const bool checks = IsSuccess() && delivery_.into_buffer && !request_->checksum_if.empty();
  if (checks && response_.headers.Get(request_->checksum_if)) response_.crc32c = 0;
  if (delivery_.on_headers != nullptr && *delivery_.on_headers) (*delivery_.on_headers)(response_);
  return true;
}

bool Transfer::OnBody(std::string_view bytes) {
  body_started_ = true;
  const auto too_long = [&](std::size_t limit) {
    failure_ = Status(Code::kInvalid, fmt::format("{}: the response is over the limit of {}",
                                                  Name(), FormatSize(limit)));
    return false;
  };
  if (IsSuccess() && delivery_.sink != nullptr) {
    received_ += bytes.size();
    if (auto taken = (*delivery_.sink)(bytes); !taken) {
      failure_ = std::move(taken).error();
      return false;
    }
    return true;
  }
  if (IsSuccess() && delivery_.into_buffer) {
    if (bytes.size() > delivery_.buffer.size() - received_)
      return too_long(delivery_.buffer.size());
    if (response_.crc32c) response_.crc32c = Crc32c(bytes, *response_.crc32c);
    std::memcpy(delivery_.buffer.data() + received_, bytes.data(), bytes.size());
    received_ += bytes.size();
    return true;
  }
  if (bytes.size() > config_.options.max_response_bytes - response_.body.size()) {
    return too_long(config_.options.max_response_bytes);
  }
  response_.body.append(bytes);
  return true;
}

std::size_t Transfer::OnRead(std::span<char> out) {
  const auto& size = request_->body_size;
  if (size) out = out.first(std::min<std::uint64_t>(out.size(), *size - uploaded_));
  if (out.empty()) return 0;
  auto count = request_->body_source(out);
  if (!count) {
    failure_ = std::move(count).error();
    return CURL_READFUNC_ABORT;
  }
  uploaded_ += *count;
  if (*count == 0 && size) {
    failure_ = Status(Code::kInvalid, fmt::format("{}: the body ended after {} of {} bytes", Name(),
                                                  uploaded_, *size));
    return CURL_READFUNC_ABORT;
  }
  return *count;
}

}  // namespace paddleop::net::internal
