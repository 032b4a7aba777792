#include "runtime/protocol/paths.h"

#include <fmt/format.h>

#include "api/batch/sample_set.h"

namespace paddleop::runtime {

std::string UploadPath(JobKind kind) {
  return fmt::format("{}{}Options", kUploadPrefix, KindName(kind));
}

std::string OptionsPath(JobKind kind, std::string_view name) {
  return fmt::format("/{}Options/{}", KindName(kind), name);
}

std::string ResultPath(JobKind kind, std::string_view name) {
  return fmt::format("/{}Result/{}", KindName(kind), name);
}

std::string CancelPath(std::string_view name) {
  return fmt::format("{}/{}/cancel", kJobsPath, name);
}

bool IsJobName(std::string_view name) {
  if (name.size() != 36) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
    } else if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
      return false;
    }
  }
  return true;
}

std::string RuntimeTlsName(std::string_view set, std::string_view ns, std::uint32_t index) {
  return fmt::format("{}.{}-runtime-service.{}.svc",
                     api::RuntimePodName(set, static_cast<std::int32_t>(index)), set, ns);
}

}  // namespace paddleop::runtime
