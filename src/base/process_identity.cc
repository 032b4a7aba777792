#include "base/process_identity.h"

#include <cstdlib>
#include <sstream>

#include "base/posix.h"

namespace paddleop {

ProcessIdentity ProcessIdentity::Of(pid_t pid) {
  ProcessIdentity out{.pid = pid};
  const auto text = ReadFile(fmt::format("/proc/{}/stat", pid));
  // The second field may contain anything, so counting starts after its closing parenthesis.
  const std::size_t end = text ? text->rfind(')') : std::string::npos;
  if (end == std::string::npos) return out;
  std::istringstream words(text->substr(end + 1));
  std::string word;
  words >> word;  // field 3, the state
  if (word == "Z" || word == "X") return out;
  for (int field = 4; field <= 22; ++field) words >> word;
  out.start_ticks = std::strtoull(word.c_str(), nullptr, 10);
  return out;
}

bool ProcessIdentity::Alive() const {
  return pid > 0 && start_ticks != 0 && Of(pid).start_ticks == start_ticks;
}

}  // namespace paddleop
