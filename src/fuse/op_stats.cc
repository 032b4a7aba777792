#include "fuse/op_stats.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <numeric>
#include <system_error>

#include "fuse/metrics.h"

namespace paddleop::fuse {

std::string_view OpName(Op op) {
  static constexpr std::array<std::string_view, kOpCount> kNames = {
      "lookup", "getattr",  "setattr",  "readlink",  "mknod",       "mkdir",     "unlink",
      "rmdir",  "symlink",  "rename",   "link",      "open",        "create",    "read",
      "write",  "flush",    "release",  "fsync",     "opendir",     "readdir",   "releasedir",
      "statfs", "setxattr", "getxattr", "listxattr", "removexattr", "fallocate", "copy_file_range"};
  return kNames[static_cast<std::size_t>(op)];
}

OpStats::OpStats(MetricsRegistry& metrics)
    : read_bytes_(metrics.AddCounter(kBytesTotal, kBytesTotalHelp, {{"direction", "read"}})),
      written_bytes_(metrics.AddCounter(kBytesTotal, kBytesTotalHelp, {{"direction", "written"}})),
      dropped_(metrics.AddCounter(kAccessLogDropped, kAccessLogDroppedHelp)) {
  // From 10 us: most answers come from memory.
  const std::vector<double> buckets = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2,
                                       3e-2, 0.1,  0.3,  1,    3,    10,   30};
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const MetricsRegistry::Labels labels = {{"op", std::string(OpName(static_cast<Op>(i)))}};
    seconds_[i] = &metrics.AddHistogram(kOperationSeconds, kOperationSecondsHelp, labels, buckets);
    error_counters_[i] = &metrics.AddCounter(kErrorsTotal, kErrorsTotalHelp, labels);
  }
}

void OpStats::Record(Op op, std::chrono::nanoseconds took, int error) {
  const auto i = static_cast<std::size_t>(op);
  counts_[i].fetch_add(1, std::memory_order_relaxed);
  seconds_[i]->Observe(std::chrono::duration<double>(took).count());
  if (error == 0 || error == ENOENT || error == ENODATA || error == ENOSYS) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  error_counters_[i]->Increment();
}

std::uint64_t OpStats::total() const {
  std::uint64_t sum = 0;
  for (const auto& count : counts_) sum += count.load();
  return sum;
}

void OpStats::Publish() {
  MutexLock lock(publish_mutex_);
  read_bytes_.Increment(static_cast<double>(bytes_read()) - read_bytes_.Value());
  written_bytes_.Increment(static_cast<double>(bytes_written()) - written_bytes_.Value());
}

void OpStats::Log(Op op, const OpDetail& detail, std::chrono::nanoseconds took, int error) {
  const auto now = std::chrono::system_clock::now();
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
      1'000'000;
  const std::string line =
      fmt::format("{:%Y.%m.%d %H:%M:%S}.{:06} [uid:{},gid:{},pid:{}] {} ({}): {} <{:.6f}>\n",
                  fmt::gmtime(std::chrono::system_clock::to_time_t(now)), micros, detail.uid,
                  detail.gid, detail.pid, OpName(op), detail.arguments,
                  error == 0 ? "OK" : std::system_category().message(error),
                  std::chrono::duration<double>(took).count());
  MutexLock lock(mutex_);
  std::erase_if(readers_, [&](const std::shared_ptr<net::ResponseStream>& reader) {
    if (reader->Closed()) return true;
    if (!reader->TryWrite(line)) dropped_.Increment();
    return false;
  });
  logging_.store(!readers_.empty());
}

void OpStats::Follow(std::shared_ptr<net::ResponseStream> stream) {
  MutexLock lock(mutex_);
  readers_.push_back(std::move(stream));
  logging_.store(true);
}

}  // namespace paddleop::fuse
