#include "net/testing/raw_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

namespace paddleop::net::testing {
namespace {

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

std::size_t ContentLength(std::string_view header) {
  constexpr std::string_view kName = "content-length:";
  std::string lower(header);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto at = lower.find(kName);
  if (at == std::string::npos) return 0;
  const auto start = lower.find_first_not_of(' ', at + kName.size());
  std::size_t length = 0;
  std::from_chars(lower.data() + start, lower.data() + lower.size(), length);
  return length;
}

}  // namespace

std::string RawConnection::ReadSome() {
  if (!pending_.empty()) return std::exchange(pending_, {});
  char buffer[64 << 10];
  const auto n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

std::string RawConnection::ReadRequest() {
  std::string text = std::exchange(pending_, {});
  for (;;) {
    const auto end = text.find("\r\n\r\n");
    if (end != std::string::npos) {
      const auto whole = end + 4 + ContentLength(std::string_view(text).substr(0, end + 2));
      if (text.size() >= whole) {
        pending_ = text.substr(whole);
        return text.substr(0, whole);
      }
    }
    const auto more = ReadSome();
    if (more.empty()) return "";
    text += more;
  }
}

bool RawConnection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void RawConnection::WaitForClose() {
  while (!ReadSome().empty()) {
  }
}

void RawConnection::Reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  fd_.Reset();
}

Result<std::unique_ptr<RawServer>> RawServer::Start(Script script) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoFail("socket");
  auto address = Loopback(0);
  socklen_t length = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd.get(), raw, length) != 0 || ::listen(fd.get(), 128) != 0 ||
      ::getsockname(fd.get(), raw, &length) != 0) {
    return ErrnoFail("listen on a loopback port");
  }
  return std::unique_ptr<RawServer>(
      new RawServer(std::move(fd), ntohs(address.sin_port), std::move(script)));
}

RawServer::RawServer(UniqueFd listener, std::uint16_t port, Script script)
    : listener_(std::move(listener)), port_(port), script_(std::move(script)) {
  acceptor_ = std::jthread([this] { Accept(); });
}

RawServer::~RawServer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& connection : open_) ::shutdown(connection.fd(), SHUT_RDWR);
  }
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  threads_.clear();
}

std::string RawServer::Url(std::string_view path) const {
  return fmt::format("http://127.0.0.1:{}{}", port_, path);
}

void RawServer::Accept() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    MutexLock lock(mutex_);
    if (stopping_) return;
    if (!fd.valid()) continue;
    const auto connection = open_.emplace(open_.end(), std::move(fd));
    threads_.emplace_back([this, connection, index = connections_++] {
      script_(*connection, index);
      MutexLock guard(mutex_);
      open_.erase(connection);
    });
  }
}

Result<UniqueFd> ConnectTo(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = Loopback(port);
  if (!fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoFail("connect to loopback port {}", port);
  }
  return fd;
}

std::string ReadUntil(int fd, std::string_view end, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string out;
  while (end.empty() || !out.ends_with(end)) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poll_fd{.fd = fd, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&poll_fd, 1, static_cast<int>(left.count())) <= 0) break;
    char buffer[16 << 10];
    const auto n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) break;
    out.append(buffer, static_cast<std::size_t>(n));
  }
  return out;
}

std::string ReadAll(int fd, std::chrono::milliseconds timeout) {
  return ReadUntil(fd, "", timeout);
}

}  // namespace paddleop::net::testing
