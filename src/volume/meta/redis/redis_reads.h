#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/command.h"
#include "redis/reply.h"
#include "volume/format/redis_keys.h"
#include "volume/meta/internal/txn.h"

namespace paddleop::volume {

// The reads of a ReadSet as one pipeline, and the way back from replies to answers. The set and its
// targets must outlive the plan.
class ReadPlan {
 public:
  ReadPlan(const RedisKeys& keys, const ReadSet& set);

  const redis::Commands& commands() const { return commands_; }
  // What must not change between the reads and the commit (section "transactions" of the layout).
  // The listing of a trash directory is among them only if its attributes are in the same set:
  // those who only look whether a name is taken there would otherwise void each other's
  // transactions. Who throws something away reads the attributes with an earlier set.
  std::vector<std::string> WatchKeys(const RedisKeys& keys) const;
  // Fills the targets from the replies to commands().
  Result<void> Answer(std::string_view address, std::span<const redis::Reply> replies) const;
  // Ranges of chunk indexes too wide for one round trip: see RedisEngine::FindChunkIndexes.
  std::span<const ReadSet::Request> wide() const { return wide_; }

 private:
  void AddAttrs(const RedisKeys& keys);
  void AddEdges(const RedisKeys& keys);
  void AddOther(const RedisKeys& keys, const ReadSet::Request& request);

  std::span<const ReadSet::Request> requests_;
  redis::Commands commands_;
  std::vector<const ReadSet::Request*> attrs_;                 // one MGET
  std::map<Ino, std::vector<const ReadSet::Request*>> edges_;  // one HMGET for each directory
  std::vector<const ReadSet::Request*> others_;                // a command each, or one per index
  std::vector<ReadSet::Request> wide_;
};

// The widest range of chunk indexes that is asked for in one round trip.
inline constexpr std::uint32_t kWideRange = 10'000;

// What a refused command means here: a value of another type than the layout says, or one that is
// no number, is a damaged volume (kCorrupt), not a wrong request (kInvalid).
Status AsDamage(Status status);
// The error for an error reply, by the same rule.
Status StatusOfReply(std::string_view address, const redis::Reply& reply);
// The first error among `replies`, if there is one.
Result<void> CheckReplies(std::string_view address, std::span<const redis::Reply> replies);

// Records of a chunk from LRANGE; nothing if the list does not exist.
Result<std::vector<Slice>> DecodeChunkReply(Ino ino, std::uint32_t index,
                                            const redis::Reply& reply);
Result<Attr> DecodeAttrReply(Ino ino, const redis::Reply& reply);
Result<std::uint64_t> ParseUnsigned(std::string_view text);

}  // namespace paddleop::volume
