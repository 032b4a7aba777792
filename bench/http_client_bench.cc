// Drives our HTTP client against a URL and prints what it did as one JSON object;
// bench/http_client.py compares it with wrk and curl.
//
//   http_client_bench small URL CONNECTIONS SECONDS [blocking|started]
//   http_client_bench large URL TIMES
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "net/http_client.h"

namespace {

using paddleop::Context;
using paddleop::Result;
using paddleop::net::HttpClient;
using paddleop::net::HttpResponse;
using std::chrono::steady_clock;

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Totals {
  std::atomic<std::uint64_t> requests = 0;
  std::atomic<std::uint64_t> bytes = 0;
  std::atomic<std::uint64_t> errors = 0;

  void Count(const Result<HttpResponse>& response, std::size_t size) {
    if (!response || response->status != 200) {
      ++errors;
      return;
    }
    requests.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(size, std::memory_order_relaxed);
  }
};

// One thread per connection, as the rooms above use the client.
void RunBlocking(HttpClient& client, const std::string& url, int connections,
                 steady_clock::time_point end, Totals& totals) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < connections; ++i) {
    threads.emplace_back([&] {
      std::vector<std::byte> buffer(64 << 10);
      while (steady_clock::now() < end) {
        std::size_t received = 0;
        auto response = client.DoInto(Context::Background(), {.url = url}, buffer, &received);
        totals.Count(response, received);
      }
    });
  }
}

// One thread in all; each answer starts the next request.
class StartedRun {
 public:
  StartedRun(HttpClient& client, std::string url, int connections, steady_clock::time_point end,
             Totals& totals)
      : client_(client), url_(std::move(url)), end_(end), totals_(totals), done_(connections) {
    for (int i = 0; i < connections; ++i) Next();
    done_.wait();
  }

 private:
  void Next() {
    client_.Start(Context::Background(), {.url = url_}, [this](Result<HttpResponse> response) {
      totals_.Count(response, response ? response->body.size() : 0);
      if (steady_clock::now() < end_) return Next();
      done_.count_down();
    });
  }

  HttpClient& client_;
  const std::string url_;
  const steady_clock::time_point end_;
  Totals& totals_;
  std::latch done_;
};

void Print(const Totals& totals, steady_clock::time_point start, double cpu_start) {
  const std::chrono::duration<double> wall = steady_clock::now() - start;
  fmt::print(R"({{"requests": {}, "bytes": {}, "errors": {}, "seconds": {:.4f}, "cpu": {:.4f}}})"
             "\n",
             totals.requests.load(), totals.bytes.load(), totals.errors.load(), wall.count(),
             CpuSeconds() - cpu_start);
}

void Small(HttpClient& client, int argc, char** argv) {
  const int connections = std::atoi(argv[3]);
  Totals totals;
  const auto cpu_start = CpuSeconds();
  const auto start = steady_clock::now();
  const auto end = start + std::chrono::seconds(std::atoi(argv[4]));
  if (argc > 5 && std::string_view(argv[5]) == "started") {
    const StartedRun run(client, argv[2], connections, end, totals);
  } else {
    RunBlocking(client, argv[2], connections, end, totals);
  }
  Print(totals, start, cpu_start);
}

void Large(HttpClient& client, char** argv) {
  Totals totals;
  const auto cpu_start = CpuSeconds();
  const auto start = steady_clock::now();
  for (int i = std::atoi(argv[3]); i > 0; --i) {
    std::size_t size = 0;
    auto response = client.Stream(Context::Background(), {.url = argv[2]},
                                  [&](std::string_view piece) -> Result<void> {
                                    size += piece.size();
                                    return {};
                                  });
    totals.Count(response, size);
  }
  Print(totals, start, cpu_start);
}

}  // namespace

int main(int argc, char** argv) {
  auto client = HttpClient::Create({.max_connections_per_host = 1024});
  CHECK(client, "{}", client.error().message());
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "small" && argc >= 5) {
    Small(**client, argc, argv);
  } else if (mode == "large" && argc == 4) {
    Large(**client, argv);
  } else {
    std::fputs(
        "usage: http_client_bench small URL CONNECTIONS SECONDS [blocking|started]\n"
        "       http_client_bench large URL TIMES\n",
        stderr);
    return 2;
  }
  return 0;
}
