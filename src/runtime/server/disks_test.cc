#include "runtime/server/disks.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include "base/posix.h"
#include "base/testing/matchers.h"

namespace paddleop::runtime {
namespace {

volume::CacheDirectoryStatus On(std::string path) {
  return {.directory = {.path = std::move(path)}, .disk_total = 100, .disk_free = 40};
}

TEST(Disks, C18_AreToldApartByDevice) {
  auto dir = TempDir::Create();
  ASSERT_OK(dir);
  for (const char* name : {"a", "b"}) {
    ASSERT_OK(MakeDirectories(dir->File(name)));
    ASSERT_EQ(::mount("tmpfs", dir->File(name).c_str(), "tmpfs", 0, "size=1m"), 0)
        << "this test mounts disks in memory: run it as root";
    ASSERT_OK(MakeDirectories(dir->File(name) + "/sub"));
  }
  const std::vector<volume::CacheDirectoryStatus> directories = {
      On(dir->File("a")), On(dir->File("b")), On(dir->File("a") + "/sub"), On(dir->File("none"))};
  CacheInfo info;
  AddDisks(directories, info);
  for (const char* name : {"a", "b"}) EXPECT_EQ(::umount(dir->File(name).c_str()), 0);
  EXPECT_EQ(info.disk_size, 200u) << "two disks of one kind";
  EXPECT_EQ(info.disk_avail, 80u);
  EXPECT_EQ(info.disk_used, 120u);
}

}  // namespace
}  // namespace paddleop::runtime
