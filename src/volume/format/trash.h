// Names in the trash: one directory per hour, one entry per removed name.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "volume/format/types.h"

namespace paddleop::volume {

// "2026-11-16-09", in UTC.
std::string TrashHourName(std::chrono::system_clock::time_point time);
// The hour such a name stands for; nothing if it is not such a name.
std::optional<std::chrono::system_clock::time_point> ParseTrashHour(std::string_view name);
// "<parent>-<ino>-<name>", cut to 255 bytes.
std::string TrashEntryName(Ino parent, Ino ino, std::string_view name);

}  // namespace paddleop::volume
