// What mounts of one volume see of each other, beside what docs/semantics.md shows.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

// One mount remembers that names do not exist while another makes them.
class OtherMount : public ::testing::Test {
 protected:
  void SetUp() override {
    auto volume = TestVolume::Make(Engine::kSqlite);
    ASSERT_OK(volume);
    volume_ = std::move(*volume);
    auto one = TestMount::Make(*volume_, {}, "one");
    ASSERT_OK(one);
    one_ = std::move(*one);
    ASSERT_EQ(::chmod(one_->path().c_str(), 0777), 0);
    auto late = TestMount::Make(*volume_, {"--negative-entry-cache", "60s"}, "late");
    ASSERT_OK(late);
    late_ = std::move(*late);
  }

  // What a user gets who opens a file that, as the kernel remembers, is not there; 0 if it is open.
  int OpenLate(const char* name, int flags, const std::function<void(const std::string&)>& make) {
    struct stat status = {};
    EXPECT_EQ(::stat(late_->File(name).c_str(), &status), -1);
    make(one_->File(name));
    return As(1000, 1000, [&] {
      return ::open(late_->File(name).c_str(), flags | O_CREAT | O_NONBLOCK, 0644) >= 0 ? 0 : errno;
    });
  }

  std::unique_ptr<TestVolume> volume_;
  std::unique_ptr<TestMount> one_, late_;
};

TEST_F(OtherMount, CreatingWhatExistsOpensOnlyWhatMayBeOpened) {
  const auto make = [](mode_t mode, uid_t owner) {
    return [=](const std::string& path) {
      ASSERT_OK(WriteWhole(path, "content"));
      ASSERT_EQ(::chmod(path.c_str(), mode), 0);
      ASSERT_EQ(::chown(path.c_str(), owner, owner), 0);
    };
  };
  EXPECT_EQ(OpenLate("secret", O_RDWR, make(0600, 0)), EACCES);
  EXPECT_EQ(OpenLate("emptied", O_RDWR | O_TRUNC, make(0644, 0)), EACCES);
  EXPECT_EQ(*ReadWhole(one_->File("emptied")), "content");
  EXPECT_EQ(OpenLate("locked", O_RDWR, make(0400, 1000)), EACCES);
  EXPECT_EQ(OpenLate("others", O_RDONLY, make(0644, 0)), 0);
  EXPECT_EQ(OpenLate("group", O_RDWR, make(0660, 1000)), 0);
  EXPECT_EQ(OpenLate("mine", O_RDWR | O_TRUNC, make(0600, 1000)), 0);
  EXPECT_EQ(*ReadWhole(one_->File("mine")), "");
  EXPECT_EQ(OpenLate("exclusive", O_RDWR | O_EXCL, make(0666, 1000)), EEXIST);
}

TEST_F(OtherMount, CreatingWhatIsNoFileDoesWhatTheKernelSays) {
  EXPECT_EQ(OpenLate("d", O_RDWR,
                     [](const std::string& path) { ASSERT_EQ(::mkdir(path.c_str(), 0777), 0); }),
            EISDIR);
  EXPECT_EQ(OpenLate("fifo", O_RDWR,
                     [](const std::string& path) {
                       ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
                       ASSERT_EQ(::chown(path.c_str(), 1000, 1000), 0);
                     }),
            0);
  EXPECT_EQ(
      OpenLate("link", O_RDWR,
               [](const std::string& path) { ASSERT_EQ(::symlink("target", path.c_str()), 0); }),
      0);
  EXPECT_EQ(*ReadWhole(one_->File("target")), "");
}

