#include "runtime/server/job_queue.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/thread_pool.h"
#include "runtime/server/internal/rate_meter.h"
#include "runtime/server/metrics.h"

namespace paddleop::runtime {
namespace {

bool HasCredentials(const JobRequest& request) {
  return std::ranges::any_of(request.sources,
                             [](const JobSource& s) { return !s.credentials.empty(); });
}

}  // namespace

struct JobQueue::Job {
  JobRecord record;
  std::stop_source stop;
  bool cancelled = false;  // somebody asked for it
  bool taken = false;      // by a worker, or by whoever ends it
  std::chrono::steady_clock::time_point waiting_since;
  internal::RateMeter rate;

  JobState& state() { return record.result.state; }
};

// Takes what a runner reports into the job.
class JobQueue::Reporter : public JobReporter {
 public:
  Reporter(JobQueue& queue, JobPtr job) : queue_(queue), job_(std::move(job)) {}

  void Progress(const api::ProgressCount& files, const api::ProgressCount& bytes) override {
    MutexLock lock(queue_.mutex_);
    JobProgress& progress = job_->record.result.progress;
    progress.files = files;
    progress.bytes = bytes;
    job_->rate.Add(queue_.options_.clock->Now(), bytes.done);
    progress.bytes_per_second = job_->rate.PerSecond();
    progress.eta_seconds = internal::TimeLeft(progress);
  }
  void Parts(std::vector<PartResult> parts) override {
    std::vector<JobProgress> each;
    each.reserve(parts.size());
    for (const PartResult& part : parts) each.push_back(part.progress);
    JobProgress sum = Merge(each);
    sum.eta_seconds = internal::TimeLeft(sum);
    MutexLock lock(queue_.mutex_);
    job_->record.result.parts = std::move(parts);
    job_->record.result.progress = sum;
  }
  void Failed(FailedFile file) override {
    MutexLock lock(queue_.mutex_);
    auto& files = job_->record.result.failed_files;
    if (files.size() < kMaxFailedFiles) files.push_back(std::move(file));
  }
  bool Cancelled() const override {
    MutexLock lock(queue_.mutex_);
    return job_->cancelled;
  }
  bool Again() const override {
    MutexLock lock(queue_.mutex_);
    return job_->record.result.runs > 1;
  }

 private:
  JobQueue& queue_;
  const JobPtr job_;
};

Result<std::unique_ptr<JobQueue>> JobQueue::Open(JobQueueOptions options, JobRunner& whole,
                                                 JobRunner& part, const Logger& log,
                                                 MetricsRegistry& metrics) {
  ASSIGN_OR_RETURN(JobJournal journal, JobJournal::Open(options.directory));
  std::vector<std::string> damaged;
  ASSIGN_OR_RETURN(auto records, journal.Load(&damaged));
  for (const std::string& what : damaged) {
    log.Warn(Context::Background(), "damaged record of a job set aside", {{"job", what}});
  }
  std::unique_ptr<JobQueue> queue(
      new JobQueue(std::move(options), std::move(journal), whole, part, log, metrics));
  for (JobRecord& record : records) queue->Adopt(std::move(record));
  return queue;
}

JobQueue::JobQueue(JobQueueOptions options, JobJournal journal, JobRunner& whole, JobRunner& part,
                   const Logger& log, MetricsRegistry& metrics)
    : options_(std::move(options)),
      whole_(whole),
      part_(part),
      log_(log),
      metrics_(metrics),
      journal_(std::move(journal)) {}

JobQueue::~JobQueue() { Stop(); }

void JobQueue::Adopt(JobRecord record) {
  MutexLock lock(mutex_);
  next_number_ = std::max(next_number_, record.number + 1);
  auto job = std::make_shared<Job>();
  job->record = std::move(record);
  JobResult& result = job->record.result;
  if (!Finished(result.state)) {
    job->waiting_since = options_.clock->Now();
    result.progress.bytes_per_second = 0;
    result.progress.eta_seconds.reset();
    if (result.runs >= options_.max_runs) {
      result.state = JobState::kFailed;
      result.end_time = Now();
      result.message =
          fmt::format("given up: the runtime was restarted during each of {} runs", result.runs);
    } else if (job->record.had_credentials) {
      result.state = JobState::kNeedsCredentials;
      result.message = "the runtime was restarted and needs the credentials of the source again";
    } else {
      result.state = JobState::kQueued;
      result.message = "the runtime was restarted; the job goes on";
    }
    log_.Info(Context::Background(), "unfinished job found in the journal",
              {{"job", result.name},
               {"kind", KindName(result.kind)},
               {"state", StateName(result.state)}});
  }
  jobs_.emplace(result.name, std::move(job));
}

void JobQueue::Start() {
  for (std::size_t i = 0; i < options_.whole_workers + options_.part_workers; ++i) {
    const bool parts = i >= options_.whole_workers;
    workers_.emplace_back([this, parts](const std::stop_token& stop) { Work(stop, parts); });
  }
}

void JobQueue::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  for (std::jthread& worker : workers_) worker.request_stop();
  changed_.notify_all();
  workers_.clear();
}

