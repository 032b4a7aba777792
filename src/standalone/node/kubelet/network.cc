#include "standalone/node/kubelet/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>

#include "base/crc32c.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "standalone/node/process/container_process.h"

namespace paddleop::standalone::node {
namespace {

constexpr std::uint32_t kPodsPerNetwork = 4096;  // a /20
constexpr std::uint32_t kLoopbackBase = (127U << 24) | (64U << 16);
constexpr std::uint32_t kLoopbackNetworks = 64;

std::string Dotted(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, (address >> 16) & 255, (address >> 8) & 255,
                     address & 255);
}

std::optional<std::uint32_t> Parse(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

// Runs the commands with `ip -batch`.
Result<void> Ip(const Context& ctx, const std::string& commands, bool force = false) {
  std::vector<std::string> argv = {"ip"};
  if (force) argv.emplace_back("-force");
  argv.insert(argv.end(), {"-batch", "-"});
  auto done = RunProgram(ctx.WithTimeout(std::chrono::seconds(30)), argv, commands);
  if (!done && IsNotFound(done.error())) {
    return Fail(Code::kNotSupported,
                "pods need the program `ip` (package iproute2) for networks of their own; install "
                "it or use --network=loopback");
  }
  if (!done) return std::unexpected(std::move(done).error());
  if (done->exit_code != 0 && !force) {
    return Fail(Code::kUnavailable, "set up a pod's network: {}", done->output);
  }
  return {};
}

// Networks the machine already knows: address and mask of each line of /proc/net/route.
bool Overlaps(std::uint32_t base) {
  const auto text = ReadFile("/proc/net/route");
  if (!text) return false;
  std::istringstream lines(*text);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string device;
    std::string destination;
    std::string skip;
    std::string mask_text;
    words >> device >> destination >> skip >> skip >> skip >> skip >> skip >> mask_text;
    const auto network =
        ntohl(static_cast<std::uint32_t>(std::strtoul(destination.c_str(), nullptr, 16)));
    const auto mask =
        ntohl(static_cast<std::uint32_t>(std::strtoul(mask_text.c_str(), nullptr, 16)));
    if (mask == 0) continue;  // the default route
    const std::uint32_t ours = ~(kPodsPerNetwork - 1);
    if ((base & mask) == (network & mask) || (network & ours) == base) return true;
  }
  return false;
}

// Makes an empty network and keeps it in the file, so that it lives without a process.
Result<void> HoldNewNetwork(const std::string& file) {
  {
    ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(file, O_RDONLY | O_CREAT | O_CLOEXEC, 0444));
  }
  Result<void> result;
  // A thread of its own: only that one moves into the new network.
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      result = ErrnoFail("make a network namespace");
      return;
    }
    const std::string self = fmt::format("/proc/self/task/{}/ns/net", ::gettid());
    if (::mount(self.c_str(), file.c_str(), nullptr, MS_BIND, nullptr) != 0)
      result = ErrnoFail("keep a network namespace at {}", file);
  }).join();
  return result;
}

// Does the file hold a network? After a restart of the machine it is an empty file.
bool HoldsNetwork(const std::string& file) {
  constexpr long kNamespaceFileSystem = 0x6e736673;
  struct statfs st{};
  return ::statfs(file.c_str(), &st) == 0 && st.f_type == kNamespaceFileSystem;
}

// Interface names have at most 15 bytes.
std::string Short(std::string_view text) { return HexEncode(Sha256(text)).substr(0, 10); }

}  // namespace

Result<std::unique_ptr<PodNetwork>> PodNetwork::Create(const Context& ctx,
                                                       PodNetworkOptions options) {
  std::unique_ptr<PodNetwork> network(new PodNetwork(std::move(options)));
  if (network->options_.mode == NetworkMode::kLoopback) {
    // 127.64.0.0/16 ... 127.127.0.0/16, begun at different places: agents of one machine know
    // nothing of each other and must not use the same addresses.
    const auto spread = static_cast<std::uint32_t>(Crc32c(network->options_.name));
    network->base_ = kLoopbackBase + ((spread % kLoopbackNetworks) << 16);
    network->size_ = kPodsPerNetwork * 16;
    {
      const MutexLock lock(network->mutex_);
      network->next_ = 2 + ((spread >> 8) & 0xff00);
    }
    network->host_ip_ = "127.0.0.1";
    return network;
  }
  if (::geteuid() != 0) {
    return Fail(Code::kPermission,
                "networks of their own for pods need root; run as root or use --network=loopback");
  }
  RETURN_IF_ERROR(MakeDirectories(network->options_.directory));
  RETURN_IF_ERROR(network->MakeBridge(ctx));
  return network;
}

