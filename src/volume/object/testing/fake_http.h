#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "net/http_client.h"

namespace paddleop::volume::object::testing {

// An HttpClient without a network: a function answers. Requests are kept, with their bodies.
// Started requests complete inside the call. Thread-safe, as far as the function is.
class FakeHttpClient final : public net::HttpClient {
 public:
  using Handler = std::function<Result<net::HttpResponse>(const net::HttpRequest& request)>;

  explicit FakeHttpClient(Handler handler) : handler_(std::move(handler)) {}

  Result<net::HttpResponse> Do(const Context& ctx, net::HttpRequest request) override;
  Result<net::HttpResponse> DoInto(const Context& ctx, net::HttpRequest request,
                                   std::span<std::byte> out, std::size_t* received) override;
  Result<net::HttpResponse> Stream(
      const Context& ctx, net::HttpRequest request, const net::BodySink& sink,
      const std::function<void(const net::HttpResponse&)>& on_headers) override;
  void Start(const Context& ctx, net::HttpRequest request, Done done) override;

  std::vector<net::HttpRequest> requests() const;

 private:
  const Handler handler_;
  mutable Mutex mutex_;
  std::vector<net::HttpRequest> requests_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume::object::testing
