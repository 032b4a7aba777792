// Random operations on a mount and on a local directory: both must say the same, always.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <tuple>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

// One side: paths below a root, with the outcome of each operation as an errno.
class Side {
 public:
  explicit Side(std::string root) : root_(std::move(root)) {}

  std::string At(const std::string& path) const { return root_ + "/" + path; }

  int Write(const std::string& path, off_t offset, const std::string& data, int flags) {
    const UniqueFd file(::open(At(path).c_str(), O_WRONLY | flags, 0644));
    if (!file.valid()) return errno;
    const ssize_t n = (flags & O_APPEND) != 0
                          ? ::write(file.get(), data.data(), data.size())
                          : ::pwrite(file.get(), data.data(), data.size(), offset);
    return n == static_cast<ssize_t>(data.size()) ? 0 : EIO;
  }
  int Call(int result) const { return result == 0 ? 0 : errno; }

  std::string Read(const std::string& path) const {
    auto content = ReadWhole(At(path));
    return content ? *content : "error";
  }

  // Everything below, as text: type, mode, links, size, content.
  std::string Describe(const std::string& path = "") const {
    std::string out;
    for (const std::string& name : ListNames(At(path))) {
      const std::string child = path.empty() ? name : path + "/" + name;
      struct stat status = {};
      if (::lstat(At(child).c_str(), &status) != 0) {
        out += child + " gone\n";
        continue;
      }
      out += fmt::format("{} {:o} {}", child, status.st_mode,
                         S_ISDIR(status.st_mode) ? 0 : status.st_nlink);
      if (S_ISREG(status.st_mode)) {
        out += fmt::format(" {} {:x}", status.st_size, std::hash<std::string>()(Read(child)));
      }
      if (S_ISLNK(status.st_mode)) {
        char target[256] = {};
        const ssize_t n = ::readlink(At(child).c_str(), target, sizeof target - 1);
        out += fmt::format(" -> {} {}", target, n);
      }
      out += "\n";
      if (S_ISDIR(status.st_mode)) out += Describe(child);
    }
    return out;
  }

 private:
  const std::string root_;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  int Below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string Path() {
    std::string path;
    for (int depth = Below(3); depth > 0; --depth) path += fmt::format("d{}/", Below(3));
    return path + fmt::format("{}{}", Below(3) == 0 ? "d" : "f", Below(5));
  }
  unsigned Next() { return static_cast<unsigned>(random_()); }

 private:
  std::mt19937 random_;
};

// One random operation on both sides; what it was, and the two outcomes.
std::tuple<std::string, int, int> Step(Generator& any, Side& a, Side& b) {
  const std::string path = any.Path(), other = any.Path();
  const auto both = [&](const std::string& what, auto operation) {
    return std::tuple(what, operation(a), operation(b));
  };
  switch (any.Below(14)) {
    case 0:
    case 1:
    case 2: {
      const off_t offset = any.Below(4) == 0 ? any.Below(5'000'000) : any.Below(20'000);
      const std::string data = Pattern(
          static_cast<std::size_t>(any.Below(8) == 0 ? any.Below(1'000'000) : any.Below(30'000)),
          any.Next());
      const int flags = any.Below(2) == 0 ? O_CREAT : 0;
      return both(fmt::format("write {} {}+{}", path, offset, data.size()),
                  [&](Side& s) { return s.Write(path, offset, data, flags); });
    }
    case 3: {
      const std::string data = Pattern(static_cast<std::size_t>(any.Below(5'000)), any.Next());
      return both("append " + path,
                  [&](Side& s) { return s.Write(path, 0, data, O_CREAT | O_APPEND); });
    }
    case 4: {
      const off_t size = any.Below(100'000);
      return both(fmt::format("truncate {} {}", path, size),
                  [&](Side& s) { return s.Call(::truncate(s.At(path).c_str(), size)); });
    }
    case 5:
    case 6:
      return both("mkdir " + path,
                  [&](Side& s) { return s.Call(::mkdir(s.At(path).c_str(), 0755)); });
    case 7:
      return both("unlink " + path, [&](Side& s) { return s.Call(::unlink(s.At(path).c_str())); });
    case 8:
      return both("rmdir " + path, [&](Side& s) { return s.Call(::rmdir(s.At(path).c_str())); });
    case 9:
    case 10:
      return both("rename " + path + " " + other, [&](Side& s) {
        return s.Call(::rename(s.At(path).c_str(), s.At(other).c_str()));
      });
    case 11:
      return both("link " + path + " " + other,
                  [&](Side& s) { return s.Call(::link(s.At(path).c_str(), s.At(other).c_str())); });
    case 12:
      return both("symlink " + path,
                  [&](Side& s) { return s.Call(::symlink("x/y", s.At(path).c_str())); });
    default: {
      const mode_t mode = static_cast<mode_t>(any.Below(0777 + 1)) | 0600;
      return both(fmt::format("chmod {} {:o}", path, mode), [&](Side& s) {
        struct stat status = {};
        if (::lstat(s.At(path).c_str(), &status) != 0) return errno;
        if (!S_ISREG(status.st_mode)) return 0;
        return s.Call(::chmod(s.At(path).c_str(), mode));
      });
    }
  }
}

class ModelTest : public ::testing::TestWithParam<Engine> {};

TEST_P(ModelTest, AMountBehavesLikeALocalDirectory) {
  const std::string given = GetEnv("PADDLEOP_SEED");
  const unsigned seed =
      given.empty() ? std::random_device()() : static_cast<unsigned>(std::stoul(given));
  SCOPED_TRACE(fmt::format("PADDLEOP_SEED={}", seed));
  std::printf("seed %u\n", seed);
  auto volume = TestVolume::Make(GetParam());
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  const std::string local = (*volume)->dir() + "/local";
  ASSERT_OK(MakeDirectories(local));
  Side a((*mount)->path()), b(local);
  Generator any(seed);
  std::string history;
  for (int step = 0; step < 300; ++step) {
    const auto [what, on_mount, on_disk] = Step(any, a, b);
    history += what + "\n";
    ASSERT_EQ(on_mount, on_disk) << "step " << step << ": " << what;
    if (step % 100 == 99) {
      ASSERT_EQ(a.Describe(), b.Describe()) << "after step " << step << "\n" << history;
    }
  }
  // The same after a new mount: nothing was only in memory.
  ASSERT_OK((*mount)->Unmount());
  mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  EXPECT_EQ(Side((*mount)->path()).Describe(), b.Describe());
  // And in data-set mode.
  auto set = TestMount::Make(**volume, {"--read-only"}, "set");
  ASSERT_OK(set);
  EXPECT_EQ(Side((*set)->path()).Describe(), b.Describe());
  ASSERT_OK((*set)->Unmount());
  ASSERT_OK((*mount)->Unmount());
  auto checked = (*volume)->Run("fsck");
  EXPECT_OK(checked);
}

INSTANTIATE_TEST_SUITE_P(Engines, ModelTest, ::testing::Values(Engine::kSqlite, Engine::kRedis),
                         [](const auto& tested) { return EngineName(tested.param); });

}  // namespace
}  // namespace paddleop::testing
