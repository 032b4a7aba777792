#include "standalone/node/process/remount.h"

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>

#include "base/testing/matchers.h"
#include "kube/testing/wait_until.h"
#include "standalone/node/process/container_process.h"

namespace paddleop::standalone::node {
namespace {

using kube::testing::WaitUntil;
using ::testing::ElementsAre;

TEST(MountTableTest, PathsAndDevices) {
  EXPECT_THAT(ParseMountTable("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
                              "50 22 0:42 /sub /mnt/a\\040b rw - fuse.samplefs x rw\n"
                              "broken\n"),
              ElementsAre(MountedAt{"/", "8:1"}, MountedAt{"/mnt/a b", "0:42"}));
  EXPECT_OK(ReadMountTable(::getpid()));
  EXPECT_CODE(ReadMountTable(-1), Code::kNotFound);
}

TEST(StaleMountsTest, AreThoseOfAFileSystemThatTheContainerDoesNotHave) {
  const BindMount data{"/d/mounts/1/fs", "/data", false};
  const BindMount part{"/d/mounts/1/fs/part", "/part", true};
  const BindMount inner{"/d/pods/u/volumes/scratch", "/data/scratch", false};
  const BindMount other{"/d/mounts/2/fs", "/other", false};
  const std::vector<BindMount> mounts{inner, data, part, other};
  const std::vector<std::string> volumes{"/d/mounts/1/fs", "/d/mounts/2/fs"};
  const MountTable machine{
      {"/d/mounts/1/fs", "0:5"}, {"/d/mounts/1/fs", "0:8"}, {"/d/mounts/2/fs", "0:6"}};
  const auto stale = [&](const MountTable& container) {
    return StaleMounts(mounts, volumes, machine, container, "/d");
  };
  EXPECT_THAT(stale({{"/data", "0:8"}, {"/part", "0:8"}, {"/other", "0:6"}}), ElementsAre());
  EXPECT_THAT(stale({{"/data", "0:5"}, {"/part", "0:5"}, {"/other", "0:6"}}),
              ElementsAre(data, part, inner));
  EXPECT_THAT(stale({{"/d/mounts/1/fs", "0:8"}, {"/data", "0:8"}, {"/part", "0:8"}}),
              ElementsAre(other));
  // What is not mounted now cannot be given.
  EXPECT_THAT(StaleMounts(mounts, volumes, {}, {{"/data", "0:5"}}, "/d"), ElementsAre());
}

class RemountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "mounting needs root";
    for (const char* name : {"volume", "inner", "stage"}) ASSERT_OK(MakeDirectories(Path(name)));
    MountVolume("first");
  }
  void TearDown() override {
    if (state_) KillContainer(*state_);
    ::umount2(Path("volume").c_str(), MNT_DETACH);
  }

  std::string Path(const std::string& name) { return dir_->path() + "/" + name; }
  void MountVolume(const std::string& content) {
    ASSERT_EQ(::mount("tmpfs", Path("volume").c_str(), "tmpfs", 0, "size=1m"), 0);
    ASSERT_OK(MakeDirectories(Path("volume/sub")));
    ASSERT_OK(WriteFileAtomic(Path("volume/a"), content));
    ASSERT_OK(WriteFileAtomic(Path("volume/sub/b"), content));
  }
  ShimSpec Spec() {
    ShimSpec spec;
    spec.argv = {"sleep", "1000"};
    spec.env = {{"PATH", "/usr/bin:/bin"}};
    spec.cwd = "/";
    spec.directory = Path("run");
    spec.namespaces = true;
    spec.stage = Path("stage");
    spec.data_dir = dir_->path();
    spec.mounts = {{Path("volume"), "/no-such/volume", false},
                   {Path("inner"), "/no-such/volume/inner", false},
                   {Path("volume/sub"), "/usr/no-such-part", true}};
    return spec;
  }
  std::string Inside(const std::string& path) {
    return ReadFile(fmt::format("/proc/{}/root{}", state_->first, path)).value_or("nothing");
  }
  std::vector<BindMount> Stale(const ShimSpec& spec) {
    return StaleMounts(spec.mounts, {Path("volume")}, *ReadMountTable(::getpid()),
                       *ReadMountTable(state_->first), dir_->path());
  }

  Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(60));
  Result<TempDir> dir_ = TempDir::Create();
  std::optional<ProcessState> state_;
};

TEST_F(RemountTest, AContainerGetsTheNewMount) {
  ASSERT_OK(WriteFileAtomic(Path("inner/c"), "inner"));
  const ShimSpec spec = Spec();
  auto started = StartContainer(ctx_, "/proc/self/exe", spec);
  ASSERT_OK(started);
  state_ = *started;
  EXPECT_EQ(Inside("/no-such/volume/a"), "first");
  EXPECT_TRUE(Stale(spec).empty());

  ASSERT_EQ(::umount2(Path("volume").c_str(), MNT_DETACH), 0);
  MountVolume("second");
  EXPECT_EQ(Inside("/no-such/volume/a"), "first");
  const auto stale = Stale(spec);
  EXPECT_EQ(stale.size(), 3U);

  ASSERT_OK(Remount(ctx_, "/proc/self/exe", {.pid = state_->first, .mounts = stale}));
  EXPECT_EQ(Inside("/no-such/volume/a"), "second");
  EXPECT_EQ(Inside("/no-such/volume/inner/c"), "inner");
  EXPECT_EQ(Inside("/usr/no-such-part/b"), "second");
  EXPECT_TRUE(Stale(spec).empty());
  const std::string root = fmt::format("/proc/{}/root", state_->first);
  EXPECT_OK(WriteFileAtomic(root + "/no-such/volume/new", ""));
  EXPECT_FALSE(WriteFileAtomic(root + "/usr/no-such-part/new", ""));
  EXPECT_FALSE(std::filesystem::exists("/no-such"));
}

TEST_F(RemountTest, SaysWhatIsMissing) {
  const auto gone =
      Remount(ctx_, "/proc/self/exe", {.pid = ::getpid(), .mounts = {{Path("none"), "/x", false}}});
  ASSERT_CODE(gone, Code::kUnavailable);
  EXPECT_THAT(gone.error().message(), ::testing::HasSubstr(Path("none")));
}

}  // namespace
}  // namespace paddleop::standalone::node
