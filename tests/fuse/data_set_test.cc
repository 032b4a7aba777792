// Data-set mode on a real mount: no request for what the kernel knows, and refresh.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/testing/matchers.h"
#include "fuse/mounted.h"

namespace paddleop::testing {
namespace {

class DataSetMount : public ::testing::TestWithParam<Engine> {
 protected:
  void SetUp() override {
    auto volume = TestVolume::Make(GetParam());
    ASSERT_OK(volume);
    volume_ = std::move(*volume);
    // Files of many sizes, through a mount of the other kind.
    auto writer = TestMount::Make(*volume_, {}, "writer");
    ASSERT_OK(writer);
    writer_ = std::move(*writer);
    for (unsigned d = 0; d < 4; ++d) {
      const std::string dir = writer_->File(fmt::format("d{}", d));
      ASSERT_EQ(::mkdir(dir.c_str(), 0755), 0);
      for (unsigned i = 0; i < 25; ++i) {
        const std::size_t size = i == 0 ? 0 : i == 1 ? 9'000'000 : i * 1'000 + d;
        ASSERT_OK(WriteWhole(fmt::format("{}/f{:02}", dir, i), Pattern(size, d * 100 + i)));
      }
    }
    ASSERT_EQ(::symlink("d0/f05", writer_->File("link").c_str()), 0);
  }

  void Mount(std::vector<std::string> options = {}) {
    options.insert(options.begin(), "--read-only");
    auto mount = TestMount::Make(*volume_, options, "set");
    ASSERT_OK(mount);
    set_ = std::move(*mount);
  }

