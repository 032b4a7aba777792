#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "volume/data/internal/import_state.h"

namespace paddleop::volume::data {

// Lists the source on threads of its own, ahead of who takes the entries by a bounded number. A
// bucket whose directories hold many objects each is listed several directories at a time.
class SourceListing {
 public:
  using Batch = std::vector<object::ObjectInfo>;

  explicit SourceListing(ImportState& state);
  ~SourceListing();

  // The next entries in key order; empty at the end. The error of the listing comes last.
  Result<Batch> Next();

 private:
  // One piece of the listing: all keys that begin with `entry.key`, or just the entry.
  struct Unit {
    object::ObjectInfo entry;
    bool directory = false;
    std::deque<Batch> batches = {};
    bool ended = false;
    Result<void> result = {};
  };

  void Run(const std::stop_token& stop);
  Result<void> List(const Context& ctx);
  Result<void> ListFrom(const Context& ctx, std::string start_after);
  // The units behind `last`, the end of `first`; none if one listing is as good.
  Result<std::deque<Unit>> Split(const Context& ctx, const Batch& first, const std::string& last);
  Result<void> ListUnits(const Context& ctx, std::deque<Unit> units, const std::string& last);
  void ListNextUnits(const Context& ctx, const std::string& last) EXCLUDES(mutex_);
  Result<void> ListUnit(const Context& ctx, Unit& unit, std::size_t number, const std::string& last)
      EXCLUDES(mutex_);
  // Adds an entry if it is wanted; false after the last.
  Result<bool> Take(object::ObjectInfo& entry, Batch& batch) const;
  Result<bool> Push(const Context& ctx, Batch& batch) EXCLUDES(mutex_);
  Result<bool> PushTo(const Context& ctx, Unit& unit, std::size_t number, Batch& batch)
      EXCLUDES(mutex_);

  ImportState& state_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Batch> batches_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  Result<void> result_ GUARDED_BY(mutex_);
  std::deque<Unit> units_;                           // what they hold is guarded by mutex_
  std::size_t next_unit_ GUARDED_BY(mutex_) = 0;     // to be begun
  std::size_t current_unit_ GUARDED_BY(mutex_) = 0;  // whose entries are taken
  std::size_t ahead_ GUARDED_BY(mutex_) = 0;         // batches of units
  std::jthread thread_;                              // last
};

}  // namespace paddleop::volume::data
