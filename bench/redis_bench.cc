// How many small commands a second go through our pool in batches; bench/redis.sh sets it beside
// redis-benchmark on the same server.
//
//   redis_bench URL set|get|hset REQUESTS CLIENTS PIPELINE
#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "redis/pool.h"
#include "redis/url.h"

namespace {

using paddleop::Code;
using paddleop::Context;
using paddleop::Fail;
using paddleop::Result;
using paddleop::redis::Commands;
using paddleop::redis::ParseRedisUrl;
using paddleop::redis::Pool;

constexpr std::uint32_t kKeys = 100'000;
constexpr std::string_view kValue = "0123456789abcdef";

struct Load {
  std::string command;
  std::uint64_t requests = 0;
  std::uint64_t clients = 0;
  std::uint64_t pipeline = 0;
};

// The command for a random one of kKeys keys, named as redis-benchmark names them.
void AddCommand(Commands& out, const Load& load, std::minstd_rand& random) {
  char key[] = "key:000000000000";
  std::uint64_t number = random() % kKeys;
  for (char* digit = key + sizeof(key) - 2; number > 0; number /= 10, --digit) {
    *digit = static_cast<char>('0' + number % 10);
  }
  const std::string_view name(key, sizeof(key) - 1);
  if (load.command == "get") {
    out.Add({"GET", name});
  } else if (load.command == "set") {
    out.Add({"SET", name, kValue});
  } else {
    out.Add({"HSET", "myhash", name, kValue});
  }
}

Result<void> Client(Pool& pool, const Load& load, std::atomic<std::uint64_t>& started,
                    unsigned seed) {
  std::minstd_rand random(seed + 1);
  Commands commands;
  while (started.fetch_add(load.pipeline) < load.requests) {
    commands.Clear();
    for (std::uint64_t i = 0; i < load.pipeline; ++i) AddCommand(commands, load, random);
    ASSIGN_OR_RETURN(const auto replies, pool.Run(Context::Background(), commands));
    for (const auto& reply : replies) {
      if (reply.is_error()) return Fail(Code::kInternal, "{}", reply.text());
    }
  }
  return {};
}

Result<double> Measure(const std::string& url, const Load& load) {
  ASSIGN_OR_RETURN(auto options, ParseRedisUrl(url));
  options.max_connections = load.clients;
  paddleop::MetricsRegistry metrics;
  options.metrics = &metrics;  // as in our programs
  ASSIGN_OR_RETURN(const auto pool, Pool::Create(options));
  std::atomic<std::uint64_t> started = 0;
  std::vector<Result<void>> results(load.clients);
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < load.clients; ++i) {
      threads.emplace_back([&, i] { results[i] = Client(*pool, load, started, i); });
    }
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  for (auto& result : results) RETURN_IF_ERROR(std::move(result));
  return static_cast<double>(load.requests) / taken.count();
}

bool ParseCount(const char* text, std::uint64_t& out) {
  const char* const end = text + std::string_view(text).size();
  const auto [stop, error] = std::from_chars(text, end, out);
  return error == std::errc() && stop == end && out > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Load load;
  if (argc != 6 || !ParseCount(argv[3], load.requests) || !ParseCount(argv[4], load.clients) ||
      !ParseCount(argv[5], load.pipeline)) {
    std::fputs("usage: redis_bench URL set|get|hset REQUESTS CLIENTS PIPELINE\n", stderr);
    return 2;
  }
  load.command = argv[2];
  const auto rate = Measure(argv[1], load);
  if (!rate) {
    fmt::print(stderr, "redis_bench: {}\n", rate.error().ToString());
    return 1;
  }
  fmt::print("{:.0f}\n", *rate);
  return 0;
}
