#include "controllers/paddlejob/names.h"

#include <fmt/format.h>

#include <charconv>

namespace paddleop::controllers::paddlejob {
namespace {

// A plain decimal number without sign or leading zeros, as we write them; -1 otherwise.
std::int32_t ParseIndex(std::string_view text) {
  std::int32_t value = 0;
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 0 ? value : -1;
}

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kPs:
      return "ps";
    case Role::kWorker:
      return "worker";
    case Role::kHeter:
      return "heter";
  }
  return "worker";
}

const std::optional<api::JobRole>& RoleSpec(const api::PaddleJobSpec& spec, Role role) {
  if (role == Role::kPs) return spec.ps;
  return role == Role::kWorker ? spec.worker : spec.heter;
}

std::optional<api::JobRoleStatus>& RoleStatus(api::PaddleJobStatus& status, Role role) {
  if (role == Role::kPs) return status.ps;
  return role == Role::kWorker ? status.worker : status.heter;
}

std::int32_t Replicas(const api::PaddleJobSpec& spec, Role role) {
  const auto& found = RoleSpec(spec, role);
  return found ? found->replicas : 0;
}

std::int32_t TotalReplicas(const api::PaddleJobSpec& spec) {
  std::int32_t total = 0;
  for (const Role role : kRoles) total += Replicas(spec, role);
  return total;
}

std::string PodName(std::string_view job, Role role, std::int32_t index) {
  return fmt::format("{}-{}-{}", job, RoleName(role), index);
}

std::optional<Place> PlaceOf(std::string_view job, std::string_view pod_name) {
  if (!pod_name.starts_with(job) || pod_name.size() <= job.size() || pod_name[job.size()] != '-')
    return std::nullopt;
  const auto rest = pod_name.substr(job.size() + 1);
  const auto dash = rest.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::int32_t index = ParseIndex(rest.substr(dash + 1));
  if (index < 0) return std::nullopt;
  for (const Role role : kRoles) {
    if (rest.substr(0, dash) == RoleName(role)) return Place{role, index};
  }
  return std::nullopt;
}

std::int32_t GangOf(const api::ObjectMeta& meta) {
  const std::int32_t gang = ParseIndex(meta.Annotation(kGangAnnotation));
  return gang < 0 ? 0 : gang;
}

std::string JobId(const api::ObjectMeta& job) { return fmt::format("{}-{}", job.ns, job.name); }

}  // namespace paddleop::controllers::paddlejob