  // Reads everything with several threads; how many files were wrong.
  int ReadAll(unsigned readers) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < readers; ++t) {
      threads.emplace_back([&, t] {
        for (unsigned d = 0; d < 4; ++d) {
          for (unsigned i = t; i < 25; i += readers) {
            const std::size_t size = i == 0 ? 0 : i == 1 ? 9'000'000 : i * 1'000 + d;
            auto content = ReadWhole(set_->File(fmt::format("d{}/f{:02}", d, i)));
            if (!content || *content != Pattern(size, d * 100 + i)) ++wrong;
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return wrong;
  }

  std::unique_ptr<TestVolume> volume_;
  std::unique_ptr<TestMount> writer_;
  std::unique_ptr<TestMount> set_;
};

TEST_P(DataSetMount, ASecondEpochCostsNoRequest) {
  Mount();
  EXPECT_EQ(ReadAll(8), 0);
  EXPECT_EQ(ListNames(set_->path()).size(), 5u);
  EXPECT_GT(*set_->Requests(), 100u);
  // A kernel may take pages back between two epochs; then they are read again, and kept.
  std::uint64_t requests = 1;
  for (int epoch = 0; epoch < 5 && requests > 0; ++epoch) {
    auto before = set_->Requests();
    ASSERT_OK(before);
    EXPECT_EQ(ReadAll(8), 0);
    EXPECT_EQ(ListNames(set_->path()).size(), 5u);
    auto after = set_->Requests();
    ASSERT_OK(after);
    requests = *after - *before;
  }
  EXPECT_EQ(requests, 0u) << set_->Status()->dump();
  // Programs that look at each directory's file system (find, du) cost one request for that, which
  // needs nobody else.
  const bool redis = GetParam() == Engine::kRedis;
  if (redis) {
    ASSERT_OK(volume_->redis().Command("pause redis"));
  }
  struct statvfs usage = {};
  EXPECT_EQ(::statvfs(set_->path().c_str(), &usage), 0);
  EXPECT_GT(usage.f_files, 0u);
  EXPECT_EQ(ReadAll(2), 0);
  EXPECT_EQ(std::filesystem::read_symlink(set_->File("link")), "d0/f05");
  if (redis) {
    ASSERT_OK(volume_->redis().Command("resume redis"));
  }
  // A new mount finds the data in the cache directory.
  ASSERT_OK(set_->Unmount());
  std::filesystem::rename(volume_->objects(), volume_->objects() + ".away");
  Mount();
  EXPECT_EQ(ReadAll(4), 0) << "the object store is away, the cache is not";
  std::filesystem::rename(volume_->objects() + ".away", volume_->objects());
}

// What the kernel keeps of files it need not keep of the cache's files, too.
TEST_P(DataSetMount, CachedBlocksAreNotInMemoryTwice) {
  Mount();
  EXPECT_EQ(ReadAll(4), 0);
  ASSERT_OK(set_->Unmount());
  std::vector<std::string> blocks;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(volume_->cache())) {
    if (entry.is_regular_file() && entry.path().string().find("/raw/") != std::string::npos)
      blocks.push_back(entry.path().string());
  }
  ASSERT_FALSE(blocks.empty());
  const auto pages = [&] {
    std::size_t count = 0;
    for (const std::string& block : blocks) {
      const UniqueFd file(::open(block.c_str(), O_RDONLY));
      const std::size_t size = std::filesystem::file_size(block);
      void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
      std::vector<unsigned char> present((size + 4095) / 4096);
      EXPECT_EQ(::mincore(mapped, size, present.data()), 0);
      ::munmap(mapped, size);
      count += static_cast<std::size_t>(
          std::ranges::count_if(present, [](unsigned char page) { return (page & 1U) != 0; }));
    }
    return count;
  };
  for (const std::string& block : blocks) {
    const UniqueFd file(::open(block.c_str(), O_RDONLY));
    ::fsync(file.get());  // dirty pages stay
    ASSERT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  ASSERT_EQ(pages(), 0u);
  Mount();
  EXPECT_EQ(ReadAll(4), 0);
  EXPECT_GT(set_->Status()->at("cache").at("hits").get<int>(), 90);
  // The checksums at a block's end are read once, and not past the kernel's memory.
  EXPECT_LE(pages(), 4 * blocks.size());
}

TEST_P(DataSetMount, NothingCanBeChanged) {
  Mount();
  EXPECT_EQ(::open(set_->File("new").c_str(), O_CREAT | O_WRONLY, 0644), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::unlink(set_->File("d0/f01").c_str()), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::mkdir(set_->File("d9").c_str(), 0755), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::rename(set_->File("d0").c_str(), set_->File("d9").c_str()), -1);
  EXPECT_EQ(errno, EROFS);
  char value[8];
  EXPECT_EQ(::getxattr(set_->File("d0").c_str(), "user.x", value, sizeof value), -1);
  EXPECT_EQ(errno, ENOTSUP);
  char target[64] = {};
  EXPECT_EQ(::readlink(set_->File("link").c_str(), target, sizeof target), 6);
  EXPECT_STREQ(target, "d0/f05");
  auto through = ReadWhole(set_->File("link"));
  ASSERT_OK(through);
  EXPECT_EQ(*through, Pattern(5'000, 5));
}

TEST_P(DataSetMount, SeesChangesWhenRefreshed) {
  Mount();
  EXPECT_EQ(ReadAll(2), 0);
  EXPECT_EQ(::access(set_->File("d0/new").c_str(), F_OK), -1) << "remembered as missing";
  ASSERT_OK(WriteWhole(writer_->File("d0/new"), "new file"));
  ASSERT_OK(WriteWhole(writer_->File("d0/f05"), "rewritten in place"));
  ASSERT_EQ(::unlink(writer_->File("d1/f07").c_str()), 0);
  ASSERT_OK(WriteWhole(writer_->File("tmp"), "renamed over"));
  ASSERT_EQ(::rename(writer_->File("tmp").c_str(), writer_->File("d2/f08").c_str()), 0);
  ASSERT_EQ(::access(set_->File("d0/new").c_str(), F_OK), -1) << "a view does not change by itself";
  const UniqueFd replaced(::open(set_->File("d2/f08").c_str(), O_RDONLY));
  EXPECT_EQ(*ReadWhole(set_->File("d2/f08")), Pattern(8'002, 208));

  auto refreshed = RunSamplefs({"refresh", set_->path(), "--json"});
  ASSERT_OK(refreshed);
  ASSERT_EQ(refreshed->exit_code, 0) << refreshed->err;
  EXPECT_TRUE(nlohmann::json::parse(refreshed->out)["changed"]) << refreshed->out;
  EXPECT_EQ(*ReadWhole(set_->File("d0/new")), "new file");
  EXPECT_EQ(*ReadWhole(set_->File("d0/f05")), "rewritten in place");
  EXPECT_EQ(*ReadWhole(set_->File("d2/f08")), "renamed over");
  std::string old(8'002, '\0');
  EXPECT_EQ(::pread(replaced.get(), old.data(), old.size(), 0), 8'002) << errno;
  EXPECT_EQ(old, Pattern(8'002, 208)) << "who has the old one open has the old one";
  EXPECT_EQ(::access(set_->File("d1/f07").c_str(), F_OK), -1);
  EXPECT_EQ(ListNames(set_->File("d0")).size(), 26u);
  EXPECT_EQ(ListNames(set_->File("d1")).size(), 24u);

  // By signal.
  ASSERT_OK(WriteWhole(writer_->File("d3/by-signal"), "x"));
  EXPECT_EQ(::access(set_->File("d3/by-signal").c_str(), F_OK), -1);
  ASSERT_EQ(::kill(set_->pid(), SIGHUP), 0);
  EXPECT_TRUE(WaitFor([&] { return ::access(set_->File("d3/by-signal").c_str(), F_OK) == 0; }));
}

TEST_P(DataSetMount, ARefreshForgetsOnlyWhatChanged) {
  Mount();
  EXPECT_EQ(ReadAll(2), 0);
  for (unsigned d = 0; d < 4; ++d) {
    ASSERT_OK(WriteWhole(writer_->File(fmt::format("d{}/new", d)), "new"));
    ASSERT_EQ(::chmod(writer_->File(fmt::format("d{}/f07", d)).c_str(), 0600), 0);
  }
  auto refreshed = RunSamplefs({"refresh", set_->path()});
  ASSERT_OK(refreshed);
  ASSERT_EQ(refreshed->exit_code, 0) << refreshed->err;
  auto before = set_->Requests();
  ASSERT_OK(before);
  EXPECT_EQ(ReadAll(1), 0);
  auto after = set_->Requests();
  ASSERT_OK(after);
  // Had the directories' names been forgotten, each of the hundred files would cost a lookup and a
  // read. (A kernel may take a few pages back by itself.)
  EXPECT_LE(*after - *before, 60u);
  struct stat info = {};
  for (unsigned d = 0; d < 4; ++d) {
    ASSERT_EQ(::stat(set_->File(fmt::format("d{}/f07", d)).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    EXPECT_EQ(*ReadWhole(set_->File(fmt::format("d{}/new", d))), "new");
  }
}

TEST_P(DataSetMount, AListingGoesOnWhereItWasAfterARefresh) {
  std::set<std::string> expected;
  ASSERT_EQ(::mkdir(writer_->File("many").c_str(), 0755), 0);
  for (int i = 0; i < 300; ++i) {
    expected.insert(fmt::format("f{:03}", i));
    ASSERT_OK(WriteWhole(writer_->File(fmt::format("many/f{:03}", i)), ""));
  }
  Mount();
  const UniqueFd dir(::open(set_->File("many").c_str(), O_RDONLY | O_DIRECTORY));
  std::map<std::string, int> seen;
  for (int round = 0;; ++round) {
    alignas(dirent64) char buffer[256];
    const ssize_t got = ::getdents64(dir.get(), buffer, sizeof buffer);
    ASSERT_GE(got, 0) << errno;
    if (got == 0) break;
    for (ssize_t at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      ++seen[entry->d_name];
      at += entry->d_reclen;
    }
    if (round % 10 != 5) continue;
    // Names that come and go before it, and one behind.
    for (int i = 0; i < 7; ++i)
      ASSERT_OK(WriteWhole(writer_->File(fmt::format("many/a{:03}-{}", round, i)), ""));
    ASSERT_EQ(::unlink(writer_->File(fmt::format("many/f{:03}", round / 10)).c_str()), 0);
    auto refreshed = RunSamplefs({"refresh", set_->path()});
    ASSERT_OK(refreshed);
    ASSERT_EQ(refreshed->exit_code, 0) << refreshed->err;
  }
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name;
  for (const std::string& name : expected) EXPECT_TRUE(seen.contains(name)) << name;
}

// Whoever refreshes talks to the kernel while the mount goes away.
TEST_P(DataSetMount, CanBeEndedWhileItRefreshes) {
  for (int round = 0; round < 2; ++round) {
    Mount();
    EXPECT_EQ(ReadAll(4), 0);
    for (unsigned d = 0; d < 4; ++d) {  // the same content, as another file
      for (unsigned i = 2; i < 25; ++i) {
        const std::string path = writer_->File(fmt::format("d{}/f{:02}", d, i));
        ASSERT_OK(WriteWhole(path + ".new", Pattern(i * 1'000 + d, d * 100 + i)));
        ASSERT_EQ(::rename((path + ".new").c_str(), path.c_str()), 0);
      }
    }
    std::vector<std::jthread> others;
    for (int i = 0; i < 2; ++i)
      others.emplace_back([&] { EXPECT_OK(RunSamplefs({"refresh", set_->path()})); });
    others.emplace_back([&] { ReadAll(2); });
    const pid_t pid = set_->pid();
    ASSERT_TRUE(WaitFor([&] { return ::access(set_->File("d0").c_str(), F_OK) == 0; },
                        std::chrono::seconds(60)));
    ASSERT_EQ(::kill(pid, SIGTERM), 0);
    EXPECT_TRUE(WaitFor([&] { return ::kill(pid, 0) != 0; }, std::chrono::seconds(60)))
        << set_->Log();
    others.clear();
    EXPECT_EQ(set_->Log().find("AddressSanitizer"), std::string::npos) << set_->Log();
    set_.reset();
  }
}

// Whoever opens a part of a directory will want the rest: its names come before they are asked for.
TEST_P(DataSetMount, NamesOfADirectoryComeTogether) {
  constexpr unsigned kFiles = 400;
  const auto name = [](unsigned i) { return fmt::format("top/deep/f{:03}", i); };
  ASSERT_EQ(::mkdir(writer_->File("top").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(writer_->File("top/deep").c_str(), 0755), 0);
  for (unsigned i = 0; i < kFiles; ++i) ASSERT_OK(WriteWhole(writer_->File(name(i)), "x"));
  Mount();
  const auto operations = [&](const char* op) -> std::uint64_t {
    return set_->Status()->at("operations").value(op, std::uint64_t{0});
  };
  struct stat info = {};
  for (unsigned i = 0; i < 3; ++i) ASSERT_EQ(::stat(set_->File(name(i)).c_str(), &info), 0);
  EXPECT_EQ(operations("readdir"), 0u) << "three files are no reason to list hundreds";
  for (unsigned i = 0; i < 40; ++i) ASSERT_EQ(::stat(set_->File(name(i)).c_str(), &info), 0);
  // The last answer to a listing says that there is no more: after it the kernel knows all names.
  EXPECT_TRUE(WaitFor([&] {
    const auto before = operations("lookup");
    for (unsigned i = 40; i < kFiles; ++i) {
      if (::stat(set_->File(name(i)).c_str(), &info) != 0 || info.st_size != 1) return false;
    }
    return operations("lookup") == before;
  })) << set_->Status()->dump();
  EXPECT_LT(operations("lookup"), kFiles / 2) << "most were never looked up";
  // A view that changed has its new names listed, too, and what was listed before is not kept.
  for (unsigned i = 0; i < kFiles; ++i) {
    ASSERT_OK(WriteWhole(writer_->File("new"), "longer"));
    ASSERT_EQ(::rename(writer_->File("new").c_str(), writer_->File(name(i)).c_str()), 0);
  }
  ASSERT_OK(RunSamplefs({"refresh", set_->path()}));
  for (unsigned i = 0; i < kFiles; ++i) {
    ASSERT_EQ(::stat(set_->File(name(i)).c_str(), &info), 0);
    EXPECT_EQ(info.st_size, 6) << name(i);
  }
}

// Listing ahead is nobody's reason to be told that the mount point is busy.
TEST_P(DataSetMount, IsNotBusyWhileItListsAhead) {
  constexpr unsigned kFiles = 600;
  ASSERT_EQ(::mkdir(writer_->File("many").c_str(), 0755), 0);
  for (unsigned i = 0; i < kFiles; ++i)
    ASSERT_OK(WriteWhole(writer_->File(fmt::format("many/f{:03}", i)), ""));
  for (unsigned round = 0; round < 3; ++round) {
    Mount();
    struct stat info = {};
    for (unsigned i = 0; i <= 16 + round * 3; ++i) {
      ASSERT_EQ(::stat(set_->File(fmt::format("many/f{:03}", i * 20)).c_str(), &info), 0);
    }
    ASSERT_EQ(::umount2(set_->path().c_str(), UMOUNT_NOFOLLOW), 0) << errno;
    EXPECT_TRUE(WaitFor([&] { return ::kill(set_->pid(), 0) != 0; }, std::chrono::seconds(60)))
        << set_->Log();
    set_.reset();
  }
}

// Memory too small for the data, played by dropping pages of everything: from then on what is in
// memory stays there, and what is read besides does not push it out.
TEST_P(DataSetMount, KeepsWhatIsInMemoryWhenNotAllFits) {
  constexpr unsigned kFiles = 800;
  const auto name = [](unsigned i) { return fmt::format("many/f{:03}", i); };
  ASSERT_EQ(::mkdir(writer_->File("many").c_str(), 0755), 0);
  for (unsigned i = 0; i < kFiles; ++i)
    ASSERT_OK(WriteWhole(writer_->File(name(i)), Pattern(5'000, i)));
  Mount();
  const auto wrong = [&](unsigned first, unsigned end) {
    int count = 0;
    for (unsigned i = first; i < end; ++i) {
      auto content = ReadWhole(set_->File(name(i)));
      if (!content || *content != Pattern(5'000, i)) ++count;
    }
    return count;
  };
  const auto in_memory = [&](unsigned first, unsigned end) {
    unsigned count = 0;
    for (unsigned i = first; i < end; ++i) {
      const UniqueFd file(::open(set_->File(name(i)).c_str(), O_RDONLY));
      void* const mapped = ::mmap(nullptr, 5'000, PROT_READ, MAP_SHARED, file.get(), 0);
      unsigned char present[2] = {};
      EXPECT_EQ(::mincore(mapped, 5'000, present), 0);
      ::munmap(mapped, 5'000);
      count += (present[0] & present[1] & 1U) != 0 ? 1 : 0;
    }
    return count;
  };
  const auto one_in = [&] {
    return set_->Status()->at("dataSet").at("pages").at("oneIn").get<int>();
  };
  EXPECT_EQ(wrong(0, kFiles), 0);
  EXPECT_EQ(one_in(), 1);
  for (unsigned i = 0; i < kFiles; ++i) {
    const UniqueFd file(::open(set_->File(name(i)).c_str(), O_RDONLY));
    ASSERT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  EXPECT_EQ(wrong(0, 300), 0);
  EXPECT_TRUE(WaitFor([&] { return one_in() == 32; })) << set_->Status()->dump();
  EXPECT_EQ(wrong(300, kFiles), 0);
  EXPECT_TRUE(WaitFor([&] { return in_memory(300, kFiles) < 50; })) << in_memory(300, kFiles);
  EXPECT_GT(in_memory(0, 300), 180u);
  const auto pages = set_->Status()->at("dataSet").at("pages");
  EXPECT_GE(pages.at("droppedFiles").get<int>(), 450) << pages.dump();
  EXPECT_EQ(pages.at("droppedBytes").get<int>() % 5'000, 0) << pages.dump();
  auto shown = RunSamplefs({"status", set_->path()});
  ASSERT_OK(shown);
  EXPECT_NE(shown->out.find("memory is short: 1 file in 32 stays"), std::string::npos)
      << shown->out;
  // Names outlive the pages.
  const auto lookups = [&] { return set_->Status()->at("operations").at("lookup").get<int>(); };
  const int before = lookups();
  EXPECT_EQ(wrong(300, kFiles), 0);
  EXPECT_EQ(lookups(), before);
  // Dropping is nobody's reason to be told that the mount point is busy.
  ASSERT_EQ(::umount2(set_->path().c_str(), UMOUNT_NOFOLLOW), 0) << errno;
  EXPECT_TRUE(WaitFor([&] { return ::kill(set_->pid(), 0) != 0; }, std::chrono::seconds(60)))
      << set_->Log();
  set_.reset();
  Mount({"--no-keep-pages"});
  EXPECT_FALSE(set_->Status()->at("dataSet").contains("pages"));
}

TEST_P(DataSetMount, FindsChangesByItselfWhenAskedTo) {
  Mount({"--refresh", "200ms"});
  EXPECT_EQ(::access(set_->File("late").c_str(), F_OK), -1);
  ASSERT_OK(WriteWhole(writer_->File("late"), "x"));
  EXPECT_TRUE(WaitFor([&] { return ::access(set_->File("late").c_str(), F_OK) == 0; }));
}

TEST_P(DataSetMount, MountsADirectoryOfTheVolume) {
  Mount({"--subdir", "/d2"});
  EXPECT_EQ(ListNames(set_->path()).size(), 25u);
  EXPECT_EQ(*ReadWhole(set_->File("f09")), Pattern(9'002, 209));
  ASSERT_OK(WriteWhole(writer_->File("d2/more"), "x"));
  auto refreshed = RunSamplefs({"refresh", set_->path()});
  ASSERT_OK(refreshed);
  EXPECT_EQ(refreshed->exit_code, 0) << refreshed->err;
  EXPECT_EQ(ListNames(set_->path()).size(), 26u);
}

INSTANTIATE_TEST_SUITE_P(Engines, DataSetMount, ::testing::Values(Engine::kSqlite, Engine::kRedis),
                         [](const auto& tested) { return EngineName(tested.param); });

}  // namespace
}  // namespace paddleop::testing
