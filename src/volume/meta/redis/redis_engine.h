#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "redis/pool.h"
#include "redis/script.h"
#include "redis/transaction.h"
#include "volume/format/redis_keys.h"
#include "volume/meta/internal/engine.h"

namespace paddleop::volume {

// A volume in one database of a Redis server.
//
// Transactions are WATCH and reads in one pipeline, then MULTI and EXEC in another. Transactions of
// this process that begin with the same key take turns; those of others make ours start again.
class RedisEngine final : public MetaEngine {
 public:
  // Connects to nothing yet. `log` is borrowed and may be null. Errors as redis::ParseRedisUrl; a
  // URL without a password takes META_PASSWORD, or what is in the file META_PASSWORD_FILE.
  static Result<std::unique_ptr<RedisEngine>> Create(const std::string& url, bool read_only,
                                                     const Logger* log);
  ~RedisEngine() override;

  Result<TxnOutcome> WithTxn(const Context& ctx, const Body& body) override;
  Result<void> ReadOnce(const Context& ctx, const ReadSet& set) override;

  Result<std::optional<std::string>> LoadSetting(const Context& ctx) override;
  Result<void> StoreSetting(const Context& ctx, std::string_view json, bool new_volume,
                            std::span<const std::pair<Ino, Attr>> nodes) override;
  Result<void> PrepareForWriting(const Context& ctx) override;

  Result<std::optional<Found>> FindEntry(const Context& ctx, Ino parent,
                                         std::string_view name) override;
  Result<DirPage> ReadDir(const Context& ctx, Ino ino, std::string_view cursor, std::size_t limit,
                          bool with_attrs) override;
  Result<std::optional<std::string>> ReadSymlink(const Context& ctx, Ino ino) override;
  Result<std::vector<std::string>> ListXattr(const Context& ctx, Ino ino) override;

  Result<std::uint64_t> AllocateInodes(const Context& ctx, std::uint64_t count) override;
  Result<std::uint64_t> AllocateSlices(const Context& ctx, std::uint64_t count) override;
  Result<std::uint64_t> NextSession(const Context& ctx) override;
  Result<std::uint64_t> NextTrash(const Context& ctx) override;
  Result<Usage> GetUsage(const Context& ctx) override;
  Result<bool> TryLease(const Context& ctx, Lease lease, std::int64_t now,
                        std::int64_t interval) override;

  Result<void> PutSession(const Context& ctx, std::uint64_t sid, std::int64_t expires,
                          std::string_view info_json) override;
  Result<std::vector<SessionRecord>> ListSessions(const Context& ctx) override;
  Result<std::vector<Ino>> ListSustained(const Context& ctx, std::uint64_t sid) override;
  Result<void> DeleteSession(const Context& ctx, std::uint64_t sid) override;

  Result<std::vector<DeletedFile>> ListDeletedFiles(const Context& ctx, std::int64_t before,
                                                    std::size_t limit) override;
  Result<std::vector<SliceKey>> ListGarbage(const Context& ctx, std::size_t limit) override;
  Result<void> ForgetSlices(const Context& ctx, std::span<const SliceKey> slices) override;
  Result<std::vector<DelayedSlices>> ListDelayedSlices(const Context& ctx, std::int64_t before,
                                                       std::size_t limit) override;
  Result<std::vector<SliceKey>> ReleaseDelayedSlices(const Context& ctx,
                                                     const DelayedSlices& delayed) override;

  Result<std::optional<DirUsage>> GetDirUsage(const Context& ctx, Ino ino) override;
  Result<DirUsage> SyncDirUsage(const Context& ctx, Ino ino) override;
  Result<std::vector<std::pair<Ino, DirQuota>>> ListDirQuotas(const Context& ctx) override;
  Result<void> PutDirQuota(const Context& ctx, Ino ino, const DirQuota& quota) override;
  Result<void> DeleteDirQuota(const Context& ctx, Ino ino) override;

  // About a thousand changes: Redis does nothing else meanwhile.
  std::size_t BatchSize() const override { return 300; }
  bool FindsChunks() const override { return false; }
  Result<void> ScanTree(const Context& ctx, Ino root, bool with_slices, TreeSink& sink) override;
  Result<void> ScanChunks(
      const Context& ctx,
      const std::function<Result<void>(Ino, std::uint32_t, std::vector<Slice>)>& fn) override;
  Result<void> ScanSliceRefs(
      const Context& ctx, const std::function<Result<void>(SliceKey, std::int64_t)>& fn) override;

  // -- For the parts of this engine --
  const RedisKeys& keys() const { return keys_; }
  const std::string& address() const { return calls_->address(); }
  // Answers a kChunkIndexes request whose range is wider than one round trip asks for.
  Result<void> FindChunkIndexes(const Context& ctx, const ReadSet::Request& request);
  // Whether the directory has been seen to have statistics on record.
  bool IsCounted(Ino dir) EXCLUDES(counted_mutex_);
  void RememberCounted(Ino dir) EXCLUDES(counted_mutex_);

 private:
  RedisEngine(bool read_only, const Logger* log);

  // Answers a kChunkIndexes request by looking at all keys of the database.
  Result<void> ScanChunkIndexes(const Context& ctx, const ReadSet::Request& request);

  // Commands that do no harm twice; an error among the replies is an error.
  Result<std::vector<redis::Reply>> Run(const Context& ctx, const redis::Commands& commands);
  Result<redis::Reply> Call(const Context& ctx, std::initializer_list<redis::Arg> args);
  // A transaction outside the tree, in turns with others of the same key if one is given.
  Result<std::vector<redis::Reply>> Write(const Context& ctx, const redis::Transactions::Body& body,
                                          std::string_view turn = "");
  // The same where the replies tell nothing.
  Result<void> WriteOnly(const Context& ctx, const redis::Transactions::Body& body,
                         std::string_view turn = "");
  // One INCRBY; ids that a lost reply took with it are never used.
  Result<std::uint64_t> Increment(const Context& ctx, std::string_view counter, std::uint64_t by);
  // Which key the body reads first.
  std::string FirstKey(const Body& body);
  // Calls fn(field, value) for each field of a hash, some perhaps twice.
  using FieldFn = std::function<Result<void>(std::string_view field, std::string_view value)>;
  Result<void> ScanHash(const Context& ctx, const std::string& key, const FieldFn& fn);
  // Counts the children of a directory, and queues what the statistics need to say so.
  Result<DirUsage> Recount(redis::Txn& txn, Ino ino);
  Result<DirUsage> CountChildren(redis::Txn& txn, Ino ino);
  Result<std::optional<Found>> FindInTwoCalls(const Context& ctx, Ino parent,
                                              std::string_view name);
  Result<void> AddAttrs(const Context& ctx, std::vector<DirEntry>& entries);
  Result<std::vector<DirEntry>> ListAll(const Context& ctx, Ino ino);

  const RedisKeys keys_;
  const bool read_only_;
  const Logger* const log_;
  // Two pools, because the body of a transaction may make calls: with one, transactions that hold
  // all connections would wait for each other.
  std::unique_ptr<redis::Pool> calls_;
  std::unique_ptr<redis::Pool> transacting_;
  std::unique_ptr<redis::Transactions> transactions_;
  const redis::Script find_script_;
  std::atomic<bool> scripts_refused_ = false;

  // Directories with statistics on record. They lose it only when somebody switches statistics off
  // and on, so this is forgotten whenever the setting is read.
  Mutex counted_mutex_;
  std::unordered_set<Ino> counted_ GUARDED_BY(counted_mutex_);
};

}  // namespace paddleop::volume