// Names that one mount remembers and another gives to something else, without and with a trash.
class OldNames : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto volume = TestVolume::Make(Engine::kSqlite, {"--trash-days", GetParam()});
    ASSERT_OK(volume);
    volume_ = std::move(*volume);
    auto a = TestMount::Make(*volume_, {"--attr-cache", "0s", "--entry-cache", "0s"}, "a");
    ASSERT_OK(a);
    a_ = std::move(*a);
    auto b = TestMount::Make(
        *volume_, {"--entry-cache", "600s", "--dir-entry-cache", "600s", "--attr-cache", "600s"},
        "b");
    ASSERT_OK(b);
    b_ = std::move(*b);
  }
  bool trash() const { return GetParam() != std::string("0"); }

  // "f" is another file from now on, and B remembers the old one. Where it may not be open there
  // any more B only looks at it: the kernel tells of a close when it likes.
  void ReplaceFile(std::string_view before, std::string_view after, bool opens = true) {
    ASSERT_OK(WriteWhole(a_->File("f"), before));
    ASSERT_EQ(::access(b_->File("f").c_str(), R_OK), 0);
    const UniqueFd known(opens ? ::open(b_->File("f").c_str(), O_RDONLY) : -1);
    ASSERT_EQ(known.valid(), opens);
    ASSERT_OK(WriteWhole(a_->File("f.new"), after));
    ASSERT_EQ(::rename(a_->File("f.new").c_str(), a_->File("f").c_str()), 0);
  }
  // The same of the directory "d", which holds a file "in" and an empty directory "sub".
  void ReplaceDirectory() {
    for (const bool again : {false, true}) {
      std::filesystem::remove_all(a_->File("d"));
      ASSERT_EQ(::mkdir(a_->File("d").c_str(), 0755), 0);
      if (again) continue;
      ASSERT_EQ(ListNames(b_->File("d")).size(), 0u);
    }
    ASSERT_OK(WriteWhole(a_->File("d/in"), "in"));
    ASSERT_EQ(::mkdir(a_->File("d/sub").c_str(), 0755), 0);
  }

  std::unique_ptr<TestVolume> volume_;
  std::unique_ptr<TestMount> a_, b_;
};

TEST_P(OldNames, OfAFileAreLookedUpAgain) {
  ReplaceFile("old", "newer");
  EXPECT_EQ(Content(b_->File("f")), "newer");

  ReplaceFile("old", "newer");
  {
    const UniqueFd file(::open(b_->File("f").c_str(), O_WRONLY));
    ASSERT_TRUE(file.valid()) << errno;
    EXPECT_EQ(::pwrite(file.get(), "N", 1, 0), 1);
  }
  EXPECT_EQ(Content(a_->File("f")), "Newer");

  ReplaceFile("old", "newer", /*opens=*/false);
  EXPECT_EQ(::chmod(b_->File("f").c_str(), 0600), 0) << errno;
  EXPECT_EQ(::truncate(b_->File("f").c_str(), 3), 0) << errno;
  EXPECT_EQ(Content(a_->File("f")), "new");
  struct stat status = {};
  const UniqueFd kept(::open(a_->File("f").c_str(), O_RDONLY));
  ASSERT_EQ(::fstat(kept.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);

  // The old one is open and lives on without a name.
  ReplaceFile("old", "newer", /*opens=*/false);
  EXPECT_EQ(::chmod(b_->File("f").c_str(), 0640), 0) << errno;
  ASSERT_EQ(::fstat(kept.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  ReplaceFile("old", "newer");
  ASSERT_EQ(::unlink(a_->File("f").c_str()), 0);
  EXPECT_OK(WriteWhole(b_->File("f"), "made"));
  EXPECT_EQ(Content(a_->File("f")), "made");
}

TEST_P(OldNames, OfAFileThatIsOpenAreLookedUpAgain) {
  ASSERT_OK(WriteWhole(a_->File("f"), "old"));
  const UniqueFd open(::open(b_->File("f").c_str(), O_RDWR));
  ASSERT_TRUE(open.valid());
  ReplaceFile("old", "newer");
  EXPECT_EQ(Content(b_->File("f")), "newer");
  ASSERT_OK(WriteWhole(b_->File("f"), "new"));
  EXPECT_EQ(Content(a_->File("f")), "new");
  if (!trash()) return;  // others do not know that it is open
  char bytes[4] = {};
  EXPECT_EQ(::pread(open.get(), bytes, 3, 0), 3);
  EXPECT_STREQ(bytes, "old") << "nobody emptied what is in the trash";
}

// As many threads as use it at the same moment.
void AllAtOnce(const std::function<void()>& use) {
  constexpr int kThreads = 8;
  std::barrier begin(kThreads);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      begin.arrive_and_wait();
      use();
    });
  }
}

