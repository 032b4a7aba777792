#include "volume/format/trash.h"
#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::size_t kListLimit = 1000;
constexpr auto kDrainTimeout = std::chrono::minutes(10);

}  // namespace

void EngineMetaStore::SetSliceDeleter(SliceDeleter deleter) {
  deletions_.SetDeleter(std::move(deleter));
}

void EngineMetaStore::SetBulkSliceDeleter(BulkSliceDeleter deleter) {
  deletions_.SetDeleter(std::move(deleter));
}

Result<void> EngineMetaStore::DrainDeletions(const Context& ctx) { return deletions_.Drain(ctx); }

Result<std::vector<DeletedFile>> EngineMetaStore::ListDeletedFiles(const Context& ctx,
                                                                   std::size_t limit) {
  return engine_->ListDeletedFiles(ctx, INT64_MAX, limit);
}

Result<void> EngineMetaStore::RunMaintenance(const Context& ctx, bool ignore_leases) {
  RETURN_IF_ERROR(CheckWritable());
  if (auto retried = RetrySustained(ctx); !retried && options_.log != nullptr) {
    options_.log->Warn(ctx, "a removed file stays for now", {{"error", retried.error().message()}});
  }
  const std::int64_t now = NowSeconds();
  const auto heartbeat =
      std::chrono::duration_cast<std::chrono::seconds>(options_.heartbeat).count();
  auto mine = [&](Lease lease, std::int64_t interval) -> Result<bool> {
    if (ignore_leases) return true;
    return engine_->TryLease(ctx, lease, now, interval);
  };
  // Damage that stops one job need not stop those after it.
  Result<void> result;
  const auto note = [&](Result<void> done) {
    if (!done && result) result = std::move(done);
  };
  ASSIGN_OR_RETURN(const bool sessions, mine(Lease::kSessions, heartbeat));
  if (sessions) note(CleanStaleSessions(ctx));
  ASSIGN_OR_RETURN(const bool trash, mine(Lease::kTrash, kHour));
  if (trash) note(CleanTrash(ctx));
  if (!deletions_.HasDeleter()) return result;  // leave the leases to those who can delete
  ASSIGN_OR_RETURN(const bool files, mine(Lease::kFiles, kHour));
  ASSIGN_OR_RETURN(const bool slices, mine(Lease::kSlices, kHour));
  if (!files && !slices) return result;
  // What our own queue is at would be listed, and deleted, a second time.
  RETURN_IF_ERROR(deletions_.Drain(ignore_leases ? ctx : ctx.WithTimeout(kDrainTimeout)));
  if (files) note(CleanDeletedFiles(ctx, ignore_leases));
  if (slices) note(CleanSlices(ctx));
  return result;
}

// The client that deleted a file has an hour for itself before others take over.
Result<void> EngineMetaStore::CleanDeletedFiles(const Context& ctx, bool all) {
  const std::int64_t before = all ? INT64_MAX : NowSeconds() - kHour;
  for (;;) {
    ASSIGN_OR_RETURN(const auto files, engine_->ListDeletedFiles(ctx, before, kListLimit));
    if (files.empty()) return {};
    RETURN_IF_ERROR(deletions_.DeleteFiles(ctx, files));
  }
}

Result<void> EngineMetaStore::CleanSlices(const Context& ctx) {
  for (;;) {
    ASSIGN_OR_RETURN(const auto slices, engine_->ListGarbage(ctx, kListLimit));
    if (slices.empty()) break;
    RETURN_IF_ERROR(deletions_.DeleteSlices(ctx, slices));
  }
  const std::int64_t before = NowSeconds() - std::int64_t{trash_days()} * 24 * kHour;
  for (;;) {
    ASSIGN_OR_RETURN(const auto delayed, engine_->ListDelayedSlices(ctx, before, kListLimit));
    if (delayed.empty()) return {};
    for (const DelayedSlices& record : delayed) {
      ASSIGN_OR_RETURN(const auto garbage, engine_->ReleaseDelayedSlices(ctx, record));
      RETURN_IF_ERROR(deletions_.DeleteSlices(ctx, garbage));
    }
  }
}

Result<void> EngineMetaStore::CleanTrash(const Context& ctx) {
  const auto keep = std::chrono::hours(24 * trash_days() + 2);
  const auto oldest = options_.clock->WallNow() - keep;
  std::string cursor;
  do {
    auto page = engine_->ReadDir(ctx, kTrashIno, cursor, kListLimit, /*with_attrs=*/false);
    if (!page) return std::unexpected(std::move(page).error());
    for (const DirEntry& entry : page->entries) {
      const auto hour = ParseTrashHour(entry.name);
      if (!hour || *hour >= oldest) continue;
      RETURN_IF_ERROR(RemoveAll(ctx, Caller{}, kTrashIno, entry.name, {.skip_trash = true},
                                /*keep_top=*/false));
    }
    cursor = page->next;
  } while (!cursor.empty());
  return {};
}

}  // namespace paddleop::volume
