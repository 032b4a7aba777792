#include "net/internal/listen_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "net/internal/resolve.h"

namespace paddleop::net::internal {
namespace {

constexpr int kBacklog = 4096;  // cut to net.core.somaxconn by the kernel
constexpr std::chrono::seconds kResolveTime(5);
constexpr std::chrono::seconds kLockTime(2);

// What a caller can do about it: another address or port, other rights.
std::unexpected<Status> BindFail(const std::string& where) {
  const int error = errno;
  const auto status = ErrnoStatus(error, fmt::format("listen on {}", where));
  const auto code = error == EACCES || error == EPERM ? Code::kPermission : Code::kUnavailable;
  return std::unexpected(Status(code, status.message()));
}

Result<UniqueFd> Listen(const Address& address, const std::string& where) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return BindFail(where);
  if (address.family() != AF_UNIX) {
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (::bind(fd.get(), address.get(), address.length) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return BindFail(where);
  }
  return fd;
}

bool SomebodyListens(const Address& address) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(fd.get(), address.get(), address.length) == 0 || errno != ECONNREFUSED;
}

// One server at a time looks at the names in a directory and changes them. Others may keep the
// directory locked, or it cannot be: then we go on without, and only a moment is left in which two
// servers may take each other's name.
UniqueFd LockDirectoryOf(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto deadline = std::chrono::steady_clock::now() + kLockTime;
  while (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 &&
         (errno == EWOULDBLOCK || errno == EINTR) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fd;
}

Result<ListenSocket> ListenOnUnix(const std::string& path) {
  ASSIGN_OR_RETURN(const auto address, UnixAddress(path));
  const UniqueFd lock = LockDirectoryOf(path);
  struct stat st{};
  if (::lstat(path.c_str(), &st) == 0) {
    if (!S_ISSOCK(st.st_mode)) {
      return Fail(Code::kUnavailable, "listen on {}: there is something that is no socket", path);
    }
    if (SomebodyListens(address)) {
      return Fail(Code::kUnavailable, "listen on {}: another server already does", path);
    }
    ::unlink(path.c_str());
  }
  ASSIGN_OR_RETURN(auto fd, Listen(address, path));
  if (::chmod(path.c_str(), 0600) != 0 || ::lstat(path.c_str(), &st) != 0)
    return ErrnoFail("listen on {}", path);
  return ListenSocket{.fd = std::move(fd),
                      .family = AF_UNIX,
                      .unix_path = path,
                      .unix_file = {.device = st.st_dev, .inode = st.st_ino}};
}

}  // namespace

void RemoveUnixSocket(const std::string& path, const FileIdentity& file) {
  const UniqueFd lock = LockDirectoryOf(path);
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0) return;
  if (FileIdentity{.device = st.st_dev, .inode = st.st_ino} == file) ::unlink(path.c_str());
}

Result<ListenSocket> OpenListenSocket(const HttpServerOptions& options) {
  if (!options.unix_socket.empty()) return ListenOnUnix(options.unix_socket);
  const auto where = fmt::format("{}:{}", options.address, options.port);
  auto addresses =
      Resolve(Context::Background().WithTimeout(kResolveTime), options.address, options.port);
  if (!addresses) return std::unexpected(std::move(addresses).error().Wrap("listen on " + where));
  ASSIGN_OR_RETURN(auto fd, Listen(addresses->front(), where));
  Address bound;
  bound.length = sizeof bound.storage;
  auto* const raw = reinterpret_cast<sockaddr*>(&bound.storage);
  if (::getsockname(fd.get(), raw, &bound.length) != 0) return ErrnoFail("listen on {}", where);
  const auto port = bound.family() == AF_INET6
                        ? reinterpret_cast<const sockaddr_in6*>(raw)->sin6_port
                        : reinterpret_cast<const sockaddr_in*>(raw)->sin_port;
  return ListenSocket{.fd = std::move(fd), .family = bound.family(), .port = ntohs(port)};
}

std::string PeerName(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(v4->sin_port));
  }
  if (address->sa_family == AF_INET6) {
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(address);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(v6->sin6_port));
  }
  return "unix";
}

}  // namespace paddleop::net::internal