TEST_P(OldNames, AreLookedUpAgainByAllWhoOpenThemAtOnce) {
  for (const bool open_here : {true, false}) {
    for (int round = 0; round < 20; ++round) {
      ASSERT_OK(WriteWhole(a_->File("f"), "old"));
      const UniqueFd held(::open((open_here ? b_ : a_)->File("f").c_str(), O_RDWR));
      ASSERT_TRUE(held.valid());
      ReplaceFile("old", "newer");
      struct stat now = {};
      ASSERT_EQ(::stat(a_->File("f").c_str(), &now), 0);
      std::atomic<int> wrong{0};
      AllAtOnce([&] {
        struct stat status = {};
        const UniqueFd file(::open(b_->File("f").c_str(), O_RDWR));
        if (!file.valid() || ::fstat(file.get(), &status) != 0 || status.st_ino != now.st_ino)
          ++wrong;
      });
      ASSERT_EQ(wrong, 0) << (open_here ? "open here, " : "open there, ") << round;
    }
  }
  for (int round = 0; round < 20; ++round) {
    ReplaceDirectory();
    std::atomic<int> wrong{0};
    AllAtOnce([&] {
      if (ListNames(b_->File("d")).size() != 2) ++wrong;
    });
    ASSERT_EQ(wrong, 0) << round;
  }
}

// The first of them drops what the kernel had of it, but not before it has its answer.
TEST_P(OldNames, WhatIsInAFileIsReadByAllWhoOpenItAtOnce) {
  const std::string old = Pattern(4'000'000, 1);
  for (unsigned round = 0; round < 10; ++round) {
    ASSERT_OK(WriteWhole(a_->File("f"), old));
    ASSERT_TRUE(Content(b_->File("f")) == old);
    const std::string fresh = Pattern(old.size(), round + 2);
    {
      const UniqueFd file(::open(a_->File("f").c_str(), O_WRONLY));
      ASSERT_OK(WriteAll(file.get(), fresh));
    }
    std::atomic<int> wrong{0};
    AllAtOnce([&] {
      if (Content(b_->File("f")) != fresh) ++wrong;
    });
    ASSERT_EQ(wrong, 0) << round;
  }
}

