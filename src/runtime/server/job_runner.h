#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "runtime/protocol/job.h"

namespace paddleop::runtime {

// Where a running job tells how far it is. Thread-safe; cheap enough to call often.
class JobReporter {
 public:
  virtual ~JobReporter() = default;

  // Counts as of now; rate and time left are found by the listener.
  virtual void Progress(const api::ProgressCount& files, const api::ProgressCount& bytes) = 0;
  // For a job that is spread: its parts as of now.
  virtual void Parts(std::vector<PartResult> parts) = 0;
  virtual void Failed(FailedFile file) = 0;
  // True if the job is to end; false if it is only interrupted because the process stops.
  virtual bool Cancelled() const = 0;
  // True if an earlier run was interrupted: what is to be done may have been done already.
  virtual bool Again() const = 0;
};

// Carries out jobs. Run() returns when the job has ended or `ctx` was stopped, with a message for
// people or the reason why it failed (kCancelled: it stopped because it was told to). It may be
// called again for a job that was interrupted, and must then go on or begin anew without harm.
//
// Thread-safe.
class JobRunner {
 public:
  virtual ~JobRunner() = default;
  virtual Result<std::string> Run(const Context& ctx, const JobRequest& request,
                                  JobReporter& report) = 0;
};

}  // namespace paddleop::runtime