api::Time JobQueue::Now() const {
  return std::chrono::floor<std::chrono::seconds>(options_.clock->WallNow());
}

Result<JobResult> JobQueue::Post(JobRequest request) {
  RETURN_IF_ERROR(Validate(request));
  // Held to the end: of two that post one name at the same time, one finds the other's job.
  MutexLock journal_lock(journal_mutex_);
  auto job = std::make_shared<Job>();
  {
    MutexLock lock(mutex_);
    if (stopping_) return Fail(Code::kUnavailable, "the runtime is stopping");
    ExpireWaiting();
    if (const auto found = jobs_.find(request.name); found != jobs_.end()) {
      return PostAgain(found->second, std::move(request));
    }
    const auto open = std::ranges::count_if(
        jobs_, [](const auto& entry) { return !Finished(entry.second->state()); });
    if (static_cast<std::size_t>(open) >= options_.max_unfinished) {
      return Fail(Code::kUnavailable, "{} jobs are waiting or running; post again later", open);
    }
    job->record.number = next_number_++;
  }
  job->record.had_credentials = HasCredentials(request);
  job->record.result = {.name = request.name, .kind = request.kind, .state = JobState::kQueued};
  job->record.request = std::move(request);
  auto saved = journal_.Save(job->record);
  if (!saved) return std::unexpected(std::move(saved).error().Wrap("the job was not accepted"));
  MutexLock lock(mutex_);
  jobs_.emplace(job->record.request.name, job);
  changed_.notify_all();
  return job->record.result;
}

Result<JobResult> JobQueue::PostAgain(const JobPtr& job, JobRequest request) {
  if (job->record.request.kind != request.kind ||
      ToPublicJson(job->record.request) != ToPublicJson(request)) {
    return Fail(Code::kConflict, "job {} was posted with other options; give it another name",
                request.name);
  }
  // Another run needs the secrets that a restart made us forget; a finished one does not.
  if (job->state() == JobState::kNeedsCredentials && HasCredentials(request)) {
    job->record.request = std::move(request);
    job->state() = JobState::kQueued;
    job->record.result.message.clear();
    changed_.notify_all();
  }
  return job->record.result;
}

Result<JobResult> JobQueue::Get(JobKind kind, const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || found->second->record.request.kind != kind) {
    return Fail(Code::kNotFound, "no {} job {}", KindName(kind), name);
  }
  return found->second->record.result;
}

Result<JobRequest> JobQueue::GetRequest(JobKind kind, const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || found->second->record.request.kind != kind) {
    return Fail(Code::kNotFound, "no {} job {}", KindName(kind), name);
  }
  JobRequest request = found->second->record.request;
  for (JobSource& source : request.sources) source.credentials = {};
  return request;
}

std::vector<JobResult> JobQueue::List() const {
  std::vector<std::pair<std::uint64_t, JobResult>> numbered;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, job] : jobs_) {
      numbered.emplace_back(job->record.number, job->record.result);
    }
  }
  std::ranges::sort(numbered, std::greater<>(), [](const auto& entry) { return entry.first; });
  std::vector<JobResult> results;
  results.reserve(numbered.size());
  for (auto& [number, result] : numbered) results.push_back(std::move(result));
  return results;
}

std::uint32_t JobQueue::unfinished() const {
  MutexLock lock(mutex_);
  return static_cast<std::uint32_t>(std::ranges::count_if(
      jobs_, [](const auto& entry) { return !Finished(entry.second->state()); }));
}

Result<JobResult> JobQueue::Cancel(const std::string& name) {
  JobPtr job;
  bool ours = false;
  {
    MutexLock lock(mutex_);
    const auto found = jobs_.find(name);
    if (found == jobs_.end()) return Fail(Code::kNotFound, "no job {}", name);
    job = found->second;
    if (Finished(job->state())) return job->record.result;
    job->cancelled = true;
    ours = !std::exchange(job->taken, true);
  }
  job->stop.request_stop();
  // Nobody works on it: it ends here. Otherwise when its runner has really stopped.
  if (ours) Finish(job, JobState::kCancelled, "cancelled before it ran");
  MutexLock lock(mutex_);
  return job->record.result;
}

void JobQueue::CancelAll() {
  std::vector<std::string> names;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, job] : jobs_) {
      if (!Finished(job->state())) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    if (auto cancelled = Cancel(name); !cancelled) {
      log_.Warn(Context::Background(), "job not cancelled",
                {{"job", name}, {"error", cancelled.error().message()}});
    }
  }
}

void JobQueue::ExpireWaiting() {
  const auto now = options_.clock->Now();
  for (auto& [name, job] : jobs_) {
    if (job->state() != JobState::kNeedsCredentials ||
        now - job->waiting_since < options_.credentials_patience) {
      continue;
    }
    // A restart before it is saved only makes it wait once more.
    job->state() = JobState::kFailed;
    job->record.result.end_time = Now();
    job->record.result.message =
        "the runtime was restarted and nobody brought the credentials of the source again";
  }
}