// The kernel takes the file to be as short as before: it is not to hold the bytes there.
TEST_P(OldNames, AnAppendIsReadBackWhereItIs) {
  struct stat status = {};
  ASSERT_OK(WriteWhole(a_->File("f"), "short"));
  ASSERT_EQ(::stat(b_->File("f").c_str(), &status), 0);
  const std::string first = Pattern(100'000, 1), second = Pattern(8'192, 2);
  ASSERT_OK(WriteWhole(a_->File("f"), first));
  const UniqueFd file(::open(b_->File("f").c_str(), O_RDWR | O_APPEND));
  ASSERT_EQ(::write(file.get(), second.data(), second.size()), 8'192);
  std::string page(4'096, '\0');
  for (const off_t at : {0, 4'096}) {
    ASSERT_EQ(::pread(file.get(), page.data(), page.size(), at), 4'096);
    EXPECT_TRUE(page == first.substr(static_cast<std::size_t>(at), 4'096)) << at;
  }
  EXPECT_TRUE(Content(b_->File("f")) == first + second);
  EXPECT_TRUE(Content(a_->File("f")) == first + second);
}

TEST_P(OldNames, DoNotGetExtendedAttributes) {
  const std::string there = a_->File("f"), here = b_->File("f");
  char value[16] = {};
  for (const bool held_there : {false, true}) {
    ASSERT_OK(WriteWhole(there, "old"));
    const UniqueFd held(held_there ? ::open(there.c_str(), O_RDONLY) : -1);
    ReplaceFile("old", "newer", /*opens=*/false);
    ASSERT_EQ(::setxattr(here.c_str(), "user.a", "1", 1, 0), 0) << errno;
    EXPECT_EQ(::getxattr(there.c_str(), "user.a", value, sizeof value), 1);

    const UniqueFd held_again(held_there ? ::open(there.c_str(), O_RDONLY) : -1);
    ReplaceFile("old", "newer", /*opens=*/false);
    ASSERT_EQ(::setxattr(there.c_str(), "user.a", "1", 1, 0), 0);
    EXPECT_EQ(::setxattr(here.c_str(), "user.a", "22", 2, XATTR_REPLACE), 0) << errno;
    EXPECT_EQ(::getxattr(there.c_str(), "user.a", value, sizeof value), 2);

    const UniqueFd held_at_last(held_there ? ::open(there.c_str(), O_RDONLY) : -1);
    ReplaceFile("old", "newer", /*opens=*/false);
    ASSERT_EQ(::setxattr(there.c_str(), "user.a", "1", 1, 0), 0);
    EXPECT_EQ(::removexattr(here.c_str(), "user.a"), 0) << errno;
    EXPECT_EQ(::getxattr(there.c_str(), "user.a", value, sizeof value), -1);
    EXPECT_EQ(errno, ENODATA);
  }
}

TEST_P(OldNames, InADirectoryThatIsGoneLeadNowhere) {
  ASSERT_EQ(::mkdir(a_->File("d").c_str(), 0755), 0);
  ASSERT_OK(WriteWhole(a_->File("d/x"), "x"));
  ASSERT_EQ(::mkdir(a_->File("d/sub").c_str(), 0755), 0);
  const UniqueFd dir(::open(b_->File("d").c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_TRUE(dir.valid());
  ASSERT_EQ(::faccessat(dir.get(), "x", F_OK, 0), 0);
  ASSERT_EQ(::faccessat(dir.get(), "sub", F_OK, 0), 0);
  std::filesystem::remove_all(a_->File("d"));
  const std::vector<std::pair<const char*, std::function<int()>>> uses = {
      {"unlink", [&] { return ::unlinkat(dir.get(), "x", 0); }},
      {"rmdir", [&] { return ::unlinkat(dir.get(), "sub", AT_REMOVEDIR); }},
      {"unlink of what was never seen", [&] { return ::unlinkat(dir.get(), "y", 0); }},
      {"look", [&] { return ::faccessat(dir.get(), "z", F_OK, 0); }},
      {"open", [&] { return ::openat(dir.get(), "z", O_RDONLY); }},
      {"rename", [&] { return ::renameat(dir.get(), "z", AT_FDCWD, b_->File("z").c_str()); }},
  };
  for (const auto& [name, use] : uses) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(use(), -1) << name;
      EXPECT_EQ(errno, ENOENT) << name;
    }
  }
}

TEST_P(OldNames, OfADirectoryAreLookedUpAgain) {
  ASSERT_OK(WriteWhole(b_->File("other"), "other"));
  const auto in = [this](std::string_view name) { return b_->File("d/" + std::string(name)); };
  const std::string other = b_->File("other");
  const std::vector<std::pair<const char*, std::function<int()>>> uses = {
      {"stat", [&] { return ::access(in("in").c_str(), F_OK); }},
      {"list", [&] { return ListNames(b_->File("d")).size() == 2 ? 0 : -1; }},
      {"create", [&] { return UniqueFd(::creat(in("x").c_str(), 0644)).get(); }},
      {"mkdir", [&] { return ::mkdir(in("x").c_str(), 0755); }},
      {"mknod", [&] { return ::mkfifo(in("x").c_str(), 0644); }},
      {"symlink", [&] { return ::symlink("x", in("x").c_str()); }},
      {"link", [&] { return ::link(other.c_str(), in("x").c_str()); }},
      {"unlink", [&] { return ::unlink(in("in").c_str()); }},
      {"rmdir", [&] { return ::rmdir(in("sub").c_str()); }},
      {"rename from", [&] { return ::rename(in("in").c_str(), b_->File("moved").c_str()); }},
      {"rename to", [&] { return ::rename(other.c_str(), in("x").c_str()); }},
  };
  for (const auto& [name, use] : uses) {
    ReplaceDirectory();
    if (use() >= 0) continue;
    // Before it makes something that is no file the kernel looks whether it is there, and does not
    // try again if it cannot.
    EXPECT_EQ(errno, ESTALE) << name;
    EXPECT_TRUE(std::set<std::string>({"mkdir", "mknod", "symlink", "link"}).contains(name))
        << name;
    EXPECT_EQ(::access(in("in").c_str(), F_OK), 0) << name;
    EXPECT_GE(use(), 0) << name << ": " << errno;
  }
  ReplaceDirectory();
  EXPECT_EQ(::access(in("nothing").c_str(), F_OK), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_P(OldNames, WhatIsInTheTrashIsReadThere) {
  if (!trash()) return;
  ReplaceFile("old", "newer");
  ASSERT_EQ(::mkdir(a_->File("gone").c_str(), 0755), 0);
  ASSERT_EQ(::rmdir(a_->File("gone").c_str()), 0);
  for (TestMount* mount : {a_.get(), b_.get()}) {
    const std::string hour = mount->File(".trash/" + ListNames(mount->File(".trash")).back());
    int files = 0, directories = 0;
    for (const std::string& name : ListNames(hour)) {
      const std::string path = hour + "/" + name;
      if (name.ends_with("-f")) {
        ++files;
        EXPECT_EQ(Content(path), "old");
        EXPECT_EQ(::open(path.c_str(), O_WRONLY), -1);
        EXPECT_EQ(errno, EPERM);
        EXPECT_EQ(::truncate(path.c_str(), 0), -1);
        EXPECT_EQ(errno, EPERM);
        EXPECT_EQ(::chmod(path.c_str(), 0777), -1);
        EXPECT_EQ(errno, EPERM);
        EXPECT_EQ(::setxattr(path.c_str(), "user.a", "1", 1, 0), -1);
        EXPECT_EQ(errno, EPERM);
      } else if (name.ends_with("-gone")) {
        ++directories;
        EXPECT_EQ(ListNames(path).size(), 0u);
        EXPECT_EQ(::access((path + "/x").c_str(), F_OK), -1);
        EXPECT_EQ(errno, ENOENT);
        EXPECT_EQ(::creat((path + "/x").c_str(), 0644), -1);
        EXPECT_EQ(errno, ENOENT);
      }
    }
    EXPECT_EQ(files, 1) << hour;
    EXPECT_EQ(directories, 1) << hour;
    EXPECT_EQ(::creat((hour + "/x").c_str(), 0644), -1);
    EXPECT_EQ(errno, ENOENT);
  }
  // What is taken out of it is a file like any other.
  const std::string hour = b_->File(".trash/" + ListNames(b_->File(".trash")).back());
  for (const std::string& name : ListNames(hour)) {
    if (!name.ends_with("-f")) continue;
    ASSERT_EQ(::rename((hour + "/" + name).c_str(), b_->File("back").c_str()), 0) << errno;
  }
  EXPECT_OK(WriteWhole(b_->File("back"), "again"));
  ASSERT_OK(WriteWhole(a_->File("f.new"), "newest"));
  ASSERT_EQ(::rename(a_->File("f.new").c_str(), a_->File("back").c_str()), 0);
  EXPECT_EQ(Content(b_->File("back")), "newest");
}

INSTANTIATE_TEST_SUITE_P(Trash, OldNames, ::testing::Values("0", "1"), [](const auto& tested) {
  return std::string(tested.param == std::string("0") ? "Without" : "With");
});

}  // namespace
}  // namespace paddleop::testing
