#include "volume/object/testing/fake_http.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"

namespace paddleop::volume::object::testing {

Result<net::HttpResponse> FakeHttpClient::Do(const Context& ctx, net::HttpRequest request) {
  RETURN_IF_ERROR(ctx.Check());
  if (request.body_source) {
    std::array<char, 1000> piece;
    for (;;) {
      ASSIGN_OR_RETURN(const std::size_t n, request.body_source(piece));
      if (n == 0) break;
      request.body.append(piece.data(), n);
    }
    request.body_source = nullptr;
  }
  {
    MutexLock lock(mutex_);
    requests_.push_back(request);
  }
  return handler_(request);
}

Result<net::HttpResponse> FakeHttpClient::DoInto(const Context& ctx, net::HttpRequest request,
                                                 std::span<std::byte> out, std::size_t* received) {
  *received = 0;
  auto response = Do(ctx, std::move(request));
  if (!response || response->status / 100 != 2) return response;
  if (response->body.size() > out.size())
    return Fail(Code::kInvalid, "the response is over the limit");
  std::ranges::copy(AsBytes(response->body), out.begin());
  *received = response->body.size();
  response->body.clear();
  return response;
}

Result<net::HttpResponse> FakeHttpClient::Stream(
    const Context& ctx, net::HttpRequest request, const net::BodySink& sink,
    const std::function<void(const net::HttpResponse&)>& on_headers) {
  ASSIGN_OR_RETURN(net::HttpResponse response, Do(ctx, std::move(request)));
  if (response.status / 100 != 2) return response;
  if (on_headers) on_headers(response);
  RETURN_IF_ERROR(sink(response.body));
  response.body.clear();
  return response;
}

void FakeHttpClient::Start(const Context& ctx, net::HttpRequest request, Done done) {
  done(Do(ctx, std::move(request)));
}

std::vector<net::HttpRequest> FakeHttpClient::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

}  // namespace paddleop::volume::object::testing
