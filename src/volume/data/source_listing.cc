#include "volume/data/internal/source_listing.h"

#include <algorithm>
#include <set>

#include "base/thread_pool.h"
#include "volume/data/internal/import_rules.h"

namespace paddleop::volume::data {
namespace {

constexpr std::size_t kBatchSize = 1000;  // what bucket services give in one answer, too
constexpr std::size_t kBatchesAhead = 4;
// Listing directories one by one pays if they hold at least so many objects.
constexpr std::size_t kWorthARequest = 100;
constexpr std::size_t kMaxUnits = 10'000;
constexpr std::ptrdiff_t kFewUnits = 4;  // fewer are split further
constexpr std::size_t kMaxDepth = 3;
constexpr std::size_t kListers = 8;
constexpr std::size_t kUnitBatchesAhead = 16;

// Everything up to the n-th '/'.
std::string_view Above(std::string_view key, std::size_t slashes) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < slashes; ++i) {
    const std::size_t slash = key.find('/', at);
    if (slash == std::string_view::npos) return key;
    at = slash + 1;
  }
  return key.substr(0, at);
}

}  // namespace

SourceListing::SourceListing(ImportState& state)
    : state_(state), thread_([this](const std::stop_token& stop) {
        SetThreadName("import-list");
        Run(stop);
      }) {}

SourceListing::~SourceListing() {
  thread_.request_stop();
  changed_.notify_all();
}

void SourceListing::Run(const std::stop_token& stop) {
  // Ends with the import, and when its taker has gone.
  std::stop_source both;
  const std::stop_callback ours(stop, [&] { both.request_stop(); });
  const std::stop_callback theirs(state_.ctx().stop(), [&] { both.request_stop(); });
  auto listed = List(state_.ctx().WithStop(both.get_token()));
  MutexLock lock(mutex_);
  ended_ = true;
  result_ = std::move(listed);
  changed_.notify_all();
}

Result<bool> SourceListing::Push(const Context& ctx, Batch& batch) {
  MutexLock lock(mutex_);
  changed_.wait(lock, ctx.stop(),
                [this]() REQUIRES(mutex_) { return batches_.size() < kBatchesAhead; });
  RETURN_IF_ERROR(ctx.Check());
  batches_.push_back(std::exchange(batch, {}));
  changed_.notify_all();
  return true;
}

Result<bool> SourceListing::Take(object::ObjectInfo& entry, Batch& batch) const {
  const ImportOptions& options = state_.options;
  if (!options.end.empty() && entry.key > options.end) return false;
  // The object that stands for the source's own folder, as consoles of buckets make it.
  if (entry.key.empty() && entry.size == 0) return true;
  if (entry.key >= options.start) batch.push_back(std::move(entry));
  return true;
}

Result<void> SourceListing::ListFrom(const Context& ctx, std::string start_after) {
  Batch batch;
  RETURN_IF_ERROR(state_.source.store->List(ctx,
                                            {.start_after = std::move(start_after),
                                             .directories = state_.options.dirs,
                                             .unreadable = true},
                                            [&](object::ObjectInfo& entry) -> Result<bool> {
                                              ASSIGN_OR_RETURN(const bool more, Take(entry, batch));
                                              if (!more || batch.size() < kBatchSize) return more;
                                              return Push(ctx, batch);
                                            }));
  if (!batch.empty()) RETURN_IF_ERROR(Push(ctx, batch));
  return {};
}

Result<void> SourceListing::List(const Context& ctx) {
  const Source& source = state_.source;
  if (!source.single.empty()) {
    ASSIGN_OR_RETURN(object::ObjectInfo info, source.store->Head(ctx, source.single));
    info.key = source.single;
    Batch batch;
    batch.push_back(std::move(info));
    RETURN_IF_ERROR(Push(ctx, batch));
    return {};
  }
  const std::string start = StartAfter(state_.options.start);
  // Only bucket services, which also know uploads in parts, answer page by page.
  if (source.store->traits().min_part_size == 0) return ListFrom(ctx, start);

  Batch first;
  std::size_t seen = 0;
  std::string last;
  bool more = true;
  RETURN_IF_ERROR(source.store->List(ctx, {.start_after = start, .limit = kBatchSize},
                                     [&](object::ObjectInfo& entry) -> Result<bool> {
                                       ++seen;
                                       last = entry.key;
                                       ASSIGN_OR_RETURN(more, Take(entry, first));
                                       return more;
                                     }));
  if (seen < kBatchSize || !more) {
    if (!first.empty()) RETURN_IF_ERROR(Push(ctx, first));
    return {};
  }
  ASSIGN_OR_RETURN(std::deque<Unit> units, Split(ctx, first, last));
  if (!first.empty()) RETURN_IF_ERROR(Push(ctx, first));
  if (units.empty()) return ListFrom(ctx, last);
  return ListUnits(ctx, std::move(units), last);
}

