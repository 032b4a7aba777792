#include "volume/peer/peer_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/crypto.h"

namespace paddleop::volume {
namespace {

constexpr std::chrono::seconds kAway{1};

std::string PlanQuery(std::string_view path, std::string_view plan) {
  return plan.empty() ? std::string(path) : fmt::format("{}?plan={}", path, UrlEncode(plan));
}

}  // namespace

std::uint32_t HttpPeerLink::count() const {
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(options_.table().peers.size()));
}

Result<std::shared_ptr<net::HttpClient>> HttpPeerLink::Find(std::uint32_t index,
                                                            std::string* address) {
  const runtime::PeerTable table = options_.table();
  const runtime::PeerEntry* entry = table.Find(index);
  if (entry == nullptr) return Fail(Code::kNotFound, "the set has no partition {}", index);
  *address = entry->address;
  MutexLock lock(mutex_);
  Peer& peer = peers_[index];
  if (peer.http && peer.entry == *entry) {
    if (std::chrono::steady_clock::now() < peer.away_until) {
      return Fail(Code::kUnavailable, "partition {} at {} did not answer just now", index,
                  entry->address);
    }
    return peer.http;
  }
  ASSIGN_OR_RETURN(
      auto http,
      net::HttpClient::Create({.tls = {.ca_file = options_.ca_file, .server_name = entry->tls_name},
                               .user_agent = "paddle-operator-runtime",
                               .connect_timeout = options_.connect_timeout}));
  peer = {.entry = *entry, .http = std::move(http), .away_until = {}};
  return peer.http;
}

void HttpPeerLink::Away(std::uint32_t index) {
  MutexLock lock(mutex_);
  peers_[index].away_until = std::chrono::steady_clock::now() + kAway;
}

Result<net::HttpRequest> HttpPeerLink::Request(std::uint32_t peer, std::string method,
                                               const std::string& path,
                                               std::shared_ptr<net::HttpClient>* http) {
  std::string address;
  ASSIGN_OR_RETURN(*http, Find(peer, &address));
  return net::HttpRequest{.method = std::move(method),
                          .url = "https://" + address + path,
                          .headers = {{"Authorization", "Bearer " + options_.token().Reveal()}}};
}

Result<BlockFrom> HttpPeerLink::Read(const Context& ctx, std::uint32_t peer, const BlockId& block,
                                     std::uint32_t offset, std::span<std::byte> out, bool find) {
  std::shared_ptr<net::HttpClient> http;
  ASSIGN_OR_RETURN(auto request,
                   Request(peer, "GET",
                           fmt::format("{}{}?offset={}&size={}{}", kBlocksPath, BlockName(block),
                                       offset, out.size(), find ? "&find=1" : ""),
                           &http));
  std::size_t received = 0;
  auto response =
      http->DoInto(ctx.WithTimeout(options_.read_timeout), std::move(request), out, &received);
  if (!response) {
    if (response.error().code() == Code::kUnavailable) Away(peer);
    return std::unexpected(
        std::move(response).error().Wrap(fmt::format("block from partition {}", peer)));
  }
  if (response->status / 100 != 2) {
    return std::unexpected(runtime::ErrorFromBody(response->status, response->body));
  }
  if (received != out.size()) {
    return Fail(Code::kUnavailable, "partition {} sent {} bytes of block {} instead of {}", peer,
                received, BlockName(block), out.size());
  }
  const auto from = response->headers.Get(kBlockFromHeader);
  return ParseBlockFrom(from.value_or(""));
}

Result<std::string> HttpPeerLink::Call(const Context& ctx, std::uint32_t peer, std::string method,
                                       const std::string& path, std::string body) {
  std::shared_ptr<net::HttpClient> http;
  ASSIGN_OR_RETURN(auto request, Request(peer, std::move(method), path, &http));
  request.body = std::move(body);
  auto response = http->Do(ctx, std::move(request));
  if (!response) {
    if (response.error().code() == Code::kUnavailable) Away(peer);
    return std::unexpected(std::move(response).error().Wrap(fmt::format("partition {}", peer)));
  }
  if (response->status / 100 != 2) {
    return std::unexpected(runtime::ErrorFromBody(response->status, response->body)
                               .Wrap(fmt::format("partition {}", peer)));
  }
  return std::move(response->body);
}

Result<std::vector<BlockHave>> HttpPeerLink::Check(const Context& ctx, std::uint32_t peer,
                                                   std::span<const BlockWish> wishes,
                                                   std::string_view plan, bool tight) {
  ASSIGN_OR_RETURN(const std::string body,
                   Call(ctx.WithTimeout(options_.check_timeout), peer, "POST",
                        PlanQuery(kCheckPath, plan) + (tight && !plan.empty() ? "&tight=1" : ""),
                        EncodeWishes(wishes)));
  return DecodeHaves(body, wishes.size());
}

Result<void> HttpPeerLink::Give(const Context& ctx, std::uint32_t peer, const BlockWish& wish,
                                std::span<const std::byte> block, std::string_view plan) {
  RETURN_IF_ERROR(Call(ctx.WithTimeout(options_.read_timeout), peer, "PUT",
                       PlanQuery(std::string(kBlocksPath) + BlockName(wish.block), plan),
                       EncodeGift(wish, block)));
  return {};
}

Result<void> HttpPeerLink::Drop(const Context& ctx, std::uint32_t peer,
                                std::span<const BlockId> blocks) {
  std::vector<BlockWish> wishes;
  wishes.reserve(blocks.size());
  for (const BlockId& block : blocks) wishes.push_back({.block = block});
  RETURN_IF_ERROR(Call(ctx.WithTimeout(options_.read_timeout), peer, "POST", std::string(kDropPath),
                       EncodeWishes(wishes)));
  return {};
}

Result<void> HttpPeerLink::Unpin(const Context& ctx, std::uint32_t peer, std::string_view prefix,
                                 std::string_view keep) {
  RETURN_IF_ERROR(Call(
      ctx.WithTimeout(options_.read_timeout), peer, "POST",
      fmt::format("{}?prefix={}&keep={}", kUnpinPath, UrlEncode(prefix), UrlEncode(keep)), ""));
  return {};
}

}  // namespace paddleop::volume
