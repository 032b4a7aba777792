#include "net/internal/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>

#include "base/bytes.h"
#include "base/crypto.h"

namespace paddleop::net::internal {
namespace {

namespace http = boost::beast::http;

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

// Splits and decodes the request target (RFC 9112, section 3.2); false if it is none.
bool ReadTarget(ServerRequest& request) {
  std::string_view target = request.target;
  if (target == "*" && request.method == "OPTIONS") {
    request.path = "*";
    return true;
  }
  // Proxies are sent the absolute form, and every server must understand it.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() > scheme.size() &&
        EqualsIgnoringCase(target.substr(0, scheme.size()), scheme)) {
      target.remove_prefix(std::min(target.find_first_of("/?", scheme.size()), target.size()));
      if (!target.starts_with('/')) return false;
      break;
    }
  }
  if (!target.starts_with('/') || target.contains('#')) return false;
  const auto mark = std::min(target.find('?'), target.size());
  auto path = UrlDecode(target.substr(0, mark));
  if (!path || path->contains('\0')) return false;
  request.path = *std::move(path);
  if (mark < target.size()) request.query = target.substr(mark + 1);
  return true;
}

}  // namespace

class RequestReader::Parser : public http::request_parser<http::string_body> {};

RequestReader::RequestReader(std::size_t max_header_bytes, std::size_t max_body_bytes)
    : max_header_bytes_(max_header_bytes), max_body_bytes_(max_body_bytes) {}

RequestReader::~RequestReader() = default;

RequestReader::Phase RequestReader::phase() const {
  if (header_done_) return Phase::kBody;
  return buffered() > 0 ? Phase::kHeader : Phase::kIdle;
}

void RequestReader::Append(std::string_view bytes) {
  Compact();
  buffer_.append(bytes);
}

void RequestReader::Compact() {
  buffer_.erase(0, used_);
  used_ = 0;
  // A connection that once sent much should not keep the memory while it idles.
  if (buffer_.empty() && buffer_.capacity() > (64 << 10)) buffer_ = {};
}

std::string RequestReader::TakeRest() {
  Compact();
  return std::exchange(buffer_, {});
}

RequestReader::Step RequestReader::Refuse(int status, std::string why) {
  refusal_ = {status, std::move(why)};
  return Step::kRefused;
}

RequestReader::Step RequestReader::Advance() {
  if (!parser_) {
    // RFC 9112, section 2.2: an empty line before the request line is to be ignored.
    while (buffer_.compare(used_, 2, "\r\n") == 0) used_ += 2;
    if (buffered() == 0 || buffer_.compare(used_, std::string::npos, "\r") == 0) {
      return Step::kNeedMore;
    }
    parser_ = std::make_unique<Parser>();
    // Beast's own limit depends on how the header is cut into pieces; ours is checked below.
    parser_->header_limit(std::numeric_limits<std::uint32_t>::max());
    parser_->body_limit(max_body_bytes_);
  }
  while (!parser_->is_done()) {
    boost::beast::error_code error;
    const auto used = parser_->put(
        boost::asio::const_buffer(buffer_.data() + used_, buffer_.size() - used_), error);
    used_ += used;
    if (!header_done_) header_bytes_ += used;
    const auto header_so_far =
        header_bytes_ + (error == http::error::need_more && !header_done_ ? buffered() : 0);
    if (header_so_far > max_header_bytes_) {
      return Refuse(431, fmt::format("the request header is over the limit of {}",
                                     FormatSize(max_header_bytes_)));
    }
    if (error == http::error::need_more) return Step::kNeedMore;
    if (error == http::error::body_limit) {
      return Refuse(413, fmt::format("the request body is over the limit of {}",
                                     FormatSize(max_body_bytes_)));
    }
    if (error) return Refuse(400, "malformed request: " + error.message());
    if (parser_->is_header_done() && !header_done_) {
      header_done_ = true;
      parser_->eager(true);
      if (const auto step = OnHeader(); step != Step::kNeedMore) return step;
    }
    if (buffered() == 0 && !parser_->is_done()) return Step::kNeedMore;
    if (used == 0) return Step::kNeedMore;
  }
  return Step::kRequest;
}

// kNeedMore to go on with the body.
RequestReader::Step RequestReader::OnHeader() {
  const auto& head = parser_->get();
  auto& request = message_.request;
  request.method = View(head.method_string());
  request.target = View(head.target());
  int hosts = 0;
  for (const auto& field : head) {
    if (field.name() == http::field::host) ++hosts;
    request.headers.Add(std::string(View(field.name_string())), std::string(View(field.value())));
  }
  message_.http_1_0 = head.version() == 10;
  message_.keep_alive = parser_->keep_alive();
  if (head.version() != 10 && head.version() != 11) {
    return Refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
  }
  // RFC 9112, section 3.2: such requests mean different things to different readers.
  if (hosts > 1 || (hosts == 0 && !message_.http_1_0)) {
    return Refuse(400, "malformed request: there must be one Host header");
  }
  if (!ReadTarget(request)) return Refuse(400, "malformed request: bad target");
  if (parser_->content_length() && *parser_->content_length() > max_body_bytes_) {
    return Refuse(
        413, fmt::format("the request body is over the limit of {}", FormatSize(max_body_bytes_)));
  }
  const auto expect = request.headers.Get("Expect");
  if (!expect || message_.http_1_0 || parser_->is_done()) return Step::kNeedMore;
  if (!EqualsIgnoringCase(*expect, "100-continue")) return Refuse(417, "unknown expectation");
  return buffered() == 0 ? Step::kExpectContinue : Step::kNeedMore;
}

RequestReader::Message RequestReader::Take() {
  message_.request.body = std::move(parser_->get().body());
  parser_.reset();
  header_done_ = false;
  header_bytes_ = 0;
  return std::exchange(message_, {});
}

}  // namespace paddleop::net::internal
