// Answers each line `samples ranks batch_size shuffle drop_last epoch` on standard input by one
// line per rank: what that rank reads, in order. real_orders.py does the same with Paddle's own
// class.

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "sampler/distributed_batch_sampler.h"

namespace {

[[noreturn]] void Die(const std::string& line, const std::string& reason) {
  std::cerr << "print_sample_orders: `" << line << "`: " << reason << "\n";
  std::exit(1);
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    paddleop::sampler::SamplerOptions options;
    std::istringstream words(line);
    words >> options.samples >> options.ranks >> options.batch_size >> options.shuffle >>
        options.drop_last >> options.epoch;
    if (!words || !(words >> std::ws).eof()) Die(line, "expected six numbers");

    const auto orders = paddleop::sampler::AllRankOrders(options);
    if (!orders) Die(line, orders.error().ToString());
    for (const auto& order : *orders) {
      for (std::size_t i = 0; i < order.size(); ++i) std::cout << (i ? " " : "") << order[i];
      std::cout << "\n";
    }
  }
  return std::cout.flush() ? 0 : 1;
}
