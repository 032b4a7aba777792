// Does what lines on standard input say (operations.h) to a volume and prints the number of each
// line that is done, until it is killed: volume_victim META_URL.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "base/log.h"
#include "base/metrics.h"
#include "interop/operations.h"

namespace paddleop::testing {
namespace {

int Main(const std::string& url) {
  const Logger log(LogLevel::kError);
  MetricsRegistry metrics;
  auto opened = volume::Volume::Open(
      Context::Background(), url,
      {.session = volume::SessionInfo{.version = "1.3.1",
                                      .host_name = "victim",
                                      .mount_point = "victim",
                                      .process_id = static_cast<std::uint64_t>(::getpid())}},
      log, metrics);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().ToString().c_str());
    return 1;
  }
  Player player(Context::Background(), **opened);
  std::string line;
  for (int number = 0; std::getline(std::cin, line); ++number) {
    const auto done = player.Run(line);
    if (!done) {
      std::fprintf(stderr, "%s: %s\n", line.c_str(), done.error().ToString().c_str());
      return 1;
    }
    std::printf("%d\n", number);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace paddleop::testing

int main(int argc, char** argv) { return argc == 2 ? paddleop::testing::Main(argv[1]) : 2; }
