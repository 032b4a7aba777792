// Any bytes as a server's answer, through the real client over a unix socket: always a response or
// a status the contract names, and never later than the deadline.
#include <fcntl.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "net/http_client.h"
#include "net/internal/listen_socket.h"

namespace {

using namespace paddleop;  // NOLINT(google-build-using-namespace): one small program
using std::chrono::seconds;

// Answers every connection with the bytes of the moment, then closes it. Lives as long as the
// process.
class Answerer {
 public:
  Answerer() : dir_(*TempDir::Create("http-fuzz")), path_(dir_.File("socket")) {
    auto socket = net::internal::OpenListenSocket({.unix_socket = path_});
    CHECK(socket, "{}", socket.error().message());
    const int fd = socket->fd.Release();
    CHECK(::fcntl(fd, F_SETFL, 0) == 0, "fcntl");
    std::thread([this, fd] {
      for (;;) Answer(UniqueFd(::accept(fd, nullptr, nullptr)));
    }).detach();
  }

  const std::string& path() const { return path_; }
  void Set(std::string_view bytes) {
    const MutexLock lock(mutex_);
    bytes_ = bytes;
  }

 private:
  void Answer(const UniqueFd& fd) {
    std::string request;
    char buffer[4096];
    while (!request.contains("\r\n\r\n")) {
      const auto n = ::recv(fd.get(), buffer, sizeof buffer, 0);
      if (n <= 0) return;
      request.append(buffer, static_cast<std::size_t>(n));
    }
    std::string bytes;
    {
      const MutexLock lock(mutex_);
      bytes = bytes_;
    }
    ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  TempDir dir_;
  const std::string path_;
  Mutex mutex_;
  std::string bytes_ GUARDED_BY(mutex_);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Answerer& answerer = *new Answerer;
  static net::HttpClient& client = *net::HttpClient::Create({.unix_socket = answerer.path(),
                                                             .max_response_bytes = 256,
                                                             .max_header_bytes = 512,
                                                             .follow_redirects = true})
                                        ->release();
  if (size > 4096) return 0;
  answerer.Set({reinterpret_cast<const char*>(data), size});
  const auto ctx = Context::Background().WithTimeout(seconds(20));
  auto response = client.Do(ctx, {.url = "http://fuzz/"});
  if (response) {
    CHECK(response->status >= 200, "status {}", response->status);
    CHECK(response->body.size() <= 256, "body of {}", response->body.size());
  } else {
    const auto code = response.error().code();
    CHECK(code == Code::kUnavailable || code == Code::kInvalid, "{}", response.error().ToString());
  }
  return 0;
}
