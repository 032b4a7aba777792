#include "kube/manager/leader_election.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "api/meta/time.h"
#include "base/backoff.h"
#include "base/crypto.h"

namespace paddleop::kube {
namespace {

using Json = nlohmann::json;

std::string DefaultIdentity() {
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return fmt::format("{}_{}", host, RandomUuid());
}

Result<LeaseRecord> ReadRecord(const RawObject& lease) {
  const Json json = Json::parse(lease.json, nullptr, false);
  LeaseRecord out;
  out.resource_version = lease.resource_version;
  if (!json.is_object()) return Fail(Code::kCorrupt, "lease {} is not JSON", lease.name);
  const auto spec = json.find("spec");
  if (spec == json.end() || !spec->is_object()) return out;
  const auto text = [&](const char* field) -> std::string {
    const auto found = spec->find(field);
    return found != spec->end() && found->is_string() ? found->get<std::string>() : "";
  };
  const auto number = [&](const char* field, std::int64_t otherwise) {
    const auto found = spec->find(field);
    return found != spec->end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                              : otherwise;
  };
  out.holder = text("holderIdentity");
  out.duration = std::chrono::seconds(number("leaseDurationSeconds", 15));
  out.acquire_time = text("acquireTime");
  out.renew_time = text("renewTime");
  out.transitions = number("leaseTransitions", 0);
  return out;
}

Json SpecOf(const LeaseRecord& record) {
  return {{"holderIdentity", record.holder},
          {"leaseDurationSeconds", record.duration.count()},
          {"acquireTime", record.acquire_time},
          {"renewTime", record.renew_time},
          {"leaseTransitions", record.transitions}};
}

}  // namespace

Result<void> LeaderElectionOptions::Validate() const {
  if (ns.empty()) return Fail(Code::kInvalid, "leader election: no namespace for the lease");
  if (name.empty()) return Fail(Code::kInvalid, "leader election: no name for the lease");
  if (retry_period.count() <= 0 || retry_period >= renew_deadline ||
      renew_deadline >= lease_duration)
    return Fail(Code::kInvalid,
                "leader election: needs 0 < retry period ({} ms) < renew deadline ({} ms) < lease "
                "duration ({} ms)",
                retry_period.count(), renew_deadline.count(), lease_duration.count());
  return {};
}

LeaderElector::LeaderElector(LeaderElectionOptions options, ClusterClient& client,
                             const Logger& log, Clock& clock)
    : options_(std::move(options)), client_(client), log_(log), clock_(clock) {
  if (options_.identity.empty()) options_.identity = DefaultIdentity();
}

Result<void> LeaderElector::Acquire(const Context& ctx) {
  Backoff pause({.initial = options_.retry_period,
                 .maximum = options_.retry_period,
                 .factor = 1.0,
                 .jitter = 0.2},
                clock_);
  for (;;) {
    RETURN_IF_ERROR(ctx.Check());
    auto led = TryOnce(ctx.WithTimeout(options_.renew_deadline));
    if (led && *led) {
      leading_.store(true, std::memory_order_release);
      log_.Info(ctx, "leading", {{"lease", options_.name}, {"identity", options_.identity}});
      return {};
    }
    if (!led && !ctx.Stopped())
      log_.Warn(ctx, "lease not acquired",
                {{"lease", options_.name}, {"error", led.error().message()}});
    if (!pause.Sleep(ctx)) {
      RETURN_IF_ERROR(ctx.Check());
      return Fail(Code::kDeadline, "lease {} not acquired in time", options_.name);
    }
  }
}

Result<void> LeaderElector::Hold(const Context& ctx) {
  std::string last_error = "no answer";
  while (clock_.SleepFor(ctx, options_.retry_period)) {
    const auto left = renewed_at_ + options_.renew_deadline - clock_.Now();
    if (left <= Clock::Duration::zero()) {
      leading_.store(false, std::memory_order_release);
      return Fail(Code::kUnavailable, "leadership lost: lease {} not renewed for {} ms: {}",
                  options_.name, options_.renew_deadline.count(), last_error);
    }
    const auto led = TryOnce(ctx.WithTimeout(left));
    if (ctx.Stopped()) return {};
    if (!led) {
      last_error = led.error().message();
      log_.Warn(ctx, "lease not renewed", {{"lease", options_.name}, {"error", last_error}});
    } else if (!*led) {
      leading_.store(false, std::memory_order_release);
      return Fail(Code::kConflict, "leadership lost: lease {} is held by {}", options_.name,
                  seen_ ? seen_->holder : "somebody else");
    }
  }
  return {};
}

Result<void> LeaderElector::Release(const Context& ctx) {
  if (!is_leader() || !seen_) return {};
  leading_.store(false, std::memory_order_release);
  LeaseRecord record = *seen_;
  record.holder.clear();
  record.duration = std::chrono::seconds(1);
  record.renew_time = api::FormatMicroTime(clock_.WallNow());
  ASSIGN_OR_RETURN(const bool written, Write(ctx, record));
  if (written) log_.Info(ctx, "lease released", {{"lease", options_.name}});
  return {};
}

Result<bool> LeaderElector::TryOnce(const Context& ctx) {
  const bool renewing = is_leader() && seen_ && seen_->holder == options_.identity;
  // The holder knows the record; reading it first would double the requests.
  if (!renewing) RETURN_IF_ERROR(Read(ctx));
  const auto now = clock_.Now();
  if (!seen_) return Create(ctx);
  if (!seen_->holder.empty() && seen_->holder != options_.identity &&
      now < seen_at_ + seen_->duration)
    return false;

  LeaseRecord record = *seen_;
  const std::string stamp = api::FormatMicroTime(clock_.WallNow());
  if (record.holder != options_.identity) {
    record.acquire_time = stamp;
    ++record.transitions;
  }
  record.holder = options_.identity;
  record.duration = std::chrono::ceil<std::chrono::seconds>(options_.lease_duration);
  record.renew_time = stamp;
  ASSIGN_OR_RETURN(const bool written, Write(ctx, record));
  if (written) {
    renewed_at_ = now;
    return true;
  }
  // Somebody wrote it since we read it. Who holds it now decides.
  RETURN_IF_ERROR(Read(ctx));
  if (!seen_) return Create(ctx);
  if (seen_->holder == options_.identity)
    return Fail(Code::kUnavailable, "lease {} changed under us", options_.name);
  return false;
}

Result<void> LeaderElector::Read(const Context& ctx) {
  auto lease = client_.Get(ctx, kLeases, {options_.ns, options_.name});
  if (!lease && IsNotFound(lease.error())) {
    seen_.reset();
    return {};
  }
  if (!lease) return std::unexpected(std::move(lease).error());
  ASSIGN_OR_RETURN(LeaseRecord record, ReadRecord(*lease));
  if (!seen_ || *seen_ != record) {
    seen_ = std::move(record);
    seen_at_ = clock_.Now();
  }
  return {};
}

Result<bool> LeaderElector::Create(const Context& ctx) {
  const auto now = clock_.Now();
  const std::string stamp = api::FormatMicroTime(clock_.WallNow());
  LeaseRecord record{.holder = options_.identity,
                     .duration = std::chrono::ceil<std::chrono::seconds>(options_.lease_duration),
                     .acquire_time = stamp,
                     .renew_time = stamp,
                     .transitions = 0,
                     .resource_version = {}};
  const Json body = {{"apiVersion", kLeases.ApiVersion()},
                     {"kind", std::string(kLeases.kind)},
                     {"metadata", {{"name", options_.name}, {"namespace", options_.ns}}},
                     {"spec", SpecOf(record)}};
  auto created = client_.Create(ctx, kLeases, options_.ns, body.dump());
  if (!created && IsAlreadyExists(created.error())) return false;
  if (!created) return std::unexpected(std::move(created).error());
  record.resource_version = created->resource_version;
  seen_ = std::move(record);
  seen_at_ = now;
  renewed_at_ = now;
  return true;
}

Result<bool> LeaderElector::Write(const Context& ctx, const LeaseRecord& record) {
  const Json body = {{"spec", SpecOf(record)}};
  auto patched = client_.Patch(
      ctx, kLeases, {options_.ns, options_.name},
      MergePatch(body.dump(), "", {.uid = {}, .resource_version = record.resource_version}));
  if (!patched && (IsConflict(patched.error()) || IsNotFound(patched.error()))) return false;
  if (!patched) return std::unexpected(std::move(patched).error());
  ASSIGN_OR_RETURN(seen_, ReadRecord(*patched));
  seen_at_ = clock_.Now();
  return true;
}

}  // namespace paddleop::kube
