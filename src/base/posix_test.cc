#include "base/posix.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/testing/matchers.h"

namespace paddleop {
namespace {

TEST(Posix, FilesAreReplacedInOneStep) {
  auto dir = TempDir::Create();
  ASSERT_OK(dir);
  const auto path = dir->File("a");
  ASSERT_OK(WriteFileAtomic(path, "one"));
  ASSERT_OK(WriteFileAtomic(path, "two", 0600));
  EXPECT_EQ(*ReadFile(path), "two");
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir->path()), {}), 1) << "left-overs";
}

TEST(Posix, ErrorsNameThePathAndTheReason) {
  auto missing = ReadFile("/nonexistent/file");
  ASSERT_CODE(missing, Code::kNotFound);
  EXPECT_NE(missing.error().message().find("/nonexistent/file"), std::string::npos);
  EXPECT_CODE(ReadFile("/"), Code::kIsDirectory);
  auto dir = TempDir::Create();
  ASSERT_OK(WriteFileAtomic(dir->File("big"), std::string(100, 'x')));
  EXPECT_CODE(ReadFile(dir->File("big"), 10), Code::kInvalid);
  EXPECT_CODE(MakeDirectories(dir->File("big") + "/sub"), Code::kNotDirectory);
  EXPECT_OK(MakeDirectories(dir->File("a/b/c")));
  EXPECT_OK(MakeDirectories(dir->File("a/b/c")));
}

TEST(Posix, TemporaryDirectoriesGoWithTheirContent) {
  std::string path;
  {
    auto dir = TempDir::Create();
    path = dir->path();
    ASSERT_OK(MakeDirectories(dir->File("x/y")));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Posix, ADescriptorHasOneOwner) {
  auto fd = OpenFile("/dev/null", O_RDONLY);
  ASSERT_OK(fd);
  const int raw = fd->get();
  UniqueFd other = std::move(*fd);
  EXPECT_EQ(other.get(), raw);
  other.Reset();
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
}

}  // namespace
}  // namespace paddleop
