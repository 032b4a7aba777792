// One file, many ways to change it: read, write, truncate, mappings, punched holes, several
// handles, closing and opening again. Compared byte by byte with a copy in memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

constexpr std::size_t kMaxSize = 6'000'000;  // more than one block

class FileUnderTest {
 public:
  FileUnderTest(std::string path, unsigned seed) : path_(std::move(path)), random_(seed) { Open(); }

  void Step() {
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
        return Write();
      case 3:
      case 4:
      case 5:
        return Read();
      case 6:
        return Truncate();
      case 7:
        return MapWrite();
      case 8:
        return MapRead();
      case 9:
        return Punch();
      case 10:
        ASSERT_EQ(::fsync(file_.get()), 0);
        return;
      default:
        return Open();
    }
  }

  void CheckAll() {
    auto content = ReadWhole(path_);
    ASSERT_OK(content);
    ASSERT_EQ(content->size(), model_.size());
    ASSERT_TRUE(*content == model_);
  }

 private:
  std::size_t Below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void Open() {
    if (file_.valid()) {
      ASSERT_EQ(::close(file_.Release()), 0);
    }
    file_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT, 0644));
    ASSERT_TRUE(file_.valid());
    struct stat status = {};
    ASSERT_EQ(::fstat(file_.get(), &status), 0);
    ASSERT_EQ(static_cast<std::size_t>(status.st_size), model_.size());
  }

  void Write() {
    const std::size_t offset = Below(random_() % 4 == 0 ? kMaxSize : model_.size() + 10'000);
    const std::size_t size = 1 + Below(std::min<std::size_t>(kMaxSize - offset, 300'000) + 1);
    const std::string data = Pattern(size, static_cast<unsigned>(random_()));
    ASSERT_EQ(::pwrite(file_.get(), data.data(), size, static_cast<off_t>(offset)),
              static_cast<ssize_t>(size));
    if (model_.size() < offset + size) model_.resize(offset + size);
    model_.replace(offset, size, data);
  }

  void Read() {
    const std::size_t offset = Below(model_.size() + 1000);
    const std::size_t size = 1 + Below(400'000);
    std::string back(size, 'x');
    const ssize_t n = ::pread(file_.get(), back.data(), size, static_cast<off_t>(offset));
    const std::size_t expected =
        offset >= model_.size() ? 0 : std::min(size, model_.size() - offset);
    ASSERT_EQ(n, static_cast<ssize_t>(expected)) << "at " << offset;
    back.resize(expected);
    ASSERT_TRUE(expected == 0 || back == model_.substr(offset, expected))
        << expected << " bytes at " << offset;
  }

  void Truncate() {
    const std::size_t size = Below(model_.size() + 100'000);
    ASSERT_EQ(::ftruncate(file_.get(), static_cast<off_t>(size)), 0);
    model_.resize(size);
  }

  template <class Body>
  void WithMap(Body body) {
    if (model_.empty()) return;
    void* map = ::mmap(nullptr, model_.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    ASSERT_NE(map, MAP_FAILED);
    body(static_cast<char*>(map));
    ASSERT_EQ(::msync(map, model_.size(), MS_SYNC), 0);
    ASSERT_EQ(::munmap(map, model_.size()), 0);
  }

  void MapWrite() {
    WithMap([&](char* map) {
      const std::size_t offset = Below(model_.size());
      const std::size_t size = std::min<std::size_t>(model_.size() - offset, 1 + Below(50'000));
      const std::string data = Pattern(size, static_cast<unsigned>(random_()));
      std::memcpy(map + offset, data.data(), size);
      model_.replace(offset, size, data);
    });
  }

  void MapRead() {
    WithMap([&](char* map) {
      const std::size_t offset = Below(model_.size());
      const std::size_t size = std::min<std::size_t>(model_.size() - offset, 1 + Below(100'000));
      ASSERT_TRUE(std::string_view(map + offset, size) ==
                  std::string_view(model_).substr(offset, size))
          << size << " mapped bytes at " << offset;
    });
  }

  void Punch() {
    if (model_.empty()) return;
    const std::size_t offset = Below(model_.size());
    const std::size_t size = 1 + Below(100'000);
    ASSERT_EQ(::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          static_cast<off_t>(offset), static_cast<off_t>(size)),
              0);
    const std::size_t end = std::min(model_.size(), offset + size);
    std::fill(model_.begin() + static_cast<std::ptrdiff_t>(offset),
              model_.begin() + static_cast<std::ptrdiff_t>(end), '\0');
  }

  const std::string path_;
  std::mt19937 random_;
  UniqueFd file_;
  std::string model_;
};

class FsxTest : public ::testing::TestWithParam<Engine> {};

TEST_P(FsxTest, AFileHoldsWhatWasWrittenToIt) {
  const std::string given = GetEnv("PADDLEOP_SEED");
  const unsigned seed =
      given.empty() ? std::random_device()() : static_cast<unsigned>(std::stoul(given));
  std::printf("seed %u\n", seed);
  auto volume = TestVolume::Make(GetParam());
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  FileUnderTest file((*mount)->File("fsx"), seed);
  for (int step = 0; step < 500; ++step) {
    SCOPED_TRACE(fmt::format("PADDLEOP_SEED={} step {}", seed, step));
    file.Step();
    if (HasFatalFailure()) return;
  }
  file.CheckAll();
}

INSTANTIATE_TEST_SUITE_P(Engines, FsxTest, ::testing::Values(Engine::kSqlite, Engine::kRedis),
                         [](const auto& tested) { return EngineName(tested.param); });

}  // namespace
}  // namespace paddleop::testing
