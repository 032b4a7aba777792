// What a Cache Runtime Server says of itself and of its neighbours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/meta/json.h"
#include "base/status.h"

namespace paddleop::runtime {

// Where reads of this partition were served from, since the process started.
struct ReadCounts {
  std::uint64_t local = 0;  // blocks or ranges
  std::uint64_t peer = 0;
  std::uint64_t store = 0;
  std::uint64_t local_bytes = 0;
  std::uint64_t peer_bytes = 0;
  std::uint64_t store_bytes = 0;

  bool operator==(const ReadCounts&) const = default;
};

// GET /cacheStatus/cacheInfo.json: from counters, in milliseconds. Sizes are bytes here; on the
// wire they are decimal strings, the disk's in KiB and the number of files grouped by commas, as
// the first runtime servers had it.
struct CacheInfo {
  std::uint32_t index = 0;  // of the partition
  bool ready = false;       // the volume is open and jobs are taken
  std::string message;      // why not; `errorMassage` on the wire
  std::string boot_id;      // another one means that the process was started again
  std::string volume;       // name of the volume
  std::string volume_uuid;
  // Made with the cache directory: another one means that the cache was wiped or moved.
  std::string cache_id;
  bool totals_known = true;      // false: nobody has looked yet
  std::uint64_t total_size = 0;  // of the set's files
  std::uint64_t total_files = 0;
  std::uint64_t cached_size = 0;  // in this partition
  std::uint64_t pinned_size = 0;
  std::uint64_t capacity = 0;   // what the cache may use
  std::uint64_t disk_size = 0;  // of the disks below the cache directories, each counted once
  std::uint64_t disk_used = 0;
  std::uint64_t disk_avail = 0;
  ReadCounts reads;
  std::uint64_t peers_generation = 0;  // of the table this runtime works by
  std::uint32_t active_jobs = 0;

  bool operator==(const CacheInfo&) const = default;
};

api::Json ToJson(const CacheInfo& info);
Result<CacheInfo> CacheInfoFromJson(const api::Json& json);

// How to reach one runtime. `tls_name` is the name its certificate must have, whatever the address.
struct PeerEntry {
  std::uint32_t index = 0;
  std::string address;  // host:port
  std::string tls_name;

  bool operator==(const PeerEntry&) const = default;
};

// All partitions of a set, as the controller knows them. PUT to every runtime; one with a lower
// generation than the runtime has is refused (kConflict).
struct PeerTable {
  std::uint64_t generation = 0;
  std::vector<PeerEntry> peers;  // ordered by index, without gaps

  const PeerEntry* Find(std::uint32_t index) const;
  bool operator==(const PeerTable&) const = default;
};

// kInvalid names the entry: gaps, no address, no TLS name.
Result<void> Validate(const PeerTable& table);

api::Json ToJson(const PeerTable& table);
Result<PeerTable> PeerTableFromJson(const api::Json& json);

// The body of every answer that is not 2xx: {"code": "kNotFound", "message": "..."}.
std::string ErrorBody(const Status& error);
// Reads it back; a body of another shape gives what the HTTP status alone says.
Status ErrorFromBody(int http_status, std::string_view body);
int HttpStatusOf(Code code);

}  // namespace paddleop::runtime
