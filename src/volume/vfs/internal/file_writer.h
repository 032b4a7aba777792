#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/log.h"
#include "base/mutex.h"
#include "volume/chunk/block_store.h"
#include "volume/chunk/slice_writer.h"
#include "volume/meta/meta_store.h"
#include "volume/vfs/internal/slice_views.h"

namespace paddleop::volume {

// What was written to one file and is not yet in the volume: slices in the making, in the order in
// which they must be committed, because later records hide earlier ones.
//
// Thread-safe. Writers are taken one after the other; a flush may run beside a write and commits
// what was written before it began.
class FileWriter {
 public:
  // All outlive this object. The views are dropped with every commit, before the slice ceases to
  // be pending: a reader sees it here or there. `all_losses` counts those of all files.
  FileWriter(MetaStore& meta, BlockStore& blocks, SliceViews& views, const Logger& log,
             std::atomic<std::uint64_t>& all_losses, Ino ino, std::uint64_t length);

  Result<void> Write(const Context& ctx, std::uint64_t offset, std::span<const std::byte> data);
  // At the end of the file as it is when it is this write's turn.
  Result<void> Append(const Context& ctx, std::span<const std::byte> data);
  // Everything written before is stored and committed when it returns. What cannot be stored for
  // good is lost; because the caller need not be who wrote it, every loss is also counted. Nothing
  // is lost if the caller is stopped or its time is up, nor if the object store or the metadata is
  // away or refuses for a while: the next flush goes on.
  Result<void> Flush(const Context& ctx);
  // Drops what could not be stored, when nobody is left to wait for it: a flush that is under way
  // elsewhere commits no more of it.
  void Abandon();

  // The same without waiting for writers, uploads, nor for another flush: what is being written or
  // on its way stays, and so do the commits of what was begun after it, but all that can leave
  // does. Somebody who has many files to flush is not held up by one.
  Result<void> FlushIdle(const Context& ctx);
  // Hands over what nobody is writing to, so that it is on its way when Flush comes.
  void StartUploads(const Context& ctx);

  // The slices that were lost so far.
  std::uint64_t losses() const;
  // The error of the last loss if there were more than `seen`.
  Result<void> LossSince(std::uint64_t seen) const;
  // The same, and brings `seen` up to date.
  Result<void> TakeLossSince(std::atomic<std::uint64_t>& seen) const;

  // The end of the file as this client sees it.
  std::uint64_t length() const { return length_.load(); }
  // For what changes the file in the volume and may set its length: `change` runs when everything
  // written before is committed, while no writer gets in, and says how long the file is afterwards.
  // If it fails the volume is asked, now or before the next append.
  Result<void> ChangeInVolume(const Context& ctx,
                              const std::function<Result<std::uint64_t>()>& change);
  // Before the volume is asked how long the file is.
  struct Question {
    std::uint64_t version = 0;  // of what this client has done to the length in the volume
    std::uint64_t cuts = 0;     // how many times it was set, not only extended
    std::uint64_t number = 0;
  };
  Question Ask();
  // What the volume answered. Not believed if a later question was answered already, nor if this
  // client has set the length since. What it has written or committed since then only makes the
  // file longer than the answer. False if the volume has to be asked again to know all that others
  // have done to the file; what they have appended is known then, too, unless the length was set.
  bool LearnLength(std::uint64_t length, const Question& question);
  // The same for who was told without a question: only if nobody has asked or written so far.
  bool LearnFirstLength(std::uint64_t length);
  bool Dirty() const;
  // When the last of what is pending was written, if anything is.
  std::optional<Timestamp> UncommittedTime() const;
  // When the oldest pending byte was written; max if there is none.
  std::chrono::steady_clock::time_point OldestWrite() const;
  std::chrono::steady_clock::time_point LastWrite() const;

 private:
  struct Pending;
  using Slices = std::deque<std::shared_ptr<Pending>>;

  Result<std::shared_ptr<Pending>> PendingFor(const Context& ctx, std::uint32_t index,
                                              std::uint32_t pos, std::uint32_t size);
  Result<void> WriteAt(const Context& ctx, std::uint64_t offset, std::span<const std::byte> data)
      REQUIRES(write_mutex_);
  // As much as one slice takes.
  Result<std::size_t> WriteSome(const Context& ctx, std::uint32_t index, std::uint32_t pos,
                                std::span<const std::byte> data);
  Result<void> WritePiece(const Context& ctx, std::uint32_t index, std::uint32_t pos,
                          std::span<const std::byte> data);
  // Takes nothing back.
  void ExtendTo(std::uint64_t end);
  // What a change has made of the length; not believed if a later question was answered.
  bool SetLength(std::uint64_t length, const Question& question);
  // What the volume says, when nothing is pending; if it says nothing, `otherwise` until it does.
  Result<void> AskForLength(const Context& ctx, std::optional<std::uint64_t> otherwise = {})
      REQUIRES(write_mutex_);
  // Ends the doubt that a change has left.
  Result<void> SettleLength(const Context& ctx) REQUIRES(write_mutex_);
  // Takes what there is: later writes go to other slices.
  Slices Freeze();
  // For `changed_`, within the caller's time.
  template <class Ready>
  Result<void> WaitUntil(const Context& ctx, MutexLock& lock, Ready ready);
  Result<void> WaitForWriter(const Context& ctx, const Pending& pending);
  Result<bool> IsCommitted(const Context& ctx, Backoff& backoff, const Pending& pending);
  // `keep` is set where a later call may succeed.
  Result<void> Commit(const Context& ctx, Pending& pending, bool& keep);
  // One flush at a time.
  Result<void> TakeTurn(const Context& ctx);
  bool TryTakeTurn();
  void EndTurn();
  // Hands over what nobody is writing to. Returns those that can be committed without waiting for a
  // writer: the ones before the first that is being written to.
  Slices SealIdle(const Context& ctx, const Slices& slices);
  // Waits for the writers and uploads of these slices, or stops at the first that it would have to
  // wait for, and commits them in turn.
  enum class Wait { kNo, kYes };
  Result<void> Store(const Context& ctx, const Slices& todo, Wait wait);
  // `keep` says whether a later call may succeed where this one failed. If not, the slice must not
  // be stored any more: its objects may be deleted.
  Result<void> StoreOne(const Context& ctx, Pending& pending, Wait wait, bool& keep);

  MetaStore& meta_;
  BlockStore& blocks_;
  SliceViews& views_;
  const Logger& log_;
  std::atomic<std::uint64_t>& all_losses_;
  const Ino ino_;
  std::atomic<std::uint64_t> length_;

  // One writer at a time; taken before mutex_. Who holds it may flush: a flush waits for slices
  // that are being written to, and then there are none.
  Mutex write_mutex_;
  bool length_in_doubt_ GUARDED_BY(write_mutex_) = false;
  mutable Mutex mutex_;
  CondVar changed_;  // a pending slice is no longer being written to, or a flush has ended
  Slices pending_ GUARDED_BY(mutex_);
  bool flushing_ GUARDED_BY(mutex_) = false;
  bool abandoned_ GUARDED_BY(mutex_) = false;
  std::uint64_t version_ GUARDED_BY(mutex_) = 0;
  std::uint64_t cuts_ GUARDED_BY(mutex_) = 0;
  std::uint64_t questions_ GUARDED_BY(mutex_) = 0;
  std::uint64_t answered_ GUARDED_BY(mutex_) = 0;  // the latest question whose answer is known
  Timestamp committed_mtime_ GUARDED_BY(mutex_);   // the latest so far
  std::uint64_t losses_ GUARDED_BY(mutex_) = 0;
  std::optional<Status> last_loss_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
