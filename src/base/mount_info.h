#pragma once

#include <string>
#include <string_view>

namespace paddleop {

// A path as the kernel writes it into /proc/PID/mountinfo: blanks, tabs, newlines and backslashes
// are \040, \011, \012 and \134 there.
std::string UnescapeMountPath(std::string_view text);

}  // namespace paddleop
