#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/server/job_runner.h"

namespace paddleop::runtime {

// A runtime that can be given parts: this one or another.
class PartTarget {
 public:
  virtual ~PartTarget() = default;
  virtual Result<JobResult> Post(const Context& ctx, const JobRequest& request) = 0;
  virtual Result<JobResult> Get(const Context& ctx, JobKind kind, const std::string& name) = 0;
  virtual Result<JobResult> Cancel(const Context& ctx, const std::string& name) = 0;
};

struct SpreadOptions {
  // How many parts a job of this request has: part i goes to target i.
  std::function<std::uint32_t(const JobRequest&)> width;
  std::function<Result<std::shared_ptr<PartTarget>>(std::uint32_t index)> target;
  std::function<void()> ended = [] {};  // all parts of a job have
  // A target that does not answer for so long has failed its part.
  std::chrono::seconds patience{300};
  std::chrono::milliseconds poll{200};
  std::chrono::milliseconds call_timeout{5'000};
  std::chrono::seconds cancel_patience{30};
  Clock* clock = &Clock::System();
};

// Carries out a job by giving a part of it to every partition and watching them. Parts have names
// derived from the job's, so posting them again after a restart of either side finds them again. A
// part whose runtime lost its credentials or its journal is posted again. When one part fails the
// others are brought to their end all the same; then the job has failed.
class SpreadRunner : public JobRunner {
 public:
  SpreadRunner(SpreadOptions options, const Logger& log)
      : options_(std::move(options)), log_(log) {}

  Result<std::string> Run(const Context& ctx, const JobRequest& request,
                          JobReporter& report) override;

 private:
  struct Part;

  void Step(const Context& ctx, Part& part) const;
  Result<JobResult> Ask(const Context& ctx, Part& part) const;
  void CancelParts(std::vector<Part>& parts, JobReporter& report) const;

  const SpreadOptions options_;
  const Logger& log_;
};

// The name of part i of n.
std::string PartName(const std::string& job, std::uint32_t index, std::uint32_t count);

}  // namespace paddleop::runtime
