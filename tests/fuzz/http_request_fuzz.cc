// Any bytes as the requests of one connection. Besides not crashing: how they are cut into pieces
// must not change what is read.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "net/internal/request_reader.h"
#include "net/internal/response_head.h"

namespace {

using paddleop::net::ServerResponse;
using paddleop::net::internal::RequestReader;

// Everything that was understood, as text to compare.
std::string Digest(std::string_view bytes, std::size_t piece) {
  RequestReader reader(512, 256);
  std::string out;
  while (!bytes.empty()) {
    reader.Append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      const auto step = reader.Advance();
      if (step == RequestReader::Step::kNeedMore) break;
      // Whether the client waits depends on the pieces: it is a matter of time.
      if (step == RequestReader::Step::kExpectContinue) continue;
      if (step == RequestReader::Step::kRefused) return out + "refused";
      const auto message = reader.Take();
      const auto& request = message.request;
      CHECK(request.path.starts_with('/') || request.path == "*", "path {}", request.path);
      CHECK(request.body.size() <= 256, "body of {}", request.body.size());
      out +=
          request.method + ' ' + request.target + ' ' + request.path + '?' + request.query + '\n';
      for (const auto& [name, value] : request.headers) out += name + '=' + value + '\n';
      out += request.body + (message.keep_alive ? "\nkeep\n" : "\nclose\n");
      std::ignore = request.Query("a");
      // What came in through a header may go out through one, but never as two lines.
      ServerResponse response;
      for (const auto& [name, value] : request.headers) response.headers.Add(name, value);
      response.headers.Add("X-Path", request.path);
      const auto head = paddleop::net::internal::FormatHead(response, {});
      CHECK(!head || head->find("\r\n\r\n") == head->size() - 4, "split response");
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // A header without its end may be refused now or when it is whole; here all are whole.
  bytes += "\r\n\r\n";
  const auto whole = Digest(bytes, bytes.size() + 1);
  const auto cut = Digest(bytes, data[0] % 64U + 1);
  CHECK(whole == cut, "in one piece:\n{}\nin pieces:\n{}", whole, cut);
  return 0;
}
