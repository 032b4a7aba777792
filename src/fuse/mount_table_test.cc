#include "fuse/mount_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/posix.h"
#include "base/testing/matchers.h"

namespace paddleop::fuse {
namespace {

TEST(ParseMountInfo, ReadsPointTypeSourceAndDevice) {
  auto entries = ParseMountInfo(
      "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "90 22 0:52 / /mnt/with\\040blank ro,nosuid shared:1 master:2 - fuse.samplefs "
      "SampleFS:a\\134b ro,user_id=1000,group_id=7\n");
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].mount_point, "/");
  EXPECT_EQ((*entries)[0].major, 254u);
  EXPECT_FALSE((*entries)[0].read_only);
  EXPECT_EQ((*entries)[1].mount_point, "/mnt/with blank");
  EXPECT_EQ((*entries)[1].type, kFileSystemType);
  EXPECT_EQ((*entries)[1].source, "SampleFS:a\\b");
  EXPECT_EQ((*entries)[1].minor, 52u);
  EXPECT_TRUE((*entries)[1].read_only);
  EXPECT_FALSE((*entries)[0].user.has_value());
  EXPECT_EQ((*entries)[1].user, uid_t{1000});
}

TEST(ParseMountInfo, RefusesWhatIsNoMountTable) {
  for (const char* text : {"x\n", "22 1 254:0 / / rw - ext4\n", "22 1 254 / / rw - ext4 a rw\n",
                           "22 1 a:b / / rw - ext4 a rw\n"}) {
    EXPECT_CODE(ParseMountInfo(text), Code::kCorrupt);
  }
}

TEST(MountPoint, SaysWhatIsWrong) {
  auto dir = TempDir::Create();
  ASSERT_OK(dir);
  EXPECT_OK(CheckMountPoint(dir->path()));
  EXPECT_CODE(CheckMountPoint(dir->File("missing")), Code::kNotFound);
  ASSERT_OK(WriteFileAtomic(dir->File("file"), "x"));
  EXPECT_CODE(CheckMountPoint(dir->File("file")), Code::kNotDirectory);
  EXPECT_CODE(CheckMountPoint("/proc"), Code::kAlreadyExists);
}

TEST(Unmount, OnlyWhatIsOurs) {
  const Context ctx = Context::Background();
  auto dir = TempDir::Create();
  ASSERT_OK(dir);
  EXPECT_CODE(Unmount(ctx, dir->path(), {}), Code::kNotFound);
  EXPECT_CODE(Unmount(ctx, "/proc", {}), Code::kInvalid);
}

TEST(CanonicalDirectory, FollowsLinksButNotTheLastPart) {
  auto dir = TempDir::Create();
  ASSERT_OK(dir);
  ASSERT_OK(MakeDirectories(dir->File("a/b")));
  ASSERT_EQ(::symlink("a", dir->File("link").c_str()), 0);
  auto path = CanonicalDirectory(dir->File("link/b/"));
  ASSERT_OK(path);
  EXPECT_EQ(*path, *CanonicalDirectory(dir->File("a/./b")));
  auto link = CanonicalDirectory(dir->File("link"));
  ASSERT_OK(link);
  EXPECT_TRUE(link->ends_with("/a")) << *link;
  EXPECT_CODE(CanonicalDirectory(dir->File("no/such")), Code::kNotFound);
}

}  // namespace
}  // namespace paddleop::fuse
