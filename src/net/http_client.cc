#include "net/http_client.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "net/internal/transfer_loop.h"
#include "net/internal/transfer_pool.h"

namespace paddleop::net {
namespace {

Result<void> Validate(const HttpClientOptions& options) {
  using std::chrono::milliseconds;
  if (options.max_connections_per_host == 0) {
    return Fail(Code::kInvalid, "HTTP client: max_connections_per_host must be at least 1");
  }
  if (options.connect_timeout <= milliseconds(0) || options.default_timeout <= milliseconds(0)) {
    return Fail(Code::kInvalid,
                "HTTP client: connect_timeout and default_timeout must be positive");
  }
  if (options.stall_timeout < milliseconds(0)) {
    return Fail(Code::kInvalid, "HTTP client: stall_timeout must not be negative");
  }
  return {};
}

// Proxies come from the environment, as for any program; but never for this machine itself, where
// tests, mounts and demos live.
void ReadProxies(internal::ClientConfig& config) {
  constexpr std::array kNames = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                 "ALL_PROXY"};
  config.use_proxies =
      config.options.unix_socket.empty() &&
      std::ranges::any_of(kNames, [](const char* name) { return !GetEnv(name).empty(); });
  const auto exceptions = GetEnv("no_proxy", GetEnv("NO_PROXY"));
  config.no_proxy = exceptions == "*"    ? exceptions
                    : exceptions.empty() ? "localhost,127.0.0.0/8,::1"
                                         : exceptions + ",localhost,127.0.0.0/8,::1";
}

class CurlHttpClient final : public HttpClient {
 public:
  explicit CurlHttpClient(internal::ClientConfig config)
      : config_(std::move(config)), pool_(config_) {}

  Result<HttpResponse> Do(const Context& ctx, HttpRequest request) override {
    return pool_.Run(ctx, request, {});
  }

  Result<HttpResponse> DoInto(const Context& ctx, HttpRequest request, std::span<std::byte> out,
                              std::size_t* received) override {
    return pool_.Run(ctx, request, {.into_buffer = true, .buffer = out, .received = received});
  }

  Result<HttpResponse> Stream(const Context& ctx, HttpRequest request, const BodySink& sink,
                              const std::function<void(const HttpResponse&)>& on_headers) override {
    return pool_.Run(ctx, request, {.sink = &sink, .on_headers = &on_headers});
  }

  void Start(const Context& ctx, HttpRequest request, Done done) override {
    auto loop = Loop();
    if (!loop) return done(std::unexpected(std::move(loop).error()));
    (*loop)->Start(ctx, std::move(request), {}, std::move(done));
  }

  void StartInto(const Context& ctx, HttpRequest request, std::span<std::byte> out,
                 std::size_t* received, Done done) override {
    auto loop = Loop();
    if (!loop) return done(std::unexpected(std::move(loop).error()));
    (*loop)->Start(ctx, std::move(request),
                   {.into_buffer = true, .buffer = out, .received = received}, std::move(done));
  }

 private:
  // Most clients never start anything: no thread for them.
  Result<internal::TransferLoop*> Loop() {
    MutexLock lock(loop_mutex_);
    if (!loop_) {
      ASSIGN_OR_RETURN(loop_, internal::TransferLoop::Create(config_));
    }
    return loop_.get();
  }

  const internal::ClientConfig config_;
  internal::TransferPool pool_;
  Mutex loop_mutex_;
  std::unique_ptr<internal::TransferLoop> loop_ GUARDED_BY(loop_mutex_);
};

}  // namespace

void HttpClient::StartInto(const Context& ctx, HttpRequest request, std::span<std::byte> out,
                           std::size_t* received, Done done) {
  Start(ctx, std::move(request),
        [out, received, done = std::move(done)](Result<HttpResponse> response) {
          *received = 0;
          if (response && response->status / 100 == 2) {
            if (response->body.size() > out.size()) {
              return done(Fail(Code::kInvalid, "the response of {} bytes is over the limit of {}",
                               response->body.size(), out.size()));
            }
            std::ranges::copy(AsBytes(response->body), out.begin());
            *received = response->body.size();
            response->body.clear();
          }
          done(std::move(response));
        });
}

Result<std::unique_ptr<HttpClient>> HttpClient::Create(HttpClientOptions options) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) {
    return Fail(Code::kInternal, "libcurl: {}", curl_easy_strerror(initialised));
  }
  RETURN_IF_ERROR(Validate(options));
  internal::ClientConfig config;
  ASSIGN_OR_RETURN(config.tls, internal::ClientTlsSource::Open(options.tls));
  config.options = std::move(options);
  ReadProxies(config);
  return std::make_unique<CurlHttpClient>(std::move(config));
}

}  // namespace paddleop::net
