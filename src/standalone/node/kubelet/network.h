#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/context.h"
#include "base/mutex.h"
#include "base/status.h"

namespace paddleop::standalone::node {

enum class NetworkMode : std::uint8_t {
  kNamespaces,  // each pod a network of its own on one bridge; needs root
  kLoopback,    // each pod an address 127.x.y.z of the machine's loopback
};

struct PodNetworkOptions {
  NetworkMode mode = NetworkMode::kLoopback;
  std::string directory;  // for the files that hold pods' networks
  std::string name;       // tells bridges of several agents apart; at most 8 letters and digits
};

struct PodAddress {
  std::string ip;
  std::string network;  // file for setns(); empty: the machine's own
};

// Gives pods addresses by which they, and this machine, reach each other. Thread-safe.
class PodNetwork {
 public:
  // kPermission says what the mode needs, kNotSupported what is missing.
  static Result<std::unique_ptr<PodNetwork>> Create(const Context& ctx, PodNetworkOptions options);

  // The address of the pod; the same again if it has one (`wanted` is that of a pod from before a
  // restart of the agent).
  Result<PodAddress> Add(const Context& ctx, const std::string& uid, const std::string& wanted);
  // Takes the network away with everything in it. Fine if there is none.
  void Remove(const Context& ctx, const std::string& uid, const std::string& ip);
  // Takes the bridge away too: when no pod is left.
  void Shutdown(const Context& ctx);

  // The address at which pods reach this machine.
  const std::string& host_ip() const { return host_ip_; }

 private:
  explicit PodNetwork(PodNetworkOptions options) : options_(std::move(options)) {}
  Result<void> MakeBridge(const Context& ctx);
  Result<std::uint32_t> Allocate(const std::string& wanted);
  Result<void> Connect(const Context& ctx, const std::string& uid, const std::string& ip);
  std::string FileOf(const std::string& uid) const { return options_.directory + "/" + uid; }

  const PodNetworkOptions options_;
  std::string host_ip_;
  std::uint32_t base_ = 0;  // of the pods' addresses
  std::uint32_t size_ = 0;
  Mutex mutex_;
  std::uint32_t next_ GUARDED_BY(mutex_) = 2;
  std::set<std::uint32_t> used_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::standalone::node
