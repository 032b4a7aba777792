#include "controllers/common/testing/fake_runtime.h"

namespace paddleop::controllers::testing {

class FakeRuntimes::Client final : public runtime::RuntimeClient {
 public:
  Client(FakeRuntimes& all, std::string name) : all_(all), name_(std::move(name)) {}

  Result<runtime::JobResult> Post(const Context&, const runtime::JobRequest& request) override {
    MutexLock lock(all_.mutex_);
    if (all_.away_) return Fail(Code::kUnavailable, "away");
    all_.posts_.push_back(request);
    runtime::JobResult result;
    result.name = request.name;
    result.kind = request.kind;
    result.state = all_.outcome_;
    return all_.jobs_.try_emplace(request.name, result).first->second;
  }
  Result<runtime::JobResult> GetResult(const Context&, runtime::JobKind,
                                       const std::string& name) override {
    MutexLock lock(all_.mutex_);
    return Find(name);
  }
  Result<runtime::JobRequest> GetRequest(const Context&, runtime::JobKind,
                                         const std::string& name) override {
    MutexLock lock(all_.mutex_);
    for (const auto& post : all_.posts_) {
      if (post.name == name) return post;
    }
    return Fail(Code::kNotFound, "no job {}", name);
  }
  Result<std::vector<runtime::JobResult>> ListJobs(const Context&) override {
    MutexLock lock(all_.mutex_);
    std::vector<runtime::JobResult> list;
    list.reserve(all_.jobs_.size());
    for (const auto& [name, result] : all_.jobs_) list.push_back(result);
    return list;
  }
  Result<runtime::JobResult> Cancel(const Context&, const std::string& name) override {
    MutexLock lock(all_.mutex_);
    if (all_.away_) return Fail(Code::kUnavailable, "away");
    all_.cancelled_.push_back(name);
    const auto it = all_.jobs_.find(name);
    if (it != all_.jobs_.end() && !runtime::Finished(it->second.state))
      it->second.state = runtime::JobState::kCancelled;
    return Find(name);
  }
  Result<void> CancelAll(const Context&) override {
    MutexLock lock(all_.mutex_);
    if (all_.away_) return Fail(Code::kUnavailable, "away");
    ++all_.terminations_;
    return {};
  }
  Result<runtime::CacheInfo> GetCacheInfo(const Context&) override {
    MutexLock lock(all_.mutex_);
    if (all_.away_) return Fail(Code::kUnavailable, "away");
    runtime::CacheInfo info;
    info.ready = true;
    info.cache_id = name_;
    info.peers_generation = all_.tables_[name_].generation;
    return info;
  }
  Result<void> PutPeers(const Context&, const runtime::PeerTable& table) override {
    MutexLock lock(all_.mutex_);
    if (all_.away_) return Fail(Code::kUnavailable, "away");
    if (table.generation < all_.tables_[name_].generation)
      return Fail(Code::kConflict, "an older table");
    all_.tables_[name_] = table;
    return {};
  }
  Result<runtime::PeerTable> GetPeers(const Context&) override {
    MutexLock lock(all_.mutex_);
    return all_.tables_[name_];
  }
  Result<void> Purge(const Context&) override {
    MutexLock lock(all_.mutex_);
    if (all_.away_) return Fail(Code::kUnavailable, "away");
    ++all_.purges_;
    return {};
  }

 private:
  Result<runtime::JobResult> Find(const std::string& name) REQUIRES(all_.mutex_) {
    if (all_.away_) return Fail(Code::kUnavailable, "away");
    const auto it = all_.jobs_.find(name);
    if (it == all_.jobs_.end()) return Fail(Code::kNotFound, "no job {}", name);
    return it->second;
  }

  FakeRuntimes& all_;
  const std::string name_;
};

void FakeRuntimes::SetOutcome(runtime::JobState state) {
  MutexLock lock(mutex_);
  outcome_ = state;
}
void FakeRuntimes::SetState(const std::string& job, runtime::JobState state, std::string message) {
  MutexLock lock(mutex_);
  jobs_[job].state = state;
  jobs_[job].message = std::move(message);
}
void FakeRuntimes::SetAway(bool away) {
  MutexLock lock(mutex_);
  away_ = away;
}
void FakeRuntimes::Lose() {
  MutexLock lock(mutex_);
  jobs_.clear();
}
std::vector<runtime::JobRequest> FakeRuntimes::posts() const {
  MutexLock lock(mutex_);
  return posts_;
}
std::size_t FakeRuntimes::jobs() const {
  MutexLock lock(mutex_);
  return jobs_.size();
}
std::vector<std::string> FakeRuntimes::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}
int FakeRuntimes::terminations() const {
  MutexLock lock(mutex_);
  return terminations_;
}
int FakeRuntimes::purges() const {
  MutexLock lock(mutex_);
  return purges_;
}

runtime::RuntimeDialer FakeRuntimes::Dialer() {
  return [this](const runtime::ClientOptions& options)
             -> Result<std::unique_ptr<runtime::RuntimeClient>> {
    return std::make_unique<Client>(*this, options.tls_name);
  };
}

}  // namespace paddleop::controllers::testing
