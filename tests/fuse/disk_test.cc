// A cache directory on a disk of its own that fails, and is replaced.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

using namespace std::chrono_literals;

// A real ext4 on a loop device.
class Disk {
 public:
  static Result<std::unique_ptr<Disk>> Make(const std::string& path) {
    RETURN_IF_ERROR(MakeDirectories(path));
    std::unique_ptr<Disk> disk(new Disk(path));
    RETURN_IF_ERROR(disk->Insert());
    return disk;
  }
  ~Disk() { ::umount2(path_.c_str(), MNT_DETACH); }

  const std::string& path() const { return path_; }

  // From now on everything on it ends with EIO, as after an error that ext4 cannot get over.
  Result<void> Break() {
    const UniqueFd root(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    constexpr unsigned long kShutdown = _IOR('X', 125, __u32);  // EXT4_IOC_SHUTDOWN
    __u32 without_flushing = 2;
    if (::ioctl(root.get(), kShutdown, &without_flushing) != 0) return ErrnoFail("shut down ext4");
    return {};
  }

  // Another disk, a new one, in the place of the broken one.
  Result<void> Replace() {
    if (::umount2(path_.c_str(), MNT_DETACH) != 0) return ErrnoFail("umount {}", path_);
    return Insert();
  }

 private:
  explicit Disk(std::string path) : path_(std::move(path)) {}

  Result<void> Insert() {
    const std::string image = fmt::format("{}.{}.img", path_, ++images_);
    const UniqueFd file(::open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file.valid() || ::ftruncate(file.get(), 64 << 20) != 0) return ErrnoFail("make {}", image);
    RETURN_IF_ERROR(Run({"mkfs.ext4", "-q", image}));
    return Run({"mount", "-o", "loop", image, path_});
  }

  static Result<void> Run(const std::vector<std::string>& argv) {
    ASSIGN_OR_RETURN(const ProcessResult done, RunProcess(argv));
    if (done.exit_code != 0) return Fail(Code::kInternal, "{}: {}", argv[0], done.err);
    return {};
  }

  const std::string path_;
  int images_ = 0;
};

nlohmann::json Directory(const TestMount& mount) {
  auto status = mount.Status();
  if (!status) return nlohmann::json::object();
  return status->at("cache").at("directories").at(0);
}

TEST(CacheDisk, OneThatFailsCostsOnlyHitsAndCanBeReplaced) {
  auto volume = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(volume);
  for (const std::string mode : {"--read-only", "--no-bgjob"}) {
    SCOPED_TRACE(mode);
    auto disk = Disk::Make((*volume)->dir() + "/disk" + mode);
    ASSERT_OK(disk);
    const std::vector<std::string> options = {mode, "--cache-dir", (*disk)->path()};
    auto mount = TestMount::Make(**volume, options);
    ASSERT_OK(mount);
    EXPECT_EQ(WrongFiles(**mount), 0);
    EXPECT_TRUE(WaitFor([&] { return Directory(**mount).value("blocks", 0) >= 10; }));
    ASSERT_OK((*mount)->Unmount());
    // Of another process the kernel has no pages, so it asks for all of them.
    mount = TestMount::Make(**volume, options);
    ASSERT_OK(mount);
    EXPECT_OK(ReadWhole((*mount)->File("f0")));
    ASSERT_OK((*disk)->Break());
    EXPECT_EQ(WrongFiles(**mount), 0) << (*mount)->Log();
    EXPECT_TRUE(WaitFor([&] { return !Directory(**mount).value("usable", true); }));
    EXPECT_NE(Directory(**mount).value("problem", ""), "");
    const std::string log = (*mount)->Log();
    EXPECT_NE(log.find("warn"), std::string::npos) << log;
    EXPECT_NE(log.find((*disk)->path()), std::string::npos) << "the warning names it: " << log;
    ASSERT_OK((*disk)->Replace());
    EXPECT_TRUE(WaitFor([&] { return Directory(**mount).value("usable", false); }));
    EXPECT_EQ(WrongFiles(**mount), 0);
    ASSERT_OK((*mount)->Unmount());
    // Nothing is on the new disk yet; then it is used like any other.
    mount = TestMount::Make(**volume, options);
    ASSERT_OK(mount);
    EXPECT_EQ(WrongFiles(**mount), 0);
    EXPECT_TRUE(WaitFor([&] { return Directory(**mount).value("blocks", 0) >= 10; }));
    ASSERT_OK((*mount)->Unmount());
  }
}

TEST(CacheDisk, OneThatHasFailedBeforeIsLeftOut) {
  auto volume = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(volume);
  auto disk = Disk::Make((*volume)->dir() + "/disk");
  ASSERT_OK(disk);
  const std::vector<std::string> options = {"--read-only", "--cache-dir", (*disk)->path()};
  auto mount = TestMount::Make(**volume, options);
  ASSERT_OK(mount);
  EXPECT_EQ(WrongFiles(**mount), 0);
  ASSERT_OK((*mount)->Unmount());
  ASSERT_OK((*disk)->Break());
  mount = TestMount::Make(**volume, options);
  ASSERT_OK(mount);
  EXPECT_EQ(WrongFiles(**mount), 0) << (*mount)->Log();
  EXPECT_FALSE(Directory(**mount).value("usable", true));
}

}  // namespace
}  // namespace paddleop::testing
