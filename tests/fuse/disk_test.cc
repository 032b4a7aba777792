// A cache directory on a disk of its own that fails, is replaced, or hangs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/types.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A real ext4 on a loop device.
class Disk {
 public:
  // `images`: where the file is that it is made of; beside `path` if none is given.
  static Result<std::unique_ptr<Disk>> Make(const std::string& path, std::string images = {}) {
    RETURN_IF_ERROR(MakeDirectories(path));
    if (images.empty()) images = path;
    std::unique_ptr<Disk> disk(new Disk(path, std::move(images)));
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
  Disk(std::string path, std::string images) : path_(std::move(path)), images_(std::move(images)) {}

  Result<void> Insert() {
    const std::string image = fmt::format("{}.{}.img", images_, ++made_);
    const UniqueFd file(::open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file.valid() || ::ftruncate(file.get(), 64 << 20) != 0) return ErrnoFail("make {}", image);
    RETURN_IF_ERROR(Run({"mkfs.ext4", "-q", image}));
    RETURN_IF_ERROR(Run({"mount", "-o", "loop", image, path_}));
    // What is read of it is read of the image.
    ASSIGN_OR_RETURN(const ProcessResult device,
                     RunProcess({"findmnt", "-n", "-o", "SOURCE", path_}));
    return Run({"losetup", "--direct-io=on", device.out.substr(0, device.out.find('\n'))});
  }

  static Result<void> Run(const std::vector<std::string>& argv) {
    ASSIGN_OR_RETURN(const ProcessResult done, RunProcess(argv));
    if (done.exit_code != 0) return Fail(Code::kInternal, "{}: {}", argv[0], done.err);
    return {};
  }

  const std::string path_;
  const std::string images_;
  int made_ = 0;
};

// As long as it lives the process does nothing.
class Stopped {
 public:
  explicit Stopped(pid_t pid) : pid_(pid) { EXPECT_EQ(::kill(pid_, SIGSTOP), 0); }
  ~Stopped() { ::kill(pid_, SIGCONT); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  const pid_t pid_;
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

// The disk's image is a file of another mount. While that one's process is stopped, what was asked
// of the disk does not come back, and nothing says so.
TEST(CacheDisk, OneThatHangsKeepsNoReaderFromTheStore) {
  auto volume = VolumeWithFiles(Engine::kSqlite);
  ASSERT_OK(volume);
  auto below = TestVolume::Make(Engine::kSqlite);
  ASSERT_OK(below);
  auto images = TestMount::Make(**below, {"--no-bgjob"});
  ASSERT_OK(images);
  auto disk = Disk::Make((*volume)->dir() + "/disk", (*images)->File("disk"));
  ASSERT_OK(disk);
  const std::vector<std::string> options = {"--read-only", "--cache-dir", (*disk)->path()};
  auto mount = TestMount::Make(**volume, options);
  ASSERT_OK(mount);
  EXPECT_EQ(WrongFiles(**mount), 0);
  EXPECT_TRUE(WaitFor([&] { return Directory(**mount).value("blocks", 0) >= 10; }));
  ASSERT_OK((*mount)->Unmount());
  mount = TestMount::Make(**volume, options);
  ASSERT_OK(mount);
  EXPECT_OK(ReadWhole((*mount)->File("f0")));
  {
    const Stopped hangs((*images)->pid());
    EXPECT_EQ(WrongFiles(**mount), 0) << (*mount)->Log();
    EXPECT_TRUE(WaitFor([&] { return !Directory(**mount).value("usable", true); }));
    EXPECT_THAT(Directory(**mount).value("problem", ""), HasSubstr("hangs"));
    EXPECT_GT((*mount)->Metric("paddleop_dataset_cache_reads_given_up_total"), 0);
  }
  EXPECT_TRUE(WaitFor([&] { return Directory(**mount).value("usable", false); }));
  EXPECT_EQ(WrongFiles(**mount), 0);
  ASSERT_OK((*mount)->Unmount());
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
