#include "net/internal/resolve.h"

#include <netdb.h>
#include <sys/un.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include "base/mutex.h"
#include "base/thread_pool.h"

namespace paddleop::net::internal {
namespace {

Result<std::vector<Address>> Lookup(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return Fail(Code::kUnavailable, "look up {}: {}", host,
                error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
  }
  std::vector<Address> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  if (addresses.empty()) return Fail(Code::kUnavailable, "look up {}: no address", host);
  return addresses;
}

// What a lookup and the one who waits for it share; the last of them frees it.
struct Pending {
  Mutex mutex;
  CondVar done;
  std::optional<Result<std::vector<Address>>> result GUARDED_BY(mutex);
};

// getaddrinfo cannot be interrupted, so a lookup whose caller has given up runs on by itself. A
// dead name server must not collect threads without end.
constexpr int kMaxLookups = 64;
std::atomic<int> lookups_running{0};

}  // namespace

Result<std::vector<Address>> Resolve(const Context& ctx, const std::string& host,
                                     std::uint16_t port) {
  if (host.find('\0') != std::string::npos) return Fail(Code::kInvalid, "host with a NUL byte");
  if (auto numeric = Lookup(host, port, AI_NUMERICHOST)) return numeric;

  if (lookups_running.fetch_add(1) >= kMaxLookups) {
    lookups_running.fetch_sub(1);
    return Fail(Code::kUnavailable, "look up {}: {} lookups are already waiting for an answer",
                host, kMaxLookups);
  }
  auto pending = std::make_shared<Pending>();
  try {
    std::thread([pending, host, port] {
      SetThreadName("resolve");
      auto result = Lookup(host, port, AI_ADDRCONFIG);
      lookups_running.fetch_sub(1);
      const MutexLock lock(pending->mutex);
      pending->result = std::move(result);
      pending->done.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    lookups_running.fetch_sub(1);
    return Fail(Code::kUnavailable, "look up {}: start a thread: {}", host, error.what());
  }

  MutexLock lock(pending->mutex);
  pending->done.wait_until(lock, ctx.stop(), Context::Clock::now() + ctx.Remaining(),
                           [&]() REQUIRES(pending->mutex) { return pending->result.has_value(); });
  if (pending->result) return *std::move(pending->result);
  if (ctx.Stopped()) return Fail(Code::kCancelled, "look up {}: stopped", host);
  return Fail(Code::kDeadline, "look up {}: no answer in time", host);
}

Result<Address> UnixAddress(const std::string& path) {
  sockaddr_un name{};
  if (path.size() >= sizeof(name.sun_path)) {
    return Fail(Code::kInvalid, "unix socket path {} is longer than {} bytes", path,
                sizeof(name.sun_path) - 1);
  }
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  Address address;
  std::memcpy(&address.storage, &name, sizeof(name));
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

}  // namespace paddleop::net::internal
