#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "runtime/protocol/job.h"
#include "runtime/server/job_journal.h"
#include "runtime/server/job_runner.h"

namespace paddleop::runtime {

struct JobQueueOptions {
  std::string directory;              // of the journal
  std::size_t whole_workers = 4;      // jobs that are spread, at a time
  std::size_t part_workers = 4;       // parts, at a time
  std::size_t max_unfinished = 1000;  // further ones are refused (kUnavailable)
  std::size_t keep_finished = 200;    // the oldest beyond are forgotten, with their files
  std::uint32_t max_runs = 10;        // a job that took the process down so often has failed
  // How long a job waits for the credentials that were lost with a restart.
  std::chrono::seconds credentials_patience{3600};
  Clock* clock = &Clock::System();
};

// Jobs by name, durable: an accepted job is on disk before Post returns, and its end before anybody
// sees it. After a restart, unfinished jobs run again; those that had credentials wait for
// somebody to post them again, because credentials are never written.
//
// Whole jobs and parts have workers of their own: a whole job waits for parts, and must not wait
// for a worker that another whole job holds.
//
// Thread-safe.
class JobQueue {
 public:
  // Reads the journal. The runners are borrowed; nothing runs before Start().
  static Result<std::unique_ptr<JobQueue>> Open(JobQueueOptions options, JobRunner& whole,
                                                JobRunner& part, const Logger& log,
                                                MetricsRegistry& metrics);
  ~JobQueue();

  void Start();
  // Interrupts what runs, without ending it in the journal, and joins.
  void Stop();

  Result<JobResult> Post(JobRequest request);
  Result<JobResult> Get(JobKind kind, const std::string& name) const;
  Result<JobRequest> GetRequest(JobKind kind, const std::string& name) const;
  std::vector<JobResult> List() const;
  Result<JobResult> Cancel(const std::string& name);
  void CancelAll();
  std::uint32_t unfinished() const;

 private:
  struct Job;
  class Reporter;
  using JobPtr = std::shared_ptr<Job>;

  JobQueue(JobQueueOptions options, JobJournal journal, JobRunner& whole, JobRunner& part,
           const Logger& log, MetricsRegistry& metrics);
  void Adopt(JobRecord record);
  Result<JobResult> PostAgain(const JobPtr& job, JobRequest request) REQUIRES(mutex_);
  void Work(const std::stop_token& stop, bool parts);
  JobPtr NextJob(MutexLock& lock, const std::stop_token& stop, bool parts) REQUIRES(mutex_);
  void RunOne(const JobPtr& job, const std::stop_token& stop);
  void Finish(const JobPtr& job, JobState state, std::string message) EXCLUDES(mutex_);
  void Save(const JobPtr& job) EXCLUDES(mutex_);
  void ExpireWaiting() REQUIRES(mutex_);
  void Forget() REQUIRES(journal_mutex_, mutex_);
  api::Time Now() const;

  const JobQueueOptions options_;
  JobRunner& whole_;
  JobRunner& part_;
  const Logger& log_;
  MetricsRegistry& metrics_;
  mutable Mutex journal_mutex_;  // taken before mutex_
  JobJournal journal_ GUARDED_BY(journal_mutex_);
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, JobPtr> jobs_ GUARDED_BY(mutex_);
  std::uint64_t next_number_ GUARDED_BY(mutex_) = 1;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> workers_;
};

}  // namespace paddleop::runtime
