#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "net/http_client.h"
#include "runtime/protocol/status.h"
#include "volume/peer/block_wire.h"

namespace paddleop::volume {

// Other partitions' caches. Thread-safe; every call ends within the link's own time-outs, also
// without a deadline.
class PeerLink {
 public:
  virtual ~PeerLink() = default;

  // Partitions of the set, this one included, and which of them this is.
  virtual std::uint32_t count() const = 0;
  virtual std::uint32_t self() const = 0;

  // Bytes [offset, offset + out.size()) of a block from partition `peer`. kNotFound: not there.
  // With `find` the peer gets them from wherever they are.
  virtual Result<BlockFrom> Read(const Context& ctx, std::uint32_t peer, const BlockId& block,
                                 std::uint32_t offset, std::span<std::byte> out, bool find) = 0;
  // Which wishes the peer has; what it has it pins under `plan`, unless that is empty.
  // `tight` as in BlockNode::Check.
  virtual Result<std::vector<BlockHave>> Check(const Context& ctx, std::uint32_t peer,
                                               std::span<const BlockWish> wishes,
                                               std::string_view plan, bool tight) = 0;
  // Gives the peer what it wished for of a block. kNoSpace.
  virtual Result<void> Give(const Context& ctx, std::uint32_t peer, const BlockWish& wish,
                            std::span<const std::byte> block, std::string_view plan) = 0;
  // Removes the blocks, with their pins, from the peer's cache.
  virtual Result<void> Drop(const Context& ctx, std::uint32_t peer,
                            std::span<const BlockId> blocks) = 0;
  virtual Result<void> Unpin(const Context& ctx, std::uint32_t peer, std::string_view prefix,
                             std::string_view keep) = 0;
};

struct HttpPeerLinkOptions {
  std::uint32_t self = 0;
  std::string ca_file;
  std::function<runtime::PeerTable()> table;
  std::function<Secret()> token;
  std::chrono::milliseconds connect_timeout{2'000};
  std::chrono::milliseconds check_timeout{10'000};
  std::chrono::milliseconds read_timeout{30'000};
};

// Over HTTPS to the runtimes of the table, as it is at each call. A peer that could not be reached
// is not asked again for a second: kUnavailable at once.
class HttpPeerLink : public PeerLink {
 public:
  explicit HttpPeerLink(HttpPeerLinkOptions options) : options_(std::move(options)) {}

  std::uint32_t count() const override;
  std::uint32_t self() const override { return options_.self; }
  Result<BlockFrom> Read(const Context& ctx, std::uint32_t peer, const BlockId& block,
                         std::uint32_t offset, std::span<std::byte> out, bool find) override;
  Result<std::vector<BlockHave>> Check(const Context& ctx, std::uint32_t peer,
                                       std::span<const BlockWish> wishes, std::string_view plan,
                                       bool tight) override;
  Result<void> Give(const Context& ctx, std::uint32_t peer, const BlockWish& wish,
                    std::span<const std::byte> block, std::string_view plan) override;
  Result<void> Drop(const Context& ctx, std::uint32_t peer,
                    std::span<const BlockId> blocks) override;
  Result<void> Unpin(const Context& ctx, std::uint32_t peer, std::string_view prefix,
                     std::string_view keep) override;

 private:
  struct Peer {
    runtime::PeerEntry entry;
    std::shared_ptr<net::HttpClient> http;
    std::chrono::steady_clock::time_point away_until;
  };

  Result<std::shared_ptr<net::HttpClient>> Find(std::uint32_t peer, std::string* address);
  void Away(std::uint32_t peer);
  Result<net::HttpRequest> Request(std::uint32_t peer, std::string method, const std::string& path,
                                   std::shared_ptr<net::HttpClient>* http);
  Result<std::string> Call(const Context& ctx, std::uint32_t peer, std::string method,
                           const std::string& path, std::string body);

  const HttpPeerLinkOptions options_;
  mutable Mutex mutex_;
  std::map<std::uint32_t, Peer> peers_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
