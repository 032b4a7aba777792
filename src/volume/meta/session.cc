#include <ctime>

#include "base/log.h"
#include "base/thread_pool.h"
#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

constexpr auto kHeartbeatTimeout = std::chrono::minutes(1);

// As the official client writes it, so that `juicefs status` can show it.
std::string ToJson(const SessionInfo& info, std::int64_t now) {
  std::tm utc{};
  const std::time_t seconds = now;
  gmtime_r(&seconds, &utc);
  std::string json = "{\"Version\":";
  AppendJsonString(json, info.version.empty() ? std::string(kEmulatedVersion) : info.version);
  json += ",\"HostName\":";
  AppendJsonString(json, info.host_name);
  json += ",\"MountPoint\":";
  AppendJsonString(json, info.mount_point);
  json += fmt::format(R"(,"MountTime":"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z","ProcessID":{}}})",
                      utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                      utc.tm_sec, info.process_id);
  return json;
}

std::int64_t Expiry(std::int64_t now, std::chrono::milliseconds heartbeat) {
  return now + std::chrono::duration_cast<std::chrono::seconds>(5 * heartbeat).count() + 1;
}

}  // namespace

Result<std::uint64_t> EngineMetaStore::OpenSession(const Context& ctx, const SessionInfo& info) {
  RETURN_IF_ERROR(CheckWritable());
  {
    MutexLock lock(mutex_);
    if (session_ != 0) return Fail(Code::kAlreadyExists, "session {} is open", session_);
  }
  RETURN_IF_ERROR(engine_->PrepareForWriting(ctx));
  ASSIGN_OR_RETURN(const std::uint64_t sid, engine_->NextSession(ctx));
  const std::int64_t now = NowSeconds();
  const std::string json = ToJson(info, now);
  RETURN_IF_ERROR(engine_->PutSession(ctx, sid, Expiry(now, options_.heartbeat), json));
  {
    MutexLock lock(mutex_);
    session_ = sid;
    session_json_ = json;
    prepared_ = true;
  }
  maintenance_ = std::jthread([this](const std::stop_token& stop) {
    SetThreadName("meta-jobs");
    MaintenanceLoop(stop);
  });
  heartbeat_ = std::jthread([this](const std::stop_token& stop) {
    SetThreadName("meta-heartbeat");
    HeartbeatLoop(stop);
  });
  return sid;
}

Result<void> EngineMetaStore::CloseSession(const Context& ctx) {
  maintenance_.request_stop();
  for (std::jthread* thread : {&heartbeat_, &maintenance_}) {
    if (!thread->joinable()) continue;
    thread->request_stop();
    thread->join();
  }
  std::uint64_t sid = 0;
  {
    MutexLock lock(mutex_);
    sid = std::exchange(session_, 0);
  }
  if (sid == 0) return {};
  return CleanSession(ctx, sid);
}

Result<std::vector<SessionRecord>> EngineMetaStore::ListSessions(const Context& ctx) {
  return engine_->ListSessions(ctx);
}

void EngineMetaStore::HeartbeatLoop(const std::stop_token& stop) {
  const Context ctx = Context::Background().WithStop(stop);
  while (options_.clock->SleepFor(ctx, options_.heartbeat)) {
    auto beat = Heartbeat(ctx.WithTimeout(kHeartbeatTimeout));
    if (beat) {
      MutexLock lock(jobs_mutex_);
      jobs_due_ = true;
      jobs_changed_.notify_all();
    } else if (!stop.stop_requested() && options_.log != nullptr) {
      options_.log->Warn(ctx, "heartbeat of the volume failed",
                         {{"error", beat.error().message()}});
    }
  }
}

// Not the heartbeat's own work: deletions may take as long as they like, and a client that does not
// beat meanwhile is taken for dead, with the files that only its handles keep.
void EngineMetaStore::MaintenanceLoop(const std::stop_token& stop) {
  const Context ctx = Context::Background().WithStop(stop);
  for (;;) {
    {
      MutexLock lock(jobs_mutex_);
      if (!jobs_changed_.wait(lock, stop, [this]() REQUIRES(jobs_mutex_) { return jobs_due_; }))
        return;
      jobs_due_ = false;
    }
    auto done = options_.background_jobs ? RunMaintenance(ctx, /*ignore_leases=*/false)
                                         : RetrySustained(ctx);  // that is ours in any case
    if (!done && !stop.stop_requested() && options_.log != nullptr) {
      options_.log->Warn(ctx, "a background job of the volume failed",
                         {{"error", done.error().message()}});
    }
  }
}

Result<void> EngineMetaStore::Heartbeat(const Context& ctx) {
  ASSIGN_OR_RETURN(const auto json, engine_->LoadSetting(ctx));
  std::string uuid;
  if (json) {
    ASSIGN_OR_RETURN(const Setting setting, Setting::Parse(*json));
    uuid = setting.uuid;
    quotas_.SetVolumeLimits(setting.capacity, setting.inodes);
    MutexLock lock(mutex_);
    if (setting_ && setting_->uuid == uuid) {
      writable_ = setting.CheckWritable();
      setting_ = setting;
    }
  }
  std::uint64_t sid = 0;
  std::string info;
  {
    MutexLock lock(mutex_);
    if (!setting_ || setting_->uuid != uuid) {
      // Somebody formatted the database anew under us: what we hold belongs to no volume any more.
      setting_.reset();
      return Fail(Code::kInvalid, "the database holds another volume now: open it again");
    }
    sid = session_;
    info = session_json_;
  }
  RETURN_IF_ERROR(engine_->PutSession(ctx, sid, Expiry(NowSeconds(), options_.heartbeat), info));
  return quotas_.Refresh(ctx);
}

Result<void> EngineMetaStore::CleanSession(const Context& ctx, std::uint64_t sid) {
  ASSIGN_OR_RETURN(const auto inodes, engine_->ListSustained(ctx, sid));
  for (const Ino ino : inodes) RETURN_IF_ERROR(DeleteSustained(ctx, sid, ino));
  return engine_->DeleteSession(ctx, sid);
}

Result<void> EngineMetaStore::CleanStaleSessions(const Context& ctx) {
  ASSIGN_OR_RETURN(const auto sessions, engine_->ListSessions(ctx));
  std::uint64_t own = 0;
  {
    MutexLock lock(mutex_);
    own = session_;
  }
  const std::int64_t now = NowSeconds();
  Result<void> result;
  for (const SessionRecord& session : sessions) {
    if (session.sid == own || session.expires >= now) continue;
    RETURN_IF_ERROR(ctx.Check());
    auto cleaned = CleanSession(ctx, session.sid);
    if (options_.log != nullptr && cleaned) {
      options_.log->Info(ctx, "cleaned up after a dead client", {{"session", session.sid}});
    } else if (options_.log != nullptr) {
      options_.log->Warn(ctx, "the session of a dead client stays",
                         {{"session", session.sid}, {"error", cleaned.error().message()}});
    }
    if (!cleaned && result) result = std::move(cleaned);
  }
  return result;
}

}  // namespace paddleop::volume