Result<std::deque<SourceListing::Unit>> SourceListing::Split(const Context& ctx, const Batch& first,
                                                             const std::string& last) {
  std::deque<Unit> units;
  units.push_back({.entry = {}, .directory = true});
  for (std::size_t depth = 1; depth <= kMaxDepth; ++depth) {
    std::set<std::string_view> directories;
    for (const object::ObjectInfo& entry : first) directories.insert(Above(entry.key, depth));
    if (first.size() < directories.size() * kWorthARequest) break;
    std::deque<Unit> deeper;
    for (Unit& unit : units) {
      if (!unit.directory) {
        deeper.push_back(std::move(unit));
        continue;
      }
      // No limit for the store to count by: entries that are passed over are no units.
      RETURN_IF_ERROR(state_.source.store->List(
          ctx, {.prefix = unit.entry.key, .delimiter = "/"},
          [&](object::ObjectInfo& entry) -> Result<bool> {
            // A directory may have an object of its own name.
            const bool directory = entry.key.ends_with('/') && entry.key != unit.entry.key;
            // Stores differ in what they show of a directory that `last` lies in, so they are not
            // asked to begin there.
            if (entry.key <= last && !(directory && last.starts_with(entry.key))) return true;
            deeper.push_back({.entry = std::move(entry), .directory = directory});
            return deeper.size() < kMaxUnits;
          }));
      if (deeper.size() >= kMaxUnits) return std::deque<Unit>{};  // perhaps not all of them
    }
    units = std::move(deeper);
    if (std::ranges::count_if(units, &Unit::directory) >= kFewUnits) return units;
  }
  return std::deque<Unit>{};
}

Result<void> SourceListing::ListUnits(const Context& ctx, std::deque<Unit> units,
                                      const std::string& last) {
  units_ = std::move(units);
  std::stop_source stop;
  const std::stop_callback with_ours(ctx.stop(), [&] { stop.request_stop(); });
  const Context listing = ctx.WithStop(stop.get_token());
  std::vector<std::jthread> listers;
  for (std::size_t i = 0; i < std::min(kListers, units_.size()); ++i) {
    listers.emplace_back([&] {
      SetThreadName("import-list");
      ListNextUnits(listing, last);
    });
  }
  // Whatever happens below, the threads end before the units go.
  struct Stop {
    std::stop_source& source;
    ~Stop() { source.request_stop(); }
  } const stop_first{stop};
  for (Unit& unit : units_) {
    for (;;) {
      Batch batch;
      {
        MutexLock lock(mutex_);
        changed_.wait(lock, [&]() REQUIRES(mutex_) { return unit.ended || !unit.batches.empty(); });
        if (unit.batches.empty()) {
          ++current_unit_;
          changed_.notify_all();
          RETURN_IF_ERROR(unit.result);
          break;
        }
        batch = std::move(unit.batches.front());
        unit.batches.pop_front();
        --ahead_;
        changed_.notify_all();
      }
      RETURN_IF_ERROR(Push(ctx, batch));
    }
  }
  return {};
}

void SourceListing::ListNextUnits(const Context& ctx, const std::string& last) {
  for (;;) {
    std::size_t number = 0;
    {
      MutexLock lock(mutex_);
      if (next_unit_ >= units_.size()) return;
      number = next_unit_++;
    }
    Unit& unit = units_[number];
    auto listed = ListUnit(ctx, unit, number, last);
    MutexLock lock(mutex_);
    unit.ended = true;
    unit.result = std::move(listed);
    changed_.notify_all();
  }
}

Result<void> SourceListing::ListUnit(const Context& ctx, Unit& unit, std::size_t number,
                                     const std::string& last) {
  RETURN_IF_ERROR(ctx.Check());
  Batch batch;
  if (!unit.directory) {
    RETURN_IF_ERROR(Take(unit.entry, batch));
  } else {
    RETURN_IF_ERROR(state_.source.store->List(ctx, {.prefix = unit.entry.key, .start_after = last},
                                              [&](object::ObjectInfo& entry) -> Result<bool> {
                                                ASSIGN_OR_RETURN(const bool more,
                                                                 Take(entry, batch));
                                                if (!more || batch.size() < kBatchSize) return more;
                                                return PushTo(ctx, unit, number, batch);
                                              }));
  }
  if (!batch.empty()) RETURN_IF_ERROR(PushTo(ctx, unit, number, batch));
  return {};
}

// What is taken now has room of its own, so that those ahead of it never keep it waiting.
Result<bool> SourceListing::PushTo(const Context& ctx, Unit& unit, std::size_t number,
                                   Batch& batch) {
  MutexLock lock(mutex_);
  changed_.wait(lock, ctx.stop(), [&]() REQUIRES(mutex_) {
    return ahead_ < kUnitBatchesAhead ||
           (number == current_unit_ && unit.batches.size() < kBatchesAhead);
  });
  RETURN_IF_ERROR(ctx.Check());
  unit.batches.push_back(std::exchange(batch, {}));
  ++ahead_;
  changed_.notify_all();
  return true;
}

Result<SourceListing::Batch> SourceListing::Next() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return ended_ || !batches_.empty(); });
  if (batches_.empty()) {
    if (!result_) return std::unexpected(result_.error().Wrap("list " + state_.source.uri));
    return Batch{};
  }
  Batch batch = std::move(batches_.front());
  batches_.pop_front();
  changed_.notify_all();
  return batch;
}

}  // namespace paddleop::volume::data
