#include "net/internal/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "net/internal/resolve.h"

namespace paddleop::net::internal {
namespace {

using std::chrono::milliseconds;

constexpr int kAcceptsPerTurn = 64;  // then other work of the thread has its turn
// Out of descriptors or memory: accepting again at once would only spin, and the connections at
// hand may end meanwhile.
constexpr milliseconds kAcceptPause(100);

void Tune(int fd, int family) {
  if (family == AF_UNIX) return;
  const int on = 1, idle = 60, interval = 20, probes = 3;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // Streams may be silent for long; a client that vanished is noticed in two minutes.
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace

Server::Server(HttpServerOptions options, Handler handler, ListenSocket socket,
               std::unique_ptr<ServerTlsSource> tls)
    : options_(std::move(options)),
      handler_(std::move(handler)),
      family_(socket.family),
      port_(socket.port),
      unix_path_(std::move(socket.unix_path)),
      unix_file_(socket.unix_file),
      tls_(std::move(tls)),
      metrics_(options_.metrics != nullptr ? *options_.metrics : own_metrics_),
      io_(static_cast<int>(options_.io_threads)),
      work_(io_.get_executor()),
      accept_strand_(boost::asio::make_strand(io_)),
      listener_(accept_strand_, socket.fd.Release()),
      accept_pause_(accept_strand_),
      handlers_({.name = "http-handler",
                 .threads = options_.handler_threads,
                 .queue_limit = options_.max_queued_requests}),
      host_{.options = options_,
            .handler = handler_,
            .handlers = handlers_,
            .metrics = metrics_,
            .stopping = stopping_,
            .on_closed = [this](Session* session) { OnClosed(session); }} {
  boost::asio::post(accept_strand_, [this] { WaitForConnections(); });
  for (std::size_t i = 0; i < options_.io_threads; ++i) {
    threads_.emplace_back([this] {
      SetThreadName("http-server");
      io_.run();
    });
  }
}

// NOLINTNEXTLINE(bugprone-exception-escape): only for want of memory, and then all is lost
Server::~Server() { Stop(std::chrono::seconds(1)); }

void Server::WaitForConnections() {
  if (!listener_.is_open()) return;
  listener_.async_wait(boost::asio::posix::descriptor_base::wait_read, [this](IoError error) {
    if (error) return;
    auto accepted = Accepted::kOne;
    for (int i = 0; i < kAcceptsPerTurn && accepted == Accepted::kOne; ++i) accepted = AcceptOne();
    if (accepted != Accepted::kExhausted) return WaitForConnections();
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([this](IoError stopped) {
      if (!stopped) WaitForConnections();
    });
  });
}

Server::Accepted Server::AcceptOne() {
  Address peer;
  peer.length = sizeof peer.storage;
  auto* const raw = reinterpret_cast<sockaddr*>(&peer.storage);
  UniqueFd fd(
      ::accept4(listener_.native_handle(), raw, &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ECONNABORTED || errno == EINTR) return Accepted::kOne;
    return errno == EAGAIN ? Accepted::kNone : Accepted::kExhausted;
  }
  if (open_connections() >= options_.max_connections) {
    Refuse(std::move(fd));
  } else {
    Tune(fd.get(), family_);
    Adopt(std::move(fd), PeerName(raw));
  }
  return Accepted::kOne;
}

void Server::Adopt(UniqueFd fd, std::string remote) {
  const auto strand = boost::asio::make_strand(io_);
  auto transport = tls_ ? MakeTlsTransport(strand, family_, std::move(fd), tls_->Current())
                        : MakePlainTransport(strand, family_, std::move(fd));
  auto session = std::make_shared<Session>(host_, strand, std::move(transport), std::move(remote));
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    sessions_.emplace(session.get(), session);
  }
  session->Start();
}

// Says why, as far as that costs nothing.
void Server::Refuse(UniqueFd fd) {
  metrics_.overloaded.Increment();
  if (tls_) return;
  constexpr std::string_view kBusy =
      "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
      "Connection: close\r\n\r\n";
  ::send(fd.get(), kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(fd.get(), SHUT_WR);
}

void Server::OnClosed(Session* session) {
  std::shared_ptr<Session> last;  // goes without the lock
  const MutexLock lock(mutex_);
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  last = std::move(it->second);
  sessions_.erase(it);
  if (sessions_.empty()) drained_.notify_all();
}

std::vector<std::shared_ptr<Session>> Server::Sessions() const {
  std::vector<std::shared_ptr<Session>> out;
  const MutexLock lock(mutex_);
  out.reserve(sessions_.size());
  for (const auto& [key, session] : sessions_) out.push_back(session);
  return out;
}

std::size_t Server::open_connections() const {
  const MutexLock lock(mutex_);
  return sessions_.size();
}

void Server::Stop(milliseconds grace) {
  const MutexLock stopping(stop_mutex_);
  if (stopped_) return;
  stopped_ = true;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  if (!unix_path_.empty()) RemoveUnixSocket(unix_path_, unix_file_);
  boost::asio::post(accept_strand_, [this] {
    IoError ignored;
    listener_.close(ignored);
    accept_pause_.cancel();
  });
  for (const auto& session : Sessions()) session->Finish();
  const auto none_left = [&]() REQUIRES(mutex_) { return sessions_.empty(); };
  {
    MutexLock lock(mutex_);
    drained_.wait_for(lock, grace, none_left);
  }
  for (const auto& session : Sessions()) session->Abort();
  {
    MutexLock lock(mutex_);
    drained_.wait(lock, none_left);
  }
  handlers_.Stop();
  // Not io_.stop(): what was posted last (streams that came too late) must still run.
  work_.reset();
  threads_.clear();
}

}  // namespace paddleop::net::internal
