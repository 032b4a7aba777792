// General mode: what programs expect of a file system.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

class PosixTest : public ::testing::TestWithParam<Engine> {
 protected:
  struct Shared {
    std::unique_ptr<TestVolume> volume;
    std::unique_ptr<TestMount> mount;
  };

  // One mount for all tests of an engine: each works in a directory of its own.
  void SetUp() override {
    Shared& shared = shared_[GetParam()];
    if (!shared.mount) {
      auto volume = TestVolume::Make(GetParam());
      ASSERT_OK(volume);
      shared.volume = std::move(*volume);
      auto mount = TestMount::Make(*shared.volume);
      ASSERT_OK(mount);
      shared.mount = std::move(*mount);
    }
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = info->name();
    name = name.substr(0, name.find('/'));
    dir_ = shared.mount->File(name);
    ASSERT_EQ(::mkdir(dir_.c_str(), 0755), 0);
  }
  static void TearDownTestSuite() { shared_.clear(); }

  std::string File(std::string_view name) const { return dir_ + "/" + std::string(name); }
  std::string dir_;
  static std::map<Engine, Shared> shared_;
};

std::map<Engine, PosixTest::Shared> PosixTest::shared_;

TEST_P(PosixTest, WritesAndReadsFilesOfManySizes) {
  for (const std::size_t size : {0U, 1U, 4095U, 4096U, 131'073U, 5'000'000U}) {
    const std::string path = File("f" + std::to_string(size));
    const std::string content = Pattern(size, 7);
    ASSERT_OK(WriteWhole(path, content));
    EXPECT_EQ(Content(path), content) << size;
    struct stat status = {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(static_cast<std::size_t>(status.st_size), size);
  }
}

// The kernel takes over the length in the answer to a change of any attribute.
TEST_P(PosixTest, AChangeOfAttributesDoesNotShrinkWhatIsBeingWritten) {
  const UniqueFd file(::open(File("f").c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_EQ(::write(file.get(), "hello ", 6), 6);
  ASSERT_EQ(::fchmod(file.get(), 0600), 0);
  struct stat status = {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_size, 6);
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  ASSERT_EQ(::futimens(file.get(), times), 0);
  ASSERT_EQ(::lseek(file.get(), 0, SEEK_END), 6);
  ASSERT_EQ(::write(file.get(), "world", 5), 5);
  EXPECT_EQ(Content(File("f")), "hello world");
}

TEST_P(PosixTest, NoFileIsLargerThanTheLargest) {
  ASSERT_OK(WriteWhole(File("f"), "data"));
  constexpr off_t kTooFar = off_t{1} << 57;
  const UniqueFd file(::open(File("f").c_str(), O_RDWR));
  EXPECT_EQ(::ftruncate(file.get(), kTooFar + 1), -1);
  EXPECT_EQ(errno, EFBIG);
  EXPECT_EQ(::pwrite(file.get(), "x", 1, kTooFar), -1);
  EXPECT_EQ(errno, EFBIG);
  EXPECT_EQ(::fallocate(file.get(), 0, kTooFar, 1), -1);
  EXPECT_EQ(errno, EFBIG);
  EXPECT_EQ(Content(File("f")), "data");
}

TEST_P(PosixTest, RenameReplacesTheTarget) {
  ASSERT_OK(WriteWhole(File("a"), "new"));
  ASSERT_OK(WriteWhole(File("b"), "old"));
  const UniqueFd open(::open(File("b").c_str(), O_RDONLY));
  ASSERT_EQ(::rename(File("a").c_str(), File("b").c_str()), 0);
  EXPECT_EQ(Content(File("b")), "new");
  EXPECT_EQ(::access(File("a").c_str(), F_OK), -1);
  char bytes[4] = {};
  EXPECT_EQ(::read(open.get(), bytes, 3), 3) << "whoever has the old file open keeps it";
  EXPECT_STREQ(bytes, "old");

  ASSERT_EQ(::mkdir(File("d").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(File("e").c_str(), 0755), 0);
  ASSERT_OK(WriteWhole(File("e/x"), "x"));
  EXPECT_EQ(::rename(File("d").c_str(), File("e").c_str()), -1);
  EXPECT_EQ(errno, ENOTEMPTY);
  EXPECT_EQ(::rename(File("b").c_str(), File("d").c_str()), -1);
  EXPECT_EQ(errno, EISDIR);
  EXPECT_EQ(::renameat2(AT_FDCWD, File("b").c_str(), AT_FDCWD, File("d").c_str(), RENAME_NOREPLACE),
            -1);
  EXPECT_EQ(errno, EEXIST);
}

// Replaces a file again and again while others look at it, open it and change it by its name.
void ReplaceWhileOthersUseIt(const std::string& path) {
  ASSERT_OK(WriteWhole(path, "content"));
  struct stat status = {};
  const std::vector<std::function<int()>> uses = {
      [&] { return ::stat(path.c_str(), &status); },
      [&] { return UniqueFd(::open(path.c_str(), O_RDONLY)).get(); },
      [&] { return UniqueFd(::open(path.c_str(), O_WRONLY)).get(); },
      [&] { return UniqueFd(::open(path.c_str(), O_WRONLY | O_TRUNC)).get(); },
      [&] { return ::chmod(path.c_str(), 0600); },
      [&] { return ::truncate(path.c_str(), 3); },
  };
  std::atomic<int> begun{0}, ended{0}, wrong{0}, looks{0};
  std::vector<std::jthread> users;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    users.emplace_back([&, i](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const int before = ended;
        const int got = uses[i]();
        const int error = errno;
        ++looks;
        if (got >= 0) continue;
        // The kernel looks the name up once again. Only who is overtaken twice is told.
        if (error == ESTALE && begun - before >= 2) continue;
        if (wrong++ == 0) ADD_FAILURE() << "use " << i << ": " << error;
      }
    });
  }
  ASSERT_TRUE(WaitFor([&] { return looks > 0; }));
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK(WriteWhole(path + ".new", "content"));
    ++begun;
    ASSERT_EQ(::rename((path + ".new").c_str(), path.c_str()), 0);
    ++ended;
  }
  for (auto& user : users) user.request_stop();
  users.clear();
  EXPECT_EQ(wrong, 0) << "of " << looks;
}

TEST_P(PosixTest, AFileThatIsReplacedIsThereAllTheTime) { ReplaceWhileOthersUseIt(File("f")); }

TEST_P(PosixTest, AnOpenFileOutlivesItsLastName) {
  const std::string content = Pattern(300'000, 3);
  ASSERT_OK(WriteWhole(File("f"), content));
  const UniqueFd open(::open(File("f").c_str(), O_RDWR));
  ASSERT_EQ(::unlink(File("f").c_str()), 0);
  std::string back(content.size(), '\0');
  EXPECT_EQ(::pread(open.get(), back.data(), back.size(), 0), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(back, content);
  EXPECT_EQ(::pwrite(open.get(), "more", 4, 10), 4);
  EXPECT_EQ(::pread(open.get(), back.data(), 4, 10), 4);
  EXPECT_EQ(back.substr(0, 4), "more");
  struct stat status = {};
  ASSERT_EQ(::fstat(open.get(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
}

TEST_P(PosixTest, AppendsTruncatesAndLeavesHoles) {
  const UniqueFd append(::open(File("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644));
  const UniqueFd other(::open(File("log").c_str(), O_WRONLY | O_APPEND));
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(::write(append.get(), "a", 1), 1);
    ASSERT_EQ(::write(other.get(), "b", 1), 1);
  }
  EXPECT_EQ(Content(File("log")), "abababababababababab");

  ASSERT_OK(WriteWhole(File("t"), Pattern(10'000, 1)));
  ASSERT_EQ(::truncate(File("t").c_str(), 5'000), 0);
  ASSERT_EQ(::truncate(File("t").c_str(), 8'000), 0);
  EXPECT_EQ(Content(File("t")), Pattern(10'000, 1).substr(0, 5'000) + std::string(3'000, '\0'));

  const UniqueFd sparse(::open(File("sparse").c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_EQ(::pwrite(sparse.get(), "end", 3, 70'000'000), 3);
  std::string middle(4096, 'x');
  ASSERT_EQ(::pread(sparse.get(), middle.data(), middle.size(), 65'000'000), 4096);
  EXPECT_EQ(middle, std::string(4096, '\0'));
  ASSERT_EQ(::pread(sparse.get(), middle.data(), 16, 69'999'995), 8);
  EXPECT_EQ(middle.substr(0, 8), std::string(5, '\0') + "end");
  // Opening with O_TRUNC empties the file.
  const UniqueFd empty(::open(File("t").c_str(), O_WRONLY | O_TRUNC));
  struct stat status = {};
  ASSERT_EQ(::stat(File("t").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 0);
}

// The kernel makes several requests of it.
TEST_P(PosixTest, ALargeDirectAppendIsStoredInOrder) {
  constexpr std::size_t kSize = 8 << 20;
  const std::unique_ptr<char, decltype(&std::free)> buffer(
      static_cast<char*>(std::aligned_alloc(4096, kSize)), &std::free);
  for (unsigned round = 0; round < 50; ++round) {
    const std::string content = Pattern(kSize, round);
    std::memcpy(buffer.get(), content.data(), kSize);
    const UniqueFd file(
        ::open(File("log").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_DIRECT, 0644));
    ASSERT_TRUE(file.valid());
    ASSERT_EQ(::write(file.get(), buffer.get(), kSize), static_cast<ssize_t>(kSize));
    ASSERT_TRUE(Content(File("log")) == content) << round;
  }
}

TEST_P(PosixTest, MapsFilesForReadingAndWriting) {
  const std::string content = Pattern(200'000, 5);
  ASSERT_OK(WriteWhole(File("m"), content));
  {
    const UniqueFd file(::open(File("m").c_str(), O_RDWR));
    void* map = ::mmap(nullptr, content.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    ASSERT_NE(map, MAP_FAILED);
    EXPECT_EQ(std::string_view(static_cast<char*>(map), content.size()), content);
    std::memcpy(static_cast<char*>(map) + 100'000, "mapped", 6);
    ASSERT_EQ(::msync(map, content.size(), MS_SYNC), 0);
    ::munmap(map, content.size());
  }
  EXPECT_EQ(Content(File("m")).substr(100'000, 6), "mapped");
  auto seen =
      shared_[GetParam()].volume->Run("cat", {"/" + dir_.substr(dir_.rfind('/') + 1) + "/m"});
  ASSERT_OK(seen);
  EXPECT_EQ(seen->substr(100'000, 6), "mapped") << "as another client sees it";
}

TEST_P(PosixTest, ReadingWhatTheKernelHoldsStoresNothing) {
  constexpr std::size_t kPage = 4096, kPages = 16;
  constexpr int kRounds = 100;
  std::string content = Pattern(kPages * kPage, 6);
  const UniqueFd file(::open(File("f").c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_OK(WriteAll(file.get(), content));
  const auto stored = [] {
    return shared_[GetParam()].mount->Metric("paddleop_object_request_seconds_count{op=\"put\"}");
  };
  std::string page(kPage, '\0');
  // What was left for a second is stored in the background, and then the kernel reads it anew.
  EXPECT_TRUE(WaitFor([&] {
    EXPECT_EQ(::fsync(file.get()), 0);
    EXPECT_TRUE(Content(File("f")) == content);
    const double before = stored();
    for (std::size_t i = 0; i < kRounds; ++i) {
      constexpr std::size_t kAt = kPage + 100;  // all in one slice
      content[kAt] = static_cast<char>(content[kAt] + 1);
      EXPECT_EQ(::pwrite(file.get(), &content[kAt], 1, kAt), 1);
      const std::size_t from = i * 5 % kPages * kPage;
      EXPECT_EQ(::pread(file.get(), page.data(), kPage, static_cast<off_t>(from)),
                static_cast<ssize_t>(kPage));
      EXPECT_TRUE(page == content.substr(from, kPage)) << i;
    }
    return before > 0 && stored() - before < kRounds / 2;
  }));
  struct stat status = {};
  const timespec begin = {.tv_sec = ::time(nullptr) - 5, .tv_nsec = 0};
  EXPECT_EQ(::futimens(file.get(), std::array{begin, begin}.data()), 0);
  EXPECT_EQ(::pwrite(file.get(), "x", 1, 0), 1);
  EXPECT_EQ(::pread(file.get(), page.data(), kPage, 0), static_cast<ssize_t>(kPage));
  EXPECT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_GT(status.st_mtim.tv_sec, begin.tv_sec) << "the time of the write is told all the same";
}

TEST_P(PosixTest, WhatIsAppendedAfterACutIsReadByWhoHasTheFileOpen) {
  ASSERT_OK(WriteWhole(File("f"), Pattern(100, 1)));
  const UniqueFd reader(::open(File("f").c_str(), O_RDONLY));
  ASSERT_EQ(::truncate(File("f").c_str(), 0), 0);
  const UniqueFd log(::open(File("f").c_str(), O_RDWR | O_APPEND));
  std::string content, page(4096, '\0');
  for (unsigned i = 0; i < 5; ++i) {
    content += Pattern(700, i + 2);
    ASSERT_EQ(::write(log.get(), content.data() + content.size() - 700, 700), 700);
    ASSERT_EQ(::pread(reader.get(), page.data(), page.size(), 0),
              static_cast<ssize_t>(content.size()));
    ASSERT_TRUE(page.substr(0, content.size()) == content) << i;
  }
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, log.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED) << errno;
  EXPECT_EQ(std::memcmp(mapped, content.data(), content.size()), 0);
  ::munmap(mapped, 4096);
}

TEST_P(PosixTest, WithoutATrashThereIsNone) {
  struct stat status = {};
  EXPECT_EQ(::stat(shared_[GetParam()].mount->File(".trash").c_str(), &status), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_P(PosixTest, HardLinksShareTheFile) {
  ASSERT_OK(WriteWhole(File("a"), "one"));
  ASSERT_EQ(::link(File("a").c_str(), File("b").c_str()), 0);
  struct stat a = {}, b = {};
  ASSERT_EQ(::stat(File("a").c_str(), &a), 0);
  ASSERT_EQ(::stat(File("b").c_str(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  EXPECT_EQ(b.st_nlink, 2u);
  ASSERT_OK(WriteWhole(File("b"), "two"));
  EXPECT_EQ(Content(File("a")), "two");
  ASSERT_EQ(::unlink(File("a").c_str()), 0);
  EXPECT_EQ(Content(File("b")), "two");
}

TEST_P(PosixTest, SymbolicLinksAndSpecialFiles) {
  ASSERT_EQ(::symlink("target/that/is/not/there", File("l").c_str()), 0);
  char buffer[64] = {};
  EXPECT_EQ(::readlink(File("l").c_str(), buffer, sizeof buffer), 24);
  EXPECT_STREQ(buffer, "target/that/is/not/there");
  ASSERT_EQ(::mkfifo(File("p").c_str(), 0600), 0);
  struct stat status = {};
  ASSERT_EQ(::stat(File("p").c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
}

TEST_P(PosixTest, ExtendedAttributes) {
  ASSERT_OK(WriteWhole(File("f"), "x"));
  const std::string path = File("f");
  ASSERT_EQ(::setxattr(path.c_str(), "user.color", "blue", 4, 0), 0);
  EXPECT_EQ(::setxattr(path.c_str(), "user.color", "red", 3, XATTR_CREATE), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(::setxattr(path.c_str(), "user.none", "red", 3, XATTR_REPLACE), -1);
  EXPECT_EQ(errno, ENODATA);
  char value[16] = {};
  EXPECT_EQ(::getxattr(path.c_str(), "user.color", nullptr, 0), 4);
  EXPECT_EQ(::getxattr(path.c_str(), "user.color", value, 2), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(::getxattr(path.c_str(), "user.color", value, sizeof value), 4);
  EXPECT_STREQ(value, "blue");
  char names[64] = {};
  EXPECT_EQ(::listxattr(path.c_str(), names, sizeof names), 11);
  EXPECT_STREQ(names, "user.color");
  ASSERT_EQ(::removexattr(path.c_str(), "user.color"), 0);
  EXPECT_EQ(::getxattr(path.c_str(), "user.color", value, sizeof value), -1);
  EXPECT_EQ(errno, ENODATA);

  // Of an open file that has no name any more.
  const UniqueFd open(::open(path.c_str(), O_RDONLY));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(::fsetxattr(open.get(), "user.color", "red", 3, 0), 0) << errno;
  EXPECT_EQ(::fgetxattr(open.get(), "user.color", value, sizeof value), 3);
  EXPECT_EQ(::fremovexattr(open.get(), "user.color"), 0) << errno;
  EXPECT_EQ(::fgetxattr(open.get(), "user.color", value, sizeof value), -1);
  EXPECT_EQ(errno, ENODATA);
}

TEST_P(PosixTest, PermissionsStickyAndSetgid) {
  ASSERT_EQ(::mkdir(File("sticky").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(File("sticky").c_str(), 01777), 0);
  ASSERT_OK(WriteWhole(File("sticky/root"), "x"));
  ASSERT_OK(WriteWhole(File("private"), "x"));
  ASSERT_EQ(::chmod(File("private").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(File("group").c_str(), 0777), 0);
  ASSERT_EQ(::chown(File("group").c_str(), 0, 4242), 0);
  ASSERT_EQ(::chmod(File("group").c_str(), 02777), 0);
  EXPECT_EQ(As(1000, 1000,
               [&] {
                 if (::open(File("private").c_str(), O_RDONLY) >= 0 || errno != EACCES) return 1;
                 if (::unlink(File("sticky/root").c_str()) == 0 || errno != EPERM) return 2;
                 const int mine = ::open(File("sticky/mine").c_str(), O_CREAT | O_WRONLY, 0644);
                 if (mine < 0 || ::close(mine) != 0) return 3;
                 if (::unlink(File("sticky/mine").c_str()) != 0) return 4;
                 if (::mkdir(File("group/sub").c_str(), 0755) != 0) return 5;
                 if (::mkdir(File("no").c_str(), 0755) == 0 || errno != EACCES) return 6;
                 return 0;
               }),
            0);
  struct stat status = {};
  ASSERT_EQ(::stat(File("group/sub").c_str(), &status), 0);
  EXPECT_EQ(status.st_gid, 4242u) << "the group of a set-group-id directory is inherited";
  EXPECT_NE(status.st_mode & S_ISGID, 0u);
  // Writing by somebody else takes set-user-id away.
  ASSERT_OK(WriteWhole(File("suid"), "x"));
  ASSERT_EQ(::chmod(File("suid").c_str(), 04777), 0);
  EXPECT_EQ(As(1000, 1000,
               [&] {
                 const int file = ::open(File("suid").c_str(), O_WRONLY);
                 return file >= 0 && ::write(file, "y", 1) == 1 ? 0 : 1;
               }),
            0);
  ASSERT_EQ(::stat(File("suid").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0777u);
  // So does emptying it.
  ASSERT_EQ(::chmod(File("suid").c_str(), 06777), 0);
  EXPECT_EQ(
      As(1000, 1000, [&] { return ::open(File("suid").c_str(), O_WRONLY | O_TRUNC) >= 0 ? 0 : 1; }),
      0);
  ASSERT_EQ(::stat(File("suid").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0777u);
}

TEST(Trash, TakesTheNameOfAnOpenFileAndNothingElse) {
  auto volume = TestVolume::Make(Engine::kSqlite, {"--trash-days", "1"});
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  const std::string path = (*mount)->File("f");
  ASSERT_OK(WriteWhole(path, Pattern(100'000, 1)));
  const UniqueFd open(::open(path.c_str(), O_RDWR));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(::ftruncate(open.get(), 50'000), 0) << errno;
  EXPECT_EQ(::fallocate(open.get(), 0, 0, 60'000), 0) << errno;
  EXPECT_EQ(::fchmod(open.get(), 0600), 0) << errno;
  EXPECT_EQ(::futimens(open.get(), nullptr), 0) << errno;
  EXPECT_EQ(::fsetxattr(open.get(), "user.a", "1", 1, 0), 0) << errno;
  EXPECT_EQ(::fremovexattr(open.get(), "user.a"), 0) << errno;
  const UniqueFd again(::open(fmt::format("/proc/self/fd/{}", open.get()).c_str(), O_RDWR));
  EXPECT_TRUE(again.valid()) << errno;
  EXPECT_EQ(::pwrite(again.get(), "x", 1, 0), 1);
  struct stat status = {};
  ASSERT_EQ(::fstat(open.get(), &status), 0);
  EXPECT_EQ(status.st_size, 60'000);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST(Trash, AFileThatIsReplacedIsThereAllTheTime) {
  auto volume = TestVolume::Make(Engine::kRedis, {"--trash-days", "1"});
  ASSERT_OK(volume);
  auto mount = TestMount::Make(**volume);
  ASSERT_OK(mount);
  ReplaceWhileOthersUseIt((*mount)->File("f"));
}

TEST_P(PosixTest, NamesOf255Bytes) {
  const std::string longest(255, 'n'), too_long(256, 'n');
  ASSERT_OK(WriteWhole(File(longest), "x"));
  EXPECT_EQ(ListNames(dir_), std::vector<std::string>{longest});
  EXPECT_EQ(::open(File(too_long).c_str(), O_CREAT | O_WRONLY, 0644), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
  ASSERT_OK(WriteWhole(File("\xff\x01 \n"), "bytes are bytes"));
  EXPECT_EQ(Content(File("\xff\x01 \n")), "bytes are bytes");
}

TEST_P(PosixTest, ALargeDirectoryIsListedOnceAndCompletelyWhileItChanges) {
  constexpr int kStay = 1'500;
  for (int i = 0; i < kStay; ++i) {
    const int file = ::open(File("stay" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0644);
    ASSERT_GE(file, 0);
    ::close(file);
  }
  std::multiset<std::string> seen;
  DIR* listing = ::opendir(dir_.c_str());
  ASSERT_NE(listing, nullptr);
  int n = 0;
  while (const dirent* entry = ::readdir(listing)) {
    seen.insert(entry->d_name);
    if (++n % 100 == 0) {
      const std::string come = File("come" + std::to_string(n));
      ::close(::open(come.c_str(), O_CREAT | O_WRONLY, 0644));
      if (n % 200 == 0) ::unlink(come.c_str());
    }
  }
  ::closedir(listing);
  for (int i = 0; i < kStay; ++i) EXPECT_EQ(seen.count("stay" + std::to_string(i)), 1u) << i;
  for (const std::string& name : seen) EXPECT_EQ(seen.count(name), 1u) << name;
}

TEST_P(PosixTest, AListingBringsNoRemovedNameBack) {
  std::set<std::string> left, removed;
  for (int i = 0; i < 300; ++i) {
    left.insert(fmt::format("f{:03}", i));
    ASSERT_OK(WriteWhole(File(fmt::format("f{:03}", i)), "x"));
  }
  const UniqueFd dir(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY));
  // A few names at a time, the rest of which the mount has read with the first.
  const auto next = [&] {
    alignas(dirent64) char buffer[256];
    const ssize_t got = ::getdents64(dir.get(), buffer, sizeof buffer);
    for (ssize_t at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      struct stat status = {};  // who looks at the files gets their attributes with the listing
      const bool there = ::stat(File(entry->d_name).c_str(), &status) == 0;
      EXPECT_EQ(there, !removed.contains(entry->d_name)) << entry->d_name;
      left.erase(entry->d_name);
      at += entry->d_reclen;
    }
    return got > 0;
  };
  ASSERT_TRUE(next());
  removed = left;
  for (const std::string& name : removed) ASSERT_EQ(::unlink(File(name).c_str()), 0) << name;
  while (next()) {
  }
  for (const std::string& name : removed) {
    const UniqueFd file(::open(File(name).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644));
    EXPECT_TRUE(file.valid()) << name << ": " << errno;
  }
}

TEST_P(PosixTest, TimesModesAndOwners) {
  ASSERT_OK(WriteWhole(File("f"), "x"));
  const timespec times[2] = {{1'000'000'000, 123}, {1'100'000'000, 456'789}};
  ASSERT_EQ(::utimensat(AT_FDCWD, File("f").c_str(), times, 0), 0);
  ASSERT_EQ(::chmod(File("f").c_str(), 0640), 0);
  ASSERT_EQ(::chown(File("f").c_str(), 12, 34), 0);
  struct stat status = {};
  ASSERT_EQ(::stat(File("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'100'000'000);
  EXPECT_EQ(status.st_mtim.tv_nsec, 456'789);
  EXPECT_EQ(status.st_atim.tv_sec, 1'000'000'000);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(status.st_uid, 12u);
  EXPECT_EQ(status.st_gid, 34u);
}

TEST_P(PosixTest, AWriteShowsInTheTimesAtOnce) {
  const UniqueFd file(::open(File("f").c_str(), O_RDWR | O_CREAT, 0644));
  const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(::futimens(file.get(), times), 0);
  ASSERT_EQ(::pwrite(file.get(), "x", 1, 0), 1);
  struct stat status = {}, committed = {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_GT(status.st_mtim.tv_sec, 1'000'000'000);
  ASSERT_EQ(::fsync(file.get()), 0);
  ASSERT_EQ(::chmod(File("f").c_str(), 0600), 0);  // tells all attributes
  ASSERT_EQ(::fstat(file.get(), &committed), 0);
  EXPECT_EQ(committed.st_mtim.tv_sec, status.st_mtim.tv_sec);
  EXPECT_EQ(committed.st_mtim.tv_nsec, status.st_mtim.tv_nsec);
}

TEST_P(PosixTest, PunchesHolesAndCopiesRanges) {
  const std::string content = Pattern(100'000, 9);
  ASSERT_OK(WriteWhole(File("f"), content));
  const UniqueFd file(::open(File("f").c_str(), O_RDWR));
  ASSERT_EQ(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 10'000, 5'000), 0);
  ASSERT_EQ(::fallocate(file.get(), 0, 100'000, 50'000), 0);
  std::string expected = content + std::string(50'000, '\0');
  expected.replace(10'000, 5'000, std::string(5'000, '\0'));
  EXPECT_EQ(Content(File("f")), expected);
  const UniqueFd copy(::open(File("copy").c_str(), O_RDWR | O_CREAT, 0644));
  off_t from = 5'000, to = 0;
  EXPECT_EQ(::copy_file_range(file.get(), &from, copy.get(), &to, 20'000, 0), 20'000);
  EXPECT_EQ(Content(File("copy")), expected.substr(5'000, 20'000));
}

TEST_P(PosixTest, ManyThreadsWriteAndReadAtTheSameTime) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 15; ++i) {
        const std::string path = File(fmt::format("t{}-{}", t, i));
        const std::string content = Pattern(10'000 * (i + 1), t * 100 + i);
        if (!WriteWhole(path, content) || Content(path) != content) ++wrong;
        if (i % 3 == 0 && ::unlink(path.c_str()) != 0) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ListNames(dir_).size(), 60u);
}

INSTANTIATE_TEST_SUITE_P(Engines, PosixTest, ::testing::Values(Engine::kSqlite, Engine::kRedis),
                         [](const auto& tested) { return EngineName(tested.param); });

}  // namespace
}  // namespace paddleop::testing
