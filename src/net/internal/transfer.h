#pragma once

#include <curl/curl.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/http_client.h"
#include "net/internal/client_tls_source.h"

namespace paddleop::net::internal {

// Where the body of a 2xx response goes; by default into the response.
struct Delivery {
  bool into_buffer = false;
  std::span<std::byte> buffer = {};
  std::size_t* received = nullptr;
  const BodySink* sink = nullptr;
  const std::function<void(const HttpResponse&)>* on_headers = nullptr;
};

// What all handles of a client share; const after Create().
struct ClientConfig {
  HttpClientOptions options;
  bool use_proxies = false;  // the environment names one
  std::string no_proxy;      // the environment's exceptions and loopback
  std::unique_ptr<ClientTlsSource> tls;
};

// One request at a time, each on a libcurl handle of its own. Options that do not change are set
// once, on a template that every request copies. Using a handle twice would be cheaper, but
// libcurl 7.88 keeps a pointer to the last header of the first response and follows it, freed, when
// the second response begins with a folded line (tests/fuzz/seeds/http_response/folded_first).
//
// Begin(), let a multi handle run easy() and release it, then End(), also after a failed Begin().
// Not thread-safe; does not move, because libcurl holds its address.
class Transfer {
 public:
  explicit Transfer(const ClientConfig& config);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // `request` and what `delivery` points to must live until End().
  Result<void> Begin(const HttpRequest& request, const Delivery& delivery);
  // The outcome, from libcurl's code or from why it was broken off.
  Result<HttpResponse> End(CURLcode code, std::optional<Status> broken_off = {});

  CURL* easy() { return easy_; }
  static Transfer& Of(CURL* easy);
  // For the owner's bookkeeping.
  std::uint64_t id = 0;
  // The request may have reached the server.
  bool sent() const { return attempts_ > 0; }
  // Bytes moved so far in either direction.
  std::uint64_t Progress() const;
  // "GET http://host/path" without secrets.
  std::string Name() const;

 private:
  static std::size_t OnHeaderC(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t OnBodyC(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t OnReadC(char* data, std::size_t size, std::size_t count, void* self);
  static int OnPrerequestC(void* self, char*, char*, int, int);

  void SetFixedOptions();
  void SetPeerVerification();
  Result<void> SetTls();
  Result<void> SetUrl();
  Result<void> SetHeaders();
  void SetMethodAndBody();

  bool OnHeader(std::string_view line);
  bool OnHeadersEnd();
  bool OnBody(std::string_view bytes);
  std::size_t OnRead(std::span<char> out);
  bool OnPrerequest();
  bool IsSuccess() const { return response_.status >= 200 && response_.status < 300; }
  bool HasBody() const { return !request_->body.empty() || request_->body_source; }
  bool FollowsRedirects() const;

  const ClientConfig& config_;
  CURL* const template_;
  CURL* easy_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::shared_ptr<const TlsMaterial> material_;

  // Of the request at hand.
  const HttpRequest* request_ = nullptr;
  Delivery delivery_;
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers_{nullptr, curl_slist_free_all};
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> connect_to_{nullptr, curl_slist_free_all};
  HttpResponse response_;
  std::size_t header_bytes_ = 0;
  std::size_t received_ = 0;
  std::uint64_t uploaded_ = 0;
  int attempts_ = 0;
  bool body_started_ = false;
  std::optional<Status> failure_;  // of a callback: why it told libcurl to stop
};

}  // namespace paddleop::net::internal
