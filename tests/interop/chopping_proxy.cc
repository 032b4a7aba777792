#include "interop/chopping_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace paddleop::testing {
namespace {

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool SendAll(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const auto n = ::send(fd, data, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

constexpr int kPollMillis = 100;  // how soon a stop is noticed

}  // namespace

ChoppingProxy::ChoppingProxy(std::uint16_t target)
    : target_(target), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_.get(), 128) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this](const std::stop_token& stop) { Accept(stop); });
}

ChoppingProxy::~ChoppingProxy() = default;

void ChoppingProxy::Accept(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd ready{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kPollMillis) <= 0) continue;
    const int accepted = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted < 0) continue;
    connections_.emplace_back(
        [this, accepted](const std::stop_token& ended) { Pass(ended, accepted); });
  }
  connections_.clear();
}

void ChoppingProxy::Pass(const std::stop_token& stop, int accepted) {
  const UniqueFd client(accepted);
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(target_);
  if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return;
  }
  std::array<char, 65536> buffer;
  while (!stop.stop_requested()) {
    std::array<pollfd, 2> ready{{{.fd = client.get(), .events = POLLIN, .revents = 0},
                                 {.fd = server.get(), .events = POLLIN, .revents = 0}}};
    if (::poll(ready.data(), ready.size(), kPollMillis) <= 0) continue;
    for (std::size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].revents == 0) continue;
      const auto n = ::recv(ready[i].fd, buffer.data(), buffer.size(), 0);
      if (n <= 0) return;
      const bool answer = i == 1;
      const std::uint32_t one_in = one_in_;
      if (answer && one_in > 0 && ++answers_ % one_in == 0) {
        ++cuts_;
        return;
      }
      if (!SendAll(ready[1 - i].fd, buffer.data(), static_cast<std::size_t>(n))) return;
    }
  }
}

}  // namespace paddleop::testing
