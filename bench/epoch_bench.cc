// Reads the files of a list whole, in random order, with several readers: open, fstat, read, close.
//
//   epoch_bench DIR LIST READERS SEED [CHUNK]          one epoch; prints JSON
//   epoch_bench write DIR COUNT WRITERS SEED           makes COUNT files of 4 to 40 KB
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Totals {
  std::atomic<std::uint64_t> files{0}, bytes{0}, errors{0};
};

void ReadFiles(const std::string& dir, const std::vector<std::string>& names,
               std::atomic<std::size_t>& next, std::size_t chunk, Totals& totals) {
  std::vector<char> buffer(chunk);
  for (std::size_t i = next++; i < names.size(); i = next++) {
    const int file = ::open((dir + "/" + names[i]).c_str(), O_RDONLY);
    struct stat status = {};
    if (file < 0 || ::fstat(file, &status) != 0) {
      ++totals.errors;
      if (file >= 0) ::close(file);
      continue;
    }
    std::uint64_t got = 0;
    for (ssize_t n = 0; (n = ::read(file, buffer.data(), buffer.size())) > 0;)
      got += static_cast<std::uint64_t>(n);
    ::close(file);
    if (got != static_cast<std::uint64_t>(status.st_size)) ++totals.errors;
    totals.bytes += got;
    ++totals.files;
  }
}

int Read(const std::string& dir, const std::string& list, unsigned readers, unsigned seed,
         std::size_t chunk) {
  std::vector<std::string> names;
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  std::shuffle(names.begin(), names.end(), std::mt19937(seed));
  std::atomic<std::size_t> next{0};
  Totals totals;
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < readers; ++t)
    threads.emplace_back([&] { ReadFiles(dir, names, next, chunk, totals); });
  for (auto& thread : threads) thread.join();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(
      "{{\"files\":{},\"bytes\":{},\"errors\":{},\"seconds\":{:.3f},\"files_per_s\":{:.0f},"
      "\"mb_per_s\":{:.1f}}}\n",
      totals.files.load(), totals.bytes.load(), totals.errors.load(), seconds,
      static_cast<double>(totals.files.load()) / seconds,
      static_cast<double>(totals.bytes.load()) / 1e6 / seconds);
  return totals.errors == 0 ? 0 : 1;
}

int Write(const std::string& dir, int count, unsigned writers, unsigned seed) {
  std::filesystem::create_directories(fmt::format("{}/small{}", dir, seed));
  std::atomic<int> next{0}, errors{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < writers; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed * 100 + t);
      std::vector<std::uint64_t> buffer(5000);
      for (auto& word : buffer) word = random();
      for (int i = next++; i < count; i = next++) {
        const std::string name = fmt::format("{}/small{}/f{:06}", dir, seed, i);
        const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        const std::size_t size = 4'000 + random() % 36'000;
        if (file < 0 || ::write(file, buffer.data(), size) != static_cast<ssize_t>(size) ||
            ::close(file) != 0)
          ++errors;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto number = [&](std::size_t i) { return static_cast<unsigned>(std::stoul(args[i])); };
  if (args.size() == 5 && args[0] == "write")
    return Write(args[1], std::stoi(args[2]), number(3), number(4));
  if (args.size() >= 4) {
    return Read(args[0], args[1], number(2), number(3),
                args.size() > 4 ? std::stoul(args[4]) : std::size_t{1} << 20);
  }
  fmt::print(stderr, "usage: epoch_bench DIR LIST READERS SEED [CHUNK]\n");
  return 2;
}
