#include "runtime/server/set_totals.h"

#include <algorithm>
#include <utility>

#include "base/thread_pool.h"

namespace paddleop::runtime {

SetTotals::SetTotals(volume::MetaStore& meta, const Logger& log)
    : meta_(meta), log_(log), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

SetTotals::Totals SetTotals::Get() const {
  MutexLock lock(mutex_);
  return totals_;
}

void SetTotals::LookNow() {
  MutexLock lock(mutex_);
  asked_ = true;
  wake_.notify_all();
}

void SetTotals::Run(const std::stop_token& stop) {
  SetThreadName("set-totals");
  while (!stop.stop_requested()) {
    const auto took =
        Look(Context::Background().WithStop(stop).WithTimeout(std::chrono::minutes(5)));
    MutexLock lock(mutex_);
    wake_.wait_for(lock, stop, std::max<std::chrono::nanoseconds>(kInterval, 20 * took),
                   [&]() REQUIRES(mutex_) { return asked_; });
    if (std::exchange(asked_, false)) seen_space_ = UINT64_MAX;
  }
}

std::chrono::nanoseconds SetTotals::Look(const Context& ctx) {
  auto usage = meta_.GetStatFs(ctx);
  // What moves to the trash still takes space: imports and removals leave their mark on the root.
  const std::string version =
      meta_.GetXattr(ctx, volume::kRootIno, volume::kTreeVersionXattr).value_or("");
  if (usage && usage->used_space == seen_space_ && usage->used_inodes == seen_inodes_ &&
      version == seen_version_) {
    return {};
  }
  const auto begun = std::chrono::steady_clock::now();
  auto summary = usage ? meta_.Summarize(ctx, volume::kRootIno)
                       : Result<volume::TreeSummary>(std::unexpected(usage.error()));
  if (!summary) {
    if (!ctx.Stopped()) {
      log_.Warn(ctx, "size of the set not found", {{"error", summary.error().message()}});
    }
    // A server that was away is no reason to wait longer.
    return {};
  }
  seen_space_ = usage->used_space;
  seen_inodes_ = usage->used_inodes;
  seen_version_ = version;
  MutexLock lock(mutex_);
  totals_ = {.bytes = summary->length, .files = summary->files, .known = true};
  return std::chrono::steady_clock::now() - begun;
}

}  // namespace paddleop::runtime
