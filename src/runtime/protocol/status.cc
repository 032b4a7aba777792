#include "runtime/protocol/status.h"

#include <algorithm>
#include <charconv>

#include "base/bytes.h"
#include "runtime/protocol/internal/fields.h"

namespace paddleop::runtime {
namespace {

using internal::Fields;
using internal::Json;

// Numbers that the wire has as text, with or without commas.
void ReadDecimal(Fields& fields, const char* key, std::uint64_t& out) {
  std::string text;
  fields(key, text);
  std::erase(text, ',');
  if (text.empty()) return;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) {
    fields.Add(Fail(Code::kInvalid, "{}: \"{}\" is no number", key, text));
  }
}

constexpr Code kAllCodes[] = {
    Code::kNotFound,    Code::kAlreadyExists, Code::kConflict,     Code::kExpired,
    Code::kInvalid,     Code::kPermission,    Code::kUnavailable,  Code::kDeadline,
    Code::kCancelled,   Code::kCorrupt,       Code::kNotSupported, Code::kNoSpace,
    Code::kQuota,       Code::kIsDirectory,   Code::kNotDirectory, Code::kNotEmpty,
    Code::kNameTooLong, Code::kInternal,
};

Code CodeOfHttp(int status) {
  switch (status) {
    case 404:
      return Code::kNotFound;
    case 409:
      return Code::kConflict;
    case 401:
    case 403:
      return Code::kPermission;
    case 408:
    case 429:
      return Code::kUnavailable;
    default:
      return status >= 500 ? Code::kUnavailable : Code::kInvalid;
  }
}

}  // namespace

Json ToJson(const CacheInfo& info) {
  return {{"index", info.index},
          {"ready", info.ready},
          {"errorMassage", info.message},
          {"bootID", info.boot_id},
          {"volume", info.volume},
          {"volumeUUID", info.volume_uuid},
          {"cacheID", info.cache_id},
          {"totalsKnown", info.totals_known},
          {"totalSize", std::to_string(info.total_size)},
          {"totalFiles", FormatCount(info.total_files)},
          {"cachedSize", std::to_string(info.cached_size)},
          {"pinnedSize", std::to_string(info.pinned_size)},
          {"capacity", std::to_string(info.capacity)},
          {"diskSize", std::to_string(info.disk_size >> 10)},
          {"diskUsed", std::to_string(info.disk_used >> 10)},
          {"diskAvail", std::to_string(info.disk_avail >> 10)},
          {"reads",
           {{"local", info.reads.local},
            {"peer", info.reads.peer},
            {"store", info.reads.store},
            {"localBytes", info.reads.local_bytes},
            {"peerBytes", info.reads.peer_bytes},
            {"storeBytes", info.reads.store_bytes}}},
          {"peersGeneration", info.peers_generation},
          {"activeJobs", info.active_jobs}};
}

Result<CacheInfo> CacheInfoFromJson(const Json& json) {
  CacheInfo info;
  Fields fields(json);
  RETURN_IF_ERROR(fields.Finish());
  fields("index", info.index);
  fields("ready", info.ready);
  fields("errorMassage", info.message);
  fields("bootID", info.boot_id);
  fields("volume", info.volume);
  fields("volumeUUID", info.volume_uuid);
  fields("cacheID", info.cache_id);
  fields("totalsKnown", info.totals_known);
  ReadDecimal(fields, "totalSize", info.total_size);
  ReadDecimal(fields, "totalFiles", info.total_files);
  ReadDecimal(fields, "cachedSize", info.cached_size);
  ReadDecimal(fields, "pinnedSize", info.pinned_size);
  ReadDecimal(fields, "capacity", info.capacity);
  ReadDecimal(fields, "diskSize", info.disk_size);
  ReadDecimal(fields, "diskUsed", info.disk_used);
  ReadDecimal(fields, "diskAvail", info.disk_avail);
  for (std::uint64_t* kib : {&info.disk_size, &info.disk_used, &info.disk_avail}) *kib <<= 10;
  if (const Json* reads = fields.Find("reads")) {
    Fields inner(*reads, "reads");
    inner("local", info.reads.local);
    inner("peer", info.reads.peer);
    inner("store", info.reads.store);
    inner("localBytes", info.reads.local_bytes);
    inner("peerBytes", info.reads.peer_bytes);
    inner("storeBytes", info.reads.store_bytes);
    fields.Add(inner.Finish());
  }
  fields("peersGeneration", info.peers_generation);
  fields("activeJobs", info.active_jobs);
  RETURN_IF_ERROR(fields.Finish());
  return info;
}

