#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/protocol/job.h"

namespace paddleop::runtime {

// What the journal keeps of a job: everything but its credentials.
struct JobRecord {
  JobRequest request;
  JobResult result;
  std::uint64_t number = 0;      // in the order they were posted
  bool had_credentials = false;  // some were posted with it, so it cannot go on without
};

// Jobs on disk, one file each, replaced in one step: after a crash a record is the one before or
// the one after. Not thread-safe.
class JobJournal {
 public:
  // Makes the directory.
  static Result<JobJournal> Open(std::string directory);

  // All records, by number. A file that cannot be read is set aside as <name>.damaged and listed in
  // `damaged`, so that one bad sector does not stop the server.
  Result<std::vector<JobRecord>> Load(std::vector<std::string>* damaged);
  // Returns when it is on disk.
  Result<void> Save(const JobRecord& record);
  Result<void> Remove(const std::string& name);

 private:
  explicit JobJournal(std::string directory) : directory_(std::move(directory)) {}
  std::string FileOf(const std::string& name) const { return directory_ + "/" + name + ".json"; }

  std::string directory_;
};

}  // namespace paddleop::runtime
