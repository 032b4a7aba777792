#include "redis/testing/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>

#include "base/check.h"

namespace paddleop::redis::testing {

bool FakeClient::Fill() {
  char bytes[64 << 10];
  const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
  if (n <= 0) return false;
  buffer_.append(bytes, static_cast<std::size_t>(n));
  return true;
}

std::optional<std::string> FakeClient::Line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill()) return std::nullopt;
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

std::optional<std::vector<std::string>> FakeClient::Read() {
  auto header = Line();
  if (!header) return std::nullopt;
  std::vector<std::string> args(std::strtoul(header->c_str() + 1, nullptr, 10));
  for (std::string& arg : args) {
    header = Line();
    if (!header) return std::nullopt;
    const std::size_t size = std::strtoul(header->c_str() + 1, nullptr, 10);
    while (buffer_.size() < size + 2) {
      if (!Fill()) return std::nullopt;
    }
    arg = buffer_.substr(0, size);
    buffer_.erase(0, size + 2);
  }
  return args;
}

std::optional<std::vector<std::string>> FakeClient::ReadAfterLogin() {
  for (;;) {
    auto command = Read();
    if (!command) return command;
    const std::string& name = command->front();
    if (name != "AUTH" && name != "SELECT" && name != "CLIENT") return command;
    Send("+OK\r\n");
  }
}

void FakeClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void FakeClient::Stall() {
  char bytes[4096];
  while (::recv(fd_, bytes, sizeof(bytes), 0) > 0) {
  }
}

void FakeClient::ResetOnClose() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

FakeServer::FakeServer(Serve serve) : serve_(std::move(serve)) {
  listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), size) == 0, "bind");
  CHECK(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0, "name");
  CHECK(::listen(listener_.get(), 64) == 0, "listen");
  port_ = ntohs(name.sin_port);
  acceptor_ = std::jthread([this] { Accept(); });
}

void FakeServer::Accept() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) return;
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const MutexLock lock(mutex_);
    const int number = count_++;
    open_.push_back(fd.get());
    clients_.emplace_back([this, number, raw = fd.Release()] {
      UniqueFd owned(raw);
      FakeClient client(owned.get());
      serve_(client, number);
      const MutexLock inner(mutex_);
      std::erase(open_, owned.get());
    });
  }
}

FakeServer::~FakeServer() {
  StopListening();
  {
    const MutexLock lock(mutex_);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  clients_.clear();
}

void FakeServer::StopListening() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  if (acceptor_.joinable()) acceptor_.join();
  listener_.Reset();
}

ConnectionOptions FakeServer::options() const {
  ConnectionOptions options;
  options.port = port_;
  options.client_name.clear();
  return options;
}

int FakeServer::connections() const {
  const MutexLock lock(mutex_);
  return count_;
}

}  // namespace paddleop::redis::testing