const PeerEntry* PeerTable::Find(std::uint32_t index) const {
  return index < peers.size() ? &peers[index] : nullptr;
}

Result<void> Validate(const PeerTable& table) {
  if (table.peers.empty()) return Fail(Code::kInvalid, "peers is empty");
  for (std::size_t i = 0; i < table.peers.size(); ++i) {
    const PeerEntry& peer = table.peers[i];
    if (peer.index != i) {
      return Fail(Code::kInvalid, "peers[{}].index is {}; peers are listed by index without gaps",
                  i, peer.index);
    }
    const auto colon = peer.address.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == peer.address.size() ||
        peer.address.find_first_of("/@?# ") != std::string::npos) {
      return Fail(Code::kInvalid, "peers[{}].address is \"{}\"; it must be HOST:PORT", i,
                  peer.address);
    }
    if (peer.tls_name.empty()) return Fail(Code::kInvalid, "peers[{}].tlsName is empty", i);
  }
  return {};
}

Json ToJson(const PeerTable& table) {
  Json peers = Json::array();
  for (const PeerEntry& peer : table.peers) {
    peers.push_back({{"index", peer.index}, {"address", peer.address}, {"tlsName", peer.tls_name}});
  }
  return {{"generation", table.generation}, {"peers", std::move(peers)}};
}

Result<PeerTable> PeerTableFromJson(const Json& json) {
  PeerTable table;
  Fields fields(json);
  RETURN_IF_ERROR(fields.Finish());
  fields("generation", table.generation);
  if (const Json* peers = fields.Array("peers")) {
    for (std::size_t i = 0; i < peers->size(); ++i) {
      PeerEntry& peer = table.peers.emplace_back();
      Fields inner((*peers)[i], fmt::format("peers[{}]", i));
      inner("index", peer.index);
      inner("address", peer.address);
      inner("tlsName", peer.tls_name);
      fields.Add(inner.Finish());
    }
  }
  RETURN_IF_ERROR(fields.Finish());
  RETURN_IF_ERROR(Validate(table));
  return table;
}

std::string ErrorBody(const Status& error) {
  return api::DumpJson({{"code", CodeName(error.code())}, {"message", error.message()}});
}

Status ErrorFromBody(int http_status, std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_object() && json.value("code", Json()).is_string() &&
      json.value("message", Json()).is_string()) {
    const auto name = json["code"].get<std::string>();
    const auto* code = std::ranges::find(kAllCodes, name, CodeName);
    if (code != std::end(kAllCodes)) return {*code, json["message"].get<std::string>()};
  }
  return {CodeOfHttp(http_status), fmt::format("the runtime answered {}", http_status)};
}

int HttpStatusOf(Code code) {
  switch (code) {
    case Code::kNotFound:
      return 404;
    case Code::kAlreadyExists:
    case Code::kConflict:
      return 409;
    case Code::kPermission:
      return 403;
    case Code::kInvalid:
    case Code::kNameTooLong:
    case Code::kIsDirectory:
    case Code::kNotDirectory:
    case Code::kNotEmpty:
      return 400;
    case Code::kNotSupported:
      return 501;
    case Code::kUnavailable:
    case Code::kDeadline:
    case Code::kCancelled:
      return 503;
    case Code::kNoSpace:
    case Code::kQuota:
      return 507;
    case Code::kExpired:
    case Code::kCorrupt:
    case Code::kInternal:
      return 500;
  }
  return 500;
}

}  // namespace paddleop::runtime
