#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::api {

// metav1.Time: the API keeps whole seconds.
using Time = std::chrono::sys_seconds;

// 2026-01-02T03:04:05Z
std::string FormatTime(Time time);
// metav1.MicroTime, as leases and events carry it: 2026-01-02T03:04:05.000006Z
std::string FormatMicroTime(std::chrono::system_clock::time_point time);

// RFC 3339, with or without a fraction, any offset. kInvalid otherwise.
Result<Time> ParseTime(std::string_view text);
Result<std::chrono::system_clock::time_point> ParseMicroTime(std::string_view text);

}  // namespace paddleop::api
