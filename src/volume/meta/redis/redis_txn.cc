#include "volume/meta/redis/redis_txn.h"

#include <algorithm>

#include "volume/format/codec.h"
#include "volume/meta/redis/redis_engine.h"
#include "volume/meta/redis/redis_reads.h"

namespace paddleop::volume {

Result<void> RedisTxn::Read(const ReadSet& reads) {
  const RedisKeys& keys = engine_.keys();
  const ReadPlan plan(keys, reads);
  std::vector<std::string> watch = plan.WatchKeys(keys);
  if (raw_ == nullptr) {
    if (first_key_.empty() && !watch.empty()) first_key_ = watch.front();
    return Fail(Code::kCancelled, "only the first key was wanted");
  }
  std::erase_if(watch, [&](const std::string& key) { return !watched_.insert(key).second; });
  const std::vector<std::string_view> names(watch.begin(), watch.end());
  const auto replies = raw_->Watch(names, plan.commands());
  if (!replies) return std::unexpected(AsDamage(replies.error()));
  RETURN_IF_ERROR(plan.Answer(engine_.address(), *replies));
  for (const ReadSet::Request& request : plan.wide()) {
    RETURN_IF_ERROR(engine_.FindChunkIndexes(raw_->context(), request));
  }
  return {};
}

void RedisTxn::Queue(std::initializer_list<redis::Arg> args) {
  if (raw_ != nullptr) raw_->Queue(args);
}

void RedisTxn::QueueAll(const std::vector<redis::Arg>& args) { raw_->Queue(args); }

void RedisTxn::InsertNode(Ino ino, const Attr& attr) { nodes_[ino] = EncodeAttr(attr); }

void RedisTxn::UpdateNode(Ino ino, const Attr& attr) { nodes_[ino] = EncodeAttr(attr); }

void RedisTxn::DeleteNode(Ino ino) { nodes_[ino] = std::nullopt; }

void RedisTxn::PutEdge(Ino parent, std::string_view name, const Edge& edge) {
  edges_[parent].insert_or_assign(std::string(name), edge);
}

void RedisTxn::DeleteEdge(Ino parent, std::string_view name) {
  edges_[parent].insert_or_assign(std::string(name), std::nullopt);
}

void RedisTxn::DeleteLater(std::string key) {
  if (raw_ != nullptr) deletes_.push_back(std::move(key));
}

void RedisTxn::QueueDeletes() {
  if (deletes_.empty()) return;
  std::vector<redis::Arg> args = {"DEL"};
  args.insert(args.end(), deletes_.begin(), deletes_.end());
  QueueAll(args);
  deletes_.clear();
}

void RedisTxn::AddParent(Ino ino, Ino parent, std::int64_t delta) {
  QueueDeletes();
  Queue({"HINCRBY", engine_.keys().Parents(ino), ToInt(parent), delta});
}

void RedisTxn::DeleteParents(Ino ino) { DeleteLater(engine_.keys().Parents(ino)); }

void RedisTxn::PutSymlink(Ino ino, std::string_view target) {
  QueueDeletes();
  Queue({"SET", engine_.keys().Symlink(ino), target});
}

void RedisTxn::DeleteSymlink(Ino ino) { DeleteLater(engine_.keys().Symlink(ino)); }

void RedisTxn::PutXattr(Ino ino, std::string_view name, std::string_view value) {
  QueueDeletes();
  Queue({"HSET", engine_.keys().Xattr(ino), name, value});
}

void RedisTxn::DeleteXattr(Ino ino, std::string_view name) {
  Queue({"HDEL", engine_.keys().Xattr(ino), name});
}

void RedisTxn::DeleteXattrs(Ino ino) { DeleteLater(engine_.keys().Xattr(ino)); }

void RedisTxn::AppendSlices(Ino ino, std::uint32_t index, std::span<const Slice> slices) {
  if (raw_ == nullptr || slices.empty()) return;
  QueueDeletes();
  const std::string key = engine_.keys().Chunk(ino, index);
  const std::string records = EncodeSlices(slices);
  std::vector<redis::Arg> args = {"RPUSH", key};
  for (std::size_t at = 0; at < records.size(); at += kSliceRecordSize) {
    args.emplace_back(std::string_view(records).substr(at, kSliceRecordSize));
  }
  QueueAll(args);
}

void RedisTxn::DeleteChunk(Ino ino, std::uint32_t index) {
  DeleteLater(engine_.keys().Chunk(ino, index));
}

// The stored count is one less than the number of records, and absent for zero.
void RedisTxn::NewSlice(const SliceKey& slice, std::int64_t references) {
  references_[slice].delta += references - 1;
}

void RedisTxn::RetainSlice(const SliceKey& slice, std::int64_t references) {
  references_[slice].delta += references;
}

void RedisTxn::ReleaseSlice(const SliceKey& slice) {
  References& references = references_[slice];
  --references.delta;
  references.released = true;
}

void RedisTxn::AddUsage(std::int64_t space, std::int64_t inodes) {
  space_ += space;
  inodes_ += inodes;
}

void RedisTxn::InitDirUsage(Ino ino) {
  made_.insert(ino);
  unmade_.erase(ino);
  const RedisKeys& keys = engine_.keys();
  Queue({"HSET", keys.DirDataLength(), ToInt(ino), 0});
  Queue({"HSET", keys.DirUsedSpace(), ToInt(ino), 0});
  Queue({"HSET", keys.DirUsedInodes(), ToInt(ino), 0});
}

void RedisTxn::AddDirUsage(Ino ino, const DirUsage& delta) { dir_usage_[ino] += delta; }

void RedisTxn::DeleteDirUsage(Ino ino) {
  unmade_.insert(ino);
  made_.erase(ino);
  const RedisKeys& keys = engine_.keys();
  for (const std::string& key :
       {keys.DirDataLength(), keys.DirUsedSpace(), keys.DirUsedInodes(), keys.DirQuota(),
        keys.DirQuotaUsedSpace(), keys.DirQuotaUsedInodes()}) {
    Queue({"HDEL", key, ToInt(ino)});
  }
}

// If the quota is gone meanwhile, this leaves numbers that nobody reads; setting it anew replaces
// them.
void RedisTxn::AddQuotaUsage(Ino ino, std::int64_t space, std::int64_t inodes) {
  const RedisKeys& keys = engine_.keys();
  if (space != 0) Queue({"HINCRBY", keys.DirQuotaUsedSpace(), ToInt(ino), space});
  if (inodes != 0) Queue({"HINCRBY", keys.DirQuotaUsedInodes(), ToInt(ino), inodes});
}

void RedisTxn::QueueDeletion(Ino ino, std::uint64_t length, std::int64_t now) {
  deletions_.emplace_back(now, DelFileMember(ino, length));
}

void RedisTxn::ForgetDeletion(Ino ino, std::uint64_t length) {
  forgotten_.push_back(DelFileMember(ino, length));
}

void RedisTxn::Sustain(std::uint64_t sid, Ino ino) {
  Queue({"SADD", engine_.keys().Sustained(sid), ToInt(ino)});
}

void RedisTxn::Unsustain(std::uint64_t sid, Ino ino) {
  Queue({"SREM", engine_.keys().Sustained(sid), ToInt(ino)});
}

void RedisTxn::QueueDeletionList() {
  const std::string key = engine_.keys().DelFiles();
  if (!deletions_.empty()) {
    std::vector<redis::Arg> args = {"ZADD", key};
    for (const auto& [time, member] : deletions_) {
      args.emplace_back(time);
      args.emplace_back(member);
    }
    QueueAll(args);
  }
  if (forgotten_.empty()) return;
  std::vector<redis::Arg> args = {"ZREM", key};
  args.insert(args.end(), forgotten_.begin(), forgotten_.end());
  QueueAll(args);
}

void RedisTxn::QueueNodes() {
  std::vector<std::string> names;
  names.reserve(nodes_.size());
  std::vector<redis::Arg> set = {"MSET"};
  std::vector<redis::Arg> del = {"DEL"};
  for (const auto& [ino, bytes] : nodes_) {
    names.push_back(engine_.keys().Attr(ino));
    if (bytes) {
      set.emplace_back(names.back());
      set.emplace_back(*bytes);
    } else {
      del.emplace_back(names.back());
    }
  }
  if (set.size() > 1) QueueAll(set);
  if (del.size() > 1) QueueAll(del);
}

void RedisTxn::QueueEdges() {
  for (const auto& [parent, names] : edges_) {
    const std::string key = engine_.keys().Dir(parent);
    std::vector<std::string> values;
    values.reserve(names.size());
    std::vector<redis::Arg> set = {"HSET", key};
    std::vector<redis::Arg> del = {"HDEL", key};
    for (const auto& [name, edge] : names) {
      if (edge) {
        values.push_back(EncodeEdge(*edge));
        set.emplace_back(name);
        set.emplace_back(values.back());
      } else {
        del.emplace_back(name);
      }
    }
    if (del.size() > 2) QueueAll(del);
    if (set.size() > 2) QueueAll(set);
  }
}

void RedisTxn::QueueReferences() {
  const std::string key = engine_.keys().SliceRef();
  for (const auto& [slice, references] : references_) {
    if (references.delta == 0) continue;
    if (references.released) releases_.push_back({.position = raw_->queued(), .slice = slice});
    Queue({"HINCRBY", key, SliceRefField(slice), references.delta});
  }
}

Result<void> RedisTxn::FindUncounted(std::vector<Ino> asked) {
  if (asked.empty()) return {};
  const std::string key = engine_.keys().DirUsedSpace();
  redis::Commands commands;
  for (const Ino ino : asked) commands.Add({"HEXISTS", key, ToInt(ino)});
  const auto replies = raw_->Run(commands);
  if (!replies) return std::unexpected(AsDamage(replies.error()));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    ASSIGN_OR_RETURN(const std::int64_t exists, (*replies)[i].ToInteger());
    if (exists > 0) {
      engine_.RememberCounted(asked[i]);
    } else {
      uncounted_.push_back(asked[i]);
    }
  }
  return {};
}

