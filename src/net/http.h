// Values shared by the HTTP client and server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace paddleop::net {

// Header fields in the order they were sent; names compare without case.
class HttpHeaders {
 public:
  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<std::pair<std::string, std::string>> fields)
      : fields_(fields) {}

  // The first value, or nullopt.
  std::optional<std::string_view> Get(std::string_view name) const;
  void Add(std::string name, std::string value);
  // Replaces all values of `name`.
  void Set(std::string name, std::string value);

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  bool empty() const { return fields_.empty(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// Fills the buffer with the next bytes of a request body and returns how many; 0 is the end. An
// error aborts the request and is returned from the call.
using BodySource = std::function<Result<std::size_t>(std::span<char>)>;
// Takes the next bytes of a response body. An error aborts the transfer and is returned from the
// call.
using BodySink = std::function<Result<void>(std::string_view)>;

struct HttpRequest {
  std::string method = "GET";
  std::string url = {};
  HttpHeaders headers = {};
  std::string body = {};
  // Instead of `body`: streamed. Without a size the body is sent chunked.
  BodySource body_source = {};
  std::optional<std::uint64_t> body_size = {};
  // If a 2xx response has this header, the CRC-32C of what it puts into a buffer is worked out
  // while it arrives: later its bytes would have to be fetched from memory once more.
  std::string checksum_if = {};
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers = {};
  std::string body = {};                     // empty when it went to a sink or a buffer
  std::optional<std::uint32_t> crc32c = {};  // see HttpRequest::checksum_if
};

// "OK", "Not Found", ...; "" for an unknown status.
std::string_view ReasonPhrase(int status);

// The error for an HTTP status outside 2xx, for callers whose protocol says nothing finer: 404 is
// kNotFound, 409 kConflict, 401 and 403 kPermission, 408, 429 and 5xx kUnavailable, others
// kInvalid.
Status StatusOfHttp(int status, std::string_view what);

}  // namespace paddleop::net
