#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "redis/transaction.h"
#include "volume/meta/internal/txn.h"

namespace paddleop::volume {

class RedisEngine;

// One attempt of a transaction: what it reads is watched, what it writes is collected and sent with
// MULTI and EXEC in one go.
class RedisTxn final : public MetaTxn {
 public:
  // Without `raw` it only finds out which key the body reads first: Read() fails, writes go
  // nowhere.
  RedisTxn(RedisEngine& engine, redis::Txn* raw) : engine_(engine), raw_(raw) {}

  Result<void> Read(const ReadSet& reads) override;

  void InsertNode(Ino ino, const Attr& attr) override;
  void UpdateNode(Ino ino, const Attr& attr) override;
  void DeleteNode(Ino ino) override;
  void PutEdge(Ino parent, std::string_view name, const Edge& edge) override;
  void DeleteEdge(Ino parent, std::string_view name) override;
  void AddParent(Ino ino, Ino parent, std::int64_t delta) override;
  void DeleteParents(Ino ino) override;

  void PutSymlink(Ino ino, std::string_view target) override;
  void DeleteSymlink(Ino ino) override;
  void PutXattr(Ino ino, std::string_view name, std::string_view value) override;
  void DeleteXattr(Ino ino, std::string_view name) override;
  void DeleteXattrs(Ino ino) override;

  void AppendSlices(Ino ino, std::uint32_t index, std::span<const Slice> slices) override;
  void DeleteChunk(Ino ino, std::uint32_t index) override;
  void NewSlice(const SliceKey& slice, std::int64_t references) override;
  void RetainSlice(const SliceKey& slice, std::int64_t references) override;
  void ReleaseSlice(const SliceKey& slice) override;

  void AddUsage(std::int64_t space, std::int64_t inodes) override;
  void InitDirUsage(Ino ino) override;
  void AddDirUsage(Ino ino, const DirUsage& delta) override;
  void DeleteDirUsage(Ino ino) override;
  void AddQuotaUsage(Ino ino, std::int64_t space, std::int64_t inodes) override;

  void QueueDeletion(Ino ino, std::uint64_t length, std::int64_t now) override;
  void ForgetDeletion(Ino ino, std::uint64_t length) override;
  void Sustain(std::uint64_t sid, Ino ino) override;
  void Unsustain(std::uint64_t sid, Ino ino) override;

  // Queues what was collected; to be called once, when the body has succeeded.
  Result<void> Finish();
  // What the replies to the queued commands tell.
  Result<TxnOutcome> Outcome(std::span<const redis::Reply> replies) const;
  // Directories without statistics on record, to be counted now that the transaction is done.
  const std::vector<Ino>& uncounted() const { return uncounted_; }
  // New directories, whose statistics are on record now.
  const std::set<Ino>& made() const { return made_; }
  const std::string& first_key() const { return first_key_; }

 private:
  struct References {
    std::int64_t delta = 0;
    bool released = false;
  };
  struct Release {
    std::size_t position;  // among the queued commands
    SliceKey slice;
  };

  void Queue(std::initializer_list<redis::Arg> args);
  void QueueAll(const std::vector<redis::Arg>& args);
  // Deletes the key with others in one command, before anything is put under it.
  void DeleteLater(std::string key);
  void QueueDeletes();
  void QueueDeletionList();
  void QueueNodes();
  void QueueEdges();
  void QueueReferences();
  Result<void> QueueDirUsage();
  Result<void> FindUncounted(std::vector<Ino> asked);

  RedisEngine& engine_;
  redis::Txn* const raw_;
  std::string first_key_;
  std::set<std::string> watched_;

  // The last word on each; absent: removed.
  std::map<Ino, std::optional<std::string>> nodes_;
  std::map<Ino, std::map<std::string, std::optional<Edge>, std::less<>>> edges_;
  std::map<SliceKey, References> references_;
  std::vector<Release> releases_;
  std::map<Ino, DirUsage> dir_usage_;
  std::set<Ino> made_;
  std::set<Ino> unmade_;
  std::vector<Ino> uncounted_;
  std::vector<std::string> deletes_;
  std::vector<std::pair<std::int64_t, std::string>> deletions_;  // time and member
  std::vector<std::string> forgotten_;
  std::int64_t space_ = 0;
  std::int64_t inodes_ = 0;
};

}  // namespace paddleop::volume
