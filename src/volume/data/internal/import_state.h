// What the stages of one import share.
#pragma once

#include <atomic>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"
#include "volume/data/import.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::data {

// A file on its way from the source into the volume.
struct ImportItem {
  std::string key;  // in the source
  Ino parent = kNoIno;
  std::string name;
  std::uint64_t size = 0;
  Timestamp mtime;
  std::string etag;
  std::optional<object::FileOwner> owner;
  int attempts = 0;  // reads that found it changed
};

// Counters, failures and the reason to stop. Thread-safe.
class ImportState {
 public:
  ImportState(const Context& caller, Volume& target, const Source& from,
              const ImportOptions& wanted, const Logger& logger);

  Volume& volume;
  const Source& source;
  const ImportOptions& options;
  const Logger& log;

  // Ends when the caller's does, and with Abort.
  const Context& ctx() const { return ctx_; }
  // Ends the import; the first reason is kept.
  void Abort(Status reason);
  bool aborted() const { return stop_.stop_requested(); }
  // The reason given to Abort, or that of the caller's context.
  Result<void> Reason() const;

  void FileFailed(const ImportItem& item, Status error) {
    FileFailed(item.key, item.size, std::move(error));
  }
  void FileFailed(const std::string& key, std::uint64_t size, Status error);
  // The same, but fails if it is the volume that has failed: then the import cannot go on.
  Result<void> FileError(const std::string& key, std::uint64_t size, Status error);
  std::vector<FileFailure> TakeFailures();
  ImportProgress Snapshot() const;

  std::atomic<std::uint64_t> listed_files{0}, listed_bytes{0};
  std::atomic<bool> listing{true};
  std::atomic<std::uint64_t> copied_files{0}, copied_bytes{0};
  std::atomic<std::uint64_t> skipped_files{0}, skipped_bytes{0};
  std::atomic<std::uint64_t> failed_files{0}, failed_bytes{0};
  std::atomic<std::uint64_t> excluded_files{0}, made_directories{0};
  std::atomic<std::uint64_t> deleted_files{0}, deleted_source_files{0};
  std::atomic<std::uint64_t> retried_files{0};
  std::atomic<std::uint64_t> uploaded_objects{0}, uploaded_bytes{0}, read_bytes{0};

 private:
  static constexpr std::size_t kKeptFailures = 100;

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::stop_source stop_;
  Context caller_;
  Context ctx_;
  std::optional<std::stop_callback<std::function<void()>>> forward_;
  mutable Mutex mutex_;
  std::optional<Status> reason_ GUARDED_BY(mutex_);
  std::vector<FileFailure> failures_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume::data
