#include "volume/data/internal/import_state.h"

namespace paddleop::volume::data {

ImportState::ImportState(const Context& caller, Volume& target, const Source& from,
                         const ImportOptions& wanted, const Logger& logger)
    : volume(target),
      source(from),
      options(wanted),
      log(logger),
      caller_(caller),
      ctx_(caller.WithStop(stop_.get_token())) {
  forward_.emplace(caller.stop(), [this] { stop_.request_stop(); });
}

void ImportState::Abort(Status reason) {
  {
    MutexLock lock(mutex_);
    // Once the import stops, what was under way fails too; that is no reason of its own.
    if (!reason_ && !stop_.stop_requested()) reason_ = std::move(reason);
  }
  stop_.request_stop();
}

Result<void> ImportState::Reason() const {
  {
    MutexLock lock(mutex_);
    if (reason_) return std::unexpected(*reason_);
  }
  return caller_.Check();
}

void ImportState::FileFailed(const std::string& key, std::uint64_t size, Status error) {
  // What fails because the import stops was not tried.
  if (aborted() && error.code() == Code::kCancelled) return;
  ++failed_files;
  failed_bytes += size;
  MutexLock lock(mutex_);
  FileFailure failure{key, std::move(error)};
  if (options.on_failure) options.on_failure(failure);
  if (failures_.size() < kKeptFailures) failures_.push_back(std::move(failure));
}

Result<void> ImportState::FileError(const std::string& key, std::uint64_t size, Status error) {
  const Code code = error.code();
  const bool engine_failed = code == Code::kUnavailable || code == Code::kDeadline ||
                             code == Code::kCancelled || code == Code::kCorrupt ||
                             code == Code::kNoSpace || code == Code::kQuota;
  FileFailed(key, size, error);
  if (engine_failed) return std::unexpected(std::move(error).Wrap(key));
  return {};
}

std::vector<FileFailure> ImportState::TakeFailures() {
  MutexLock lock(mutex_);
  return std::move(failures_);
}

ImportProgress ImportState::Snapshot() const {
  ImportProgress now;
  now.listing = listing;
  now.copied_files = copied_files;
  now.copied_bytes = copied_bytes;
  now.skipped_files = skipped_files;
  now.skipped_bytes = skipped_bytes;
  now.failed_files = failed_files;
  now.failed_bytes = failed_bytes;
  // Last, so that no file is done before it is listed.
  now.listed_files = listed_files;
  now.listed_bytes = listed_bytes;
  now.excluded_files = excluded_files;
  now.made_directories = made_directories;
  now.deleted_files = deleted_files;
  now.deleted_source_files = deleted_source_files;
  now.retried_files = retried_files;
  now.uploaded_objects = uploaded_objects;
  now.uploaded_bytes = uploaded_bytes;
  now.read_bytes = read_bytes;
  now.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  return now;
}

}  // namespace paddleop::volume::data