Result<void> RedisTxn::QueueDirUsage() {
  std::vector<Ino> asked;
  for (const auto& [ino, delta] : dir_usage_) {
    if (delta.IsZero() || made_.contains(ino) || unmade_.contains(ino)) continue;
    if (!engine_.IsCounted(ino)) asked.push_back(ino);
  }
  RETURN_IF_ERROR(FindUncounted(std::move(asked)));
  const RedisKeys& keys = engine_.keys();
  for (const auto& [ino, delta] : dir_usage_) {
    if (unmade_.contains(ino) ||
        std::find(uncounted_.begin(), uncounted_.end(), ino) != uncounted_.end()) {
      continue;
    }
    if (delta.length != 0) Queue({"HINCRBY", keys.DirDataLength(), ToInt(ino), delta.length});
    if (delta.space != 0) Queue({"HINCRBY", keys.DirUsedSpace(), ToInt(ino), delta.space});
    if (delta.inodes != 0) Queue({"HINCRBY", keys.DirUsedInodes(), ToInt(ino), delta.inodes});
  }
  return {};
}

Result<void> RedisTxn::Finish() {
  QueueDeletes();
  QueueDeletionList();
  QueueNodes();
  QueueEdges();
  QueueReferences();
  RETURN_IF_ERROR(QueueDirUsage());
  const RedisKeys& keys = engine_.keys();
  if (space_ != 0) Queue({"INCRBY", keys.Counter("usedSpace"), space_});
  if (inodes_ != 0) Queue({"INCRBY", keys.Counter("totalInodes"), inodes_});
  return {};
}

Result<TxnOutcome> RedisTxn::Outcome(std::span<const redis::Reply> replies) const {
  TxnOutcome outcome;
  for (const Release& release : releases_) {
    if (release.position >= replies.size()) {
      return Fail(Code::kInternal, "{} replies, none for command {}", replies.size(),
                  release.position);
    }
    ASSIGN_OR_RETURN(const std::int64_t left, replies[release.position].ToInteger());
    if (left < 0) outcome.garbage.push_back(release.slice);
  }
  return outcome;
}

}  // namespace paddleop::volume
