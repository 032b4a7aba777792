// How many objects a second go through a store, and what they cost this process; bench/object.sh
// sets it beside wrk on the same server.
//
//   object_bench URI put|get|get-waiting|list|delete COUNT SIZE IN_FLIGHT
//
// Objects are named bench/SIZE/00000000, ... and lie under the URI's prefix. Prints objects per
// second, MB/s, seconds of CPU and the largest resident memory in MiB.
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "volume/object/open_store.h"
#include "volume/object/prefix_store.h"

namespace {

using paddleop::AsBytes;
using paddleop::Code;
using paddleop::Context;
using paddleop::Fail;
using paddleop::Result;
using paddleop::Status;
using namespace paddleop::volume::object;

struct Load {
  std::string operation;
  std::uint64_t count = 0;
  std::size_t size = 0;
  std::size_t in_flight = 1;

  std::string Prefix() const { return fmt::format("bench/{}/", size); }
  std::string Key(std::uint64_t number) const { return fmt::format("{}{:08}", Prefix(), number); }
};

// Keeps a number of operations in flight, each in a slot with a buffer of its own.
class Runner {
 public:
  Runner(ObjectStore& store, const Load& load) : store_(store), load_(load) {
    for (std::size_t i = 0; i < load.in_flight; ++i) {
      buffers_.emplace_back(load.size, static_cast<char>(i));
      free_.push_back(i);
    }
  }

  Result<void> Run() {
    for (std::uint64_t i = 0; i < load_.count; ++i) {
      const std::size_t slot = Take();
      Start(load_.Key(i), slot);
    }
    for (std::size_t i = 0; i < load_.in_flight; ++i) Take();
    if (failure_) return std::unexpected(*failure_);
    return {};
  }

 private:
  std::size_t Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !free_.empty(); });
    const std::size_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  template <class T>
  void Done(std::size_t slot, const Result<T>& result) {
    std::lock_guard lock(mutex_);
    if (!result) failure_ = result.error();
    free_.push_back(slot);
    changed_.notify_one();
  }
  void Start(const std::string& key, std::size_t slot) {
    if (load_.operation == "put") {
      store_.StartPut(ctx_, key, AsBytes(buffers_[slot]), {},
                      [this, slot](Result<void> r) { Done(slot, r); });
    } else if (load_.operation == "delete") {
      store_.StartDelete(ctx_, key, [this, slot](Result<void> r) { Done(slot, r); });
    } else {
      store_.StartGet(ctx_, key, {}, std::as_writable_bytes(std::span(buffers_[slot])),
                      [this, slot](Result<GetResult> r) { Done(slot, r); });
    }
  }

  ObjectStore& store_;
  const Load& load_;
  const Context ctx_ = Context::Background();
  std::vector<std::string> buffers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> free_;
  std::optional<Status> failure_;
};

// A thread per operation in flight, for comparison.
Result<void> GetWaiting(ObjectStore& store, const Load& load) {
  std::atomic<std::uint64_t> next = 0;
  std::vector<Result<void>> results(load.in_flight);
  {
    std::vector<std::jthread> threads;
    for (Result<void>& result : results) {
      threads.emplace_back([&] {
        std::string buffer(load.size, '\0');
        for (std::uint64_t i = next++; i < load.count && result; i = next++) {
          auto got = store.Get(Context::Background(), load.Key(i), {},
                               std::as_writable_bytes(std::span(buffer)));
          if (!got) result = std::unexpected(got.error());
        }
      });
    }
  }
  for (Result<void>& result : results) RETURN_IF_ERROR(std::move(result));
  return {};
}

Result<void> List(ObjectStore& store, Load& load) {
  std::uint64_t seen = 0;
  RETURN_IF_ERROR(store.List(Context::Background(), {.prefix = load.Prefix(), .limit = load.count},
                             [&](ObjectInfo&) -> Result<bool> {
                               ++seen;
                               return true;
                             }));
  load.count = seen;
  load.size = 0;
  return {};
}

Result<void> Measure(const std::string& uri, Load load) {
  ASSIGN_OR_RETURN(const StorageUri place, ParseStorageUri(uri));
  paddleop::MetricsRegistry metrics;  // as in our programs
  ASSIGN_OR_RETURN(auto store, OpenStore(place.config, {.max_connections = load.in_flight,
                                                        .threads = {.threads = load.in_flight},
                                                        .metrics = &metrics}));
  RETURN_IF_ERROR(store->Create(Context::Background()));
  store = WithPrefix(std::move(store), place.prefix);
  const auto begin = std::chrono::steady_clock::now();
  if (load.operation == "list") {
    RETURN_IF_ERROR(List(*store, load));
  } else if (load.operation == "get-waiting") {
    RETURN_IF_ERROR(GetWaiting(*store, load));
  } else {
    RETURN_IF_ERROR(Runner(*store, load).Run());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  const double rate = static_cast<double>(load.count) / took.count();
  fmt::print("{:.0f} {:.1f} {:.2f} {:.1f}\n", rate, rate * static_cast<double>(load.size) / 1e6,
             seconds(usage.ru_utime) + seconds(usage.ru_stime),
             static_cast<double>(usage.ru_maxrss) / 1024);
  return {};
}

template <class T>
bool ReadNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Load load;
  if (argc != 6 || !ReadNumber(argv[3], load.count) || !ReadNumber(argv[4], load.size) ||
      !ReadNumber(argv[5], load.in_flight)) {
    std::fprintf(stderr,
                 "usage: object_bench URI put|get|get-waiting|list|delete COUNT SIZE IN_FLIGHT\n");
    return 2;
  }
  load.operation = argv[2];
  if (auto measured = Measure(argv[1], load); !measured) {
    std::fprintf(stderr, "object_bench: %s\n", measured.error().message().c_str());
    return 1;
  }
  return 0;
}
