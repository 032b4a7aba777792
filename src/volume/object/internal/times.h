// The forms of time that object stores write.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace paddleop::volume::object::internal {

using WallTime = std::chrono::system_clock::time_point;

// "20130524T000000Z".
std::string BasicTime(WallTime time);
// "2013-05-24T00:00:00Z".
std::string IsoTime(WallTime time);
// "2013-05-24T00:00:00Z", with any fraction of a second.
std::optional<WallTime> ParseIsoTime(std::string_view text);
// "Fri, 24 May 2013 00:00:00 GMT", as in HTTP headers (RFC 9110, section 5.6.7).
std::optional<WallTime> ParseHttpTime(std::string_view text);

}  // namespace paddleop::volume::object::internal