Result<void> PodNetwork::MakeBridge(const Context& ctx) {
  const std::string bridge = "pdl-" + options_.name;
  // One from before a restart keeps its addresses: pods are on it.
  const std::string kept = options_.directory + "/.bridge";
  size_ = kPodsPerNetwork;
  if (const auto text = ReadFile(kept); text && Parse(*text)) base_ = *Parse(*text);
  const bool there = ::access(("/sys/class/net/" + bridge).c_str(), F_OK) == 0;
  if (there && base_ != 0) {
    host_ip_ = Dotted(base_ + 1);
    return {};
  }
  for (std::uint32_t i = 0; i < 64 && base_ == 0; ++i) {
    const std::uint32_t candidate = (10U << 24) | (88U << 16) | (i * kPodsPerNetwork);
    if (!Overlaps(candidate)) base_ = candidate;
  }
  if (base_ == 0)
    return Fail(Code::kUnavailable, "no free network 10.88.0.0/20 ... 10.91.240.0/20 for pods");
  host_ip_ = Dotted(base_ + 1);
  RETURN_IF_ERROR(Ip(ctx, fmt::format("link add {0} type bridge\naddr add {1}/20 dev {0}\n"
                                      "link set {0} up\n",
                                      bridge, host_ip_)));
  return WriteFileAtomic(kept, Dotted(base_), 0644);
}

Result<std::uint32_t> PodNetwork::Allocate(const std::string& wanted) {
  const MutexLock lock(mutex_);
  if (const auto old = Parse(wanted); old && *old > base_ && *old < base_ + size_) {
    used_.insert(*old);
    next_ = std::max(next_, *old - base_ + 1);
    return *old;
  }
  for (std::uint32_t tries = 0; tries < size_; ++tries) {
    if (next_ >= size_ - 1) next_ = 2;
    const std::uint32_t address = base_ + next_++;
    if (used_.insert(address).second) return address;
  }
  return Fail(Code::kNoSpace, "all {} addresses of pods are in use", size_);
}

Result<PodAddress> PodNetwork::Add(const Context& ctx, const std::string& uid,
                                   const std::string& wanted) {
  ASSIGN_OR_RETURN(const std::uint32_t address, Allocate(wanted));
  PodAddress out{.ip = Dotted(address)};
  if (options_.mode == NetworkMode::kLoopback) return out;
  out.network = FileOf(uid);
  if (!wanted.empty() && HoldsNetwork(out.network)) return out;
  auto connected = HoldNewNetwork(out.network);
  if (connected) connected = Connect(ctx, uid, out.ip);
  if (!connected) {
    Remove(ctx, uid, out.ip);
    return std::unexpected(std::move(connected).error());
  }
  return out;
}

Result<void> PodNetwork::Connect(const Context& ctx, const std::string& uid,
                                 const std::string& ip) {
  const std::string outside = "pdl" + Short(uid);
  const std::string file = FileOf(uid);
  RETURN_IF_ERROR(Ip(ctx, fmt::format("link add {0} type veth peer name {0}p\n"
                                      "link set {0}p netns {1}\n"
                                      "link set {0} master pdl-{2}\nlink set {0} up\n",
                                      outside, file, options_.name)));
  Result<void> result;
  // The inside is set up from inside, by a thread (and its child) that has entered it.
  std::thread([&] {
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid() || ::setns(fd.get(), CLONE_NEWNET) != 0) {
      result = ErrnoFail("enter {}", file);
      return;
    }
    result = Ip(ctx, fmt::format("link set lo up\nlink set {0}p name eth0\n"
                                 "addr add {1}/20 dev eth0\nlink set eth0 up\n"
                                 "route add default via {2}\n",
                                 outside, ip, host_ip_));
  }).join();
  return result;
}

void PodNetwork::Remove(const Context& ctx, const std::string& uid, const std::string& ip) {
  if (options_.mode == NetworkMode::kNamespaces) {
    (void)Ip(ctx, fmt::format("link del pdl{}\n", Short(uid)), true);
    const std::string file = FileOf(uid);
    ::umount2(file.c_str(), MNT_DETACH);
    ::unlink(file.c_str());
  }
  if (const auto address = Parse(ip)) {
    const MutexLock lock(mutex_);
    used_.erase(*address);
  }
}

void PodNetwork::Shutdown(const Context& ctx) {
  if (options_.mode != NetworkMode::kNamespaces) return;
  {
    const MutexLock lock(mutex_);
    if (!used_.empty()) return;
  }
  (void)Ip(ctx, fmt::format("link del pdl-{}\n", options_.name), true);
  ::unlink((options_.directory + "/.bridge").c_str());
}

}  // namespace paddleop::standalone::node