JobQueue::JobPtr JobQueue::NextJob(MutexLock& lock, const std::stop_token& stop, bool parts) {
  JobPtr next;
  changed_.wait(lock, stop, [&]() REQUIRES(mutex_) {
    next = nullptr;
    for (auto& [name, job] : jobs_) {
      if (job->taken || job->state() != JobState::kQueued ||
          job->record.request.part.has_value() != parts) {
        continue;
      }
      if (!next || job->record.number < next->record.number) next = job;
    }
    return next != nullptr;
  });
  if (stop.stop_requested() || !next) return nullptr;
  next->taken = true;
  return next;
}

void JobQueue::Work(const std::stop_token& stop, bool parts) {
  SetThreadName(parts ? "job-part" : "job");
  while (!stop.stop_requested()) {
    JobPtr job;
    {
      MutexLock lock(mutex_);
      job = NextJob(lock, stop, parts);
    }
    if (job) RunOne(job, stop);
  }
}

void JobQueue::RunOne(const JobPtr& job, const std::stop_token& stop) {
  JobRequest request;
  {
    MutexLock lock(mutex_);
    JobResult& result = job->record.result;
    job->state() = JobState::kRunning;
    ++result.runs;
    result.message.clear();
    result.failed_files.clear();
    if (!result.start_time) result.start_time = Now();
    request = job->record.request;
  }
  Save(job);
  const std::stop_callback interrupt(stop, [&job] { job->stop.request_stop(); });
  const Context ctx = Context::Background()
                          .WithStop(job->stop.get_token())
                          .WithField("job", request.name)
                          .WithField("kind", std::string(KindName(request.kind)));
  log_.Info(ctx, request.part ? "part of a job begins" : "job begins");
  Reporter reporter(*this, job);
  JobRunner& runner = request.part ? part_ : whole_;
  auto outcome = runner.Run(ctx, request, reporter);

  bool cancelled = false;
  {
    MutexLock lock(mutex_);
    cancelled = job->cancelled;
    if (!outcome && !cancelled && stop.stop_requested()) {
      // Interrupted, not ended: the journal still says it runs, and the next process goes on.
      job->state() = JobState::kQueued;
      return;
    }
  }
  if (outcome) {
    Finish(job, JobState::kSucceeded, *std::move(outcome));
  } else if (cancelled) {
    Finish(job, JobState::kCancelled, "cancelled: " + outcome.error().message());
  } else {
    Finish(job, JobState::kFailed, outcome.error().message());
  }
}

void JobQueue::Finish(const JobPtr& job, JobState state, std::string message) {
  MutexLock journal_lock(journal_mutex_);
  JobRecord record;
  {
    MutexLock lock(mutex_);
    record = job->record;
  }
  record.result.state = state;
  record.result.message = std::move(message);
  record.result.end_time = Now();
  record.result.progress.eta_seconds.reset();
  const Context ctx = Context::Background().WithField("job", record.result.name);
  // Seen only after it is on disk: otherwise a crash could run again what somebody saw end.
  if (auto saved = journal_.Save(record); !saved) {
    log_.Error(ctx, "end of a job not written to the journal",
               {{"error", saved.error().message()}});
  }
  metrics_
      .AddCounter(metric::kJobs, metric::kJobsHelp,
                  {{"kind", std::string(KindName(record.result.kind))},
                   {"state", std::string(StateName(state))}})
      .Increment();
  log_.Info(ctx, "job ended", {{"state", StateName(state)}, {"message", record.result.message}});
  MutexLock lock(mutex_);
  for (JobSource& source : job->record.request.sources) source.credentials = {};
  job->record.result = std::move(record.result);
  Forget();
}

void JobQueue::Save(const JobPtr& job) {
  MutexLock journal_lock(journal_mutex_);
  JobRecord record;
  {
    MutexLock lock(mutex_);
    record = job->record;
  }
  if (auto saved = journal_.Save(record); !saved) {
    log_.Warn(Context::Background(), "journal not written",
              {{"job", record.result.name}, {"error", saved.error().message()}});
  }
}

void JobQueue::Forget() {
  std::vector<std::pair<std::uint64_t, std::string>> finished;
  for (const auto& [name, job] : jobs_) {
    if (Finished(job->state())) finished.emplace_back(job->record.number, name);
  }
  if (finished.size() <= options_.keep_finished) return;
  std::ranges::sort(finished);
  finished.resize(finished.size() - options_.keep_finished);
  for (const auto& [number, name] : finished) {
    if (auto removed = journal_.Remove(name); !removed) {
      log_.Warn(Context::Background(), "journal not cleaned",
                {{"error", removed.error().message()}});
      continue;
    }
    jobs_.erase(name);
  }
}

}  // namespace paddleop::runtime
