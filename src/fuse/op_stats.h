#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "base/mutex.h"
#include "net/http_server.h"

namespace paddleop::fuse {

// What the kernel asks a file system for.
enum class Op : std::uint8_t {
  kLookup,
  kGetAttr,
  kSetAttr,
  kReadLink,
  kMknod,
  kMkdir,
  kUnlink,
  kRmdir,
  kSymlink,
  kRename,
  kLink,
  kOpen,
  kCreate,
  kRead,
  kWrite,
  kFlush,
  kRelease,
  kFsync,
  kOpenDir,
  kReadDir,
  kReleaseDir,
  kStatFs,
  kSetXattr,
  kGetXattr,
  kListXattr,
  kRemoveXattr,
  kFallocate,
  kCopyRange,
};
inline constexpr std::size_t kOpCount = static_cast<std::size_t>(Op::kCopyRange) + 1;

std::string_view OpName(Op op);

// Who asked for what, for the access log.
struct OpDetail {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t pid = 0;
  std::string arguments;
};

// Counts the requests of a mount, and writes them down while somebody reads the access log.
//
// Thread-safe.
class OpStats {
 public:
  explicit OpStats(MetricsRegistry& metrics);

  void Record(Op op, std::chrono::nanoseconds took, int error);
  void AddBytesRead(std::uint64_t bytes) { read_.fetch_add(bytes, std::memory_order_relaxed); }
  void AddBytesWritten(std::uint64_t bytes) {
    written_.fetch_add(bytes, std::memory_order_relaxed);
  }

  // True while the access log has a reader: only then are details worth collecting.
  bool logging() const { return logging_.load(std::memory_order_relaxed); }
  void Log(Op op, const OpDetail& detail, std::chrono::nanoseconds took, int error);
  // Every line goes to the stream until its client leaves. A reader that is too slow loses lines.
  void Follow(std::shared_ptr<net::ResponseStream> stream);

  std::uint64_t count(Op op) const { return counts_[static_cast<std::size_t>(op)].load(); }
  std::uint64_t total() const;
  std::uint64_t errors() const { return errors_.load(); }
  std::uint64_t bytes_read() const { return read_.load(); }
  std::uint64_t bytes_written() const { return written_.load(); }
  // Brings the byte counters of the registry up to date; before it is printed.
  void Publish();

 private:
  std::array<std::atomic<std::uint64_t>, kOpCount> counts_{};
  std::atomic<std::uint64_t> errors_{0};
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> written_{0};
  std::array<MetricsRegistry::Histogram*, kOpCount> seconds_{};
  std::array<MetricsRegistry::Counter*, kOpCount> error_counters_{};
  MetricsRegistry::Counter& read_bytes_;
  MetricsRegistry::Counter& written_bytes_;
  MetricsRegistry::Counter& dropped_;
  Mutex publish_mutex_;

  std::atomic<bool> logging_{false};
  Mutex mutex_;
  std::vector<std::shared_ptr<net::ResponseStream>> readers_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::fuse
