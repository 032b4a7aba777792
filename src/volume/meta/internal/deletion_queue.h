#pragma once

#include <deque>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "base/mutex.h"
#include "volume/meta/internal/engine.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {

// Deletes the data of files that lost their last name: drops the references of their slices, then
// the objects of slices nobody refers to. What the queue cannot take, and what is left when the
// process ends, waits in the volume's own list for the next hourly job of any client.
//
// Thread-safe; works on one thread of its own and a few for the objects.
class DeletionQueue {
 public:
  DeletionQueue(MetaEngine& engine, const Logger* log);
  ~DeletionQueue();

  void SetDeleter(MetaStore::SliceDeleter deleter);
  void SetDeleter(MetaStore::BulkSliceDeleter deleter);
  bool HasDeleter();
  // Queues files and slices; without a deleter, or when the queue is full, they stay in the
  // volume's list.
  void Add(std::span<const DeletedFile> files, std::span<const SliceKey> garbage);
  // Waits while the queue is half full: for who removes very many files and wants their data gone.
  Result<void> WaitForRoom(const Context& ctx);
  // Waits until everything queued so far is done.
  Result<void> Drain(const Context& ctx);

  // The same work, done by the caller.
  Result<void> DeleteFiles(const Context& ctx, std::span<const DeletedFile> files);
  Result<void> DeleteSlices(const Context& ctx, std::span<const SliceKey> slices);

 private:
  void Run(const std::stop_token& stop);
  // Drops the references of all files, and returns the slices that nobody refers to any more.
  Result<void> ReleaseAll(const Context& ctx, std::span<const DeletedFile> files,
                          std::vector<SliceKey>& garbage);
  // Drops all references that `file` holds; returns slices without any left.
  Result<std::vector<SliceKey>> ReleaseFiles(const Context& ctx,
                                             std::span<const DeletedFile> files);

  MetaEngine& engine_;
  const Logger* log_;

  Mutex mutex_;
  CondVar changed_;
  MetaStore::BulkSliceDeleter deleter_ GUARDED_BY(mutex_);
  std::deque<DeletedFile> files_ GUARDED_BY(mutex_);
  std::deque<SliceKey> slices_ GUARDED_BY(mutex_);
  bool working_ GUARDED_BY(mutex_) = false;

  std::jthread worker_;  // last: ends before what it uses
};

}  // namespace paddleop::volume
