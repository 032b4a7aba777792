// What the disk cache does when files, disks or processes fail.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "volume/cache/internal/counters.h"
#include "volume/cache/internal/part_file.h"
#include "volume/cache/testing/cache_fixture.h"

namespace paddleop::volume {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using testing::DiskCacheTest;
using ::testing::HasSubstr;
using testing::kUuid;
using ::testing::SizeIs;

class DiskCacheFault : public DiskCacheTest {
 protected:
  void Overwrite(const std::string& path, off_t offset, std::string_view bytes) {
    auto fd = OpenFile(path, O_WRONLY);
    ASSERT_OK(fd);
    ASSERT_EQ(::pwrite(fd->get(), bytes.data(), bytes.size(), offset),
              static_cast<ssize_t>(bytes.size()));
  }
  // Reading the open file of the block ends with EIO from now on.
  static void MakeUnreadable(DiskCache& cache, const BlockId& block) {
    const auto file = cache.Find(block);
    ASSERT_NE(file, nullptr);
    const UniqueFd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
    ASSERT_GE(::dup3(memory.get(), file->fd(), O_CLOEXEC),
              0);  // nothing is mapped at its beginning
  }
  // Our descriptors of that file.
  static std::vector<int> OpenedAs(const std::string& path) {
    std::vector<int> found;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      if (fs::read_symlink(entry.path(), error) == path)
        found.push_back(std::stoi(entry.path().filename().string()));
    }
    return found;
  }
  double Metric(const std::string& name) {
    const std::string text = metrics_.Serialize();
    const auto at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }
};

TEST_F(DiskCacheFault, ADamagedFileIsAWarningAMetricAndAMiss) {
  for (const bool direct : {false, true}) {
    options_.direct_reads = direct;
    auto cache = Open();
    const BlockId block = Block(1);
    ASSERT_OK(Store(*cache, block, "plan"));
    Overwrite(PathOf(block), 70'000, "XXXX");
    EXPECT_EQ(Read(*cache, block, 0, 100), Content(block).substr(0, 100)) << "another piece";
    EXPECT_EQ(Read(*cache, block, 65'536, 10), "miss");
    EXPECT_FALSE(fs::exists(PathOf(block)));
    EXPECT_EQ(cache->Status()[0].pinned_bytes, 0u) << "the pin went with it";
    EXPECT_EQ(cache->Usage().blocks, 0u);
    ASSERT_TRUE(Put(*cache, block));
    EXPECT_TRUE(Holds(*cache, block));
    cache->Remove(block);
  }
  EXPECT_THAT(warnings_, SizeIs(2));
  EXPECT_THAT(warnings_[0], HasSubstr(PathOf(Block(1))));
  EXPECT_EQ(Metric("paddleop_cache_corrupt_total"), 2);
}

// One bad sector costs the block that lies on it, and that only until it is fetched again.
TEST_F(DiskCacheFault, AFileThatCannotBeReadIsReplacedAndTheDiskStaysInUse) {
  auto cache = Open();
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(Put(*cache, Block(1)));
    ASSERT_TRUE(Holds(*cache, Block(1)));
    MakeUnreadable(*cache, Block(1));
    EXPECT_EQ(Read(*cache, Block(1), 0, 100), "miss");
    EXPECT_FALSE(fs::exists(PathOf(Block(1)))) << "the next one lies elsewhere on the disk";
    EXPECT_TRUE(cache->Status()[0].usable);
    EXPECT_EQ(Metric("paddleop_cache_disk_errors_total"), i);
  }
  EXPECT_EQ(cache->Usage().blocks, 0u);
  EXPECT_THAT(warnings_, Contains(HasSubstr(PathOf(Block(1)))));
  EXPECT_EQ(Metric("paddleop_cache_corrupt_total"), 5);
  // Different files: it is the disk.
  for (std::uint64_t i = 2; i <= 3; ++i) {
    EXPECT_TRUE(cache->Status()[0].usable);
    ASSERT_TRUE(Put(*cache, Block(i)));
    MakeUnreadable(*cache, Block(i));
    EXPECT_EQ(Read(*cache, Block(i), 0, 100), "miss");
  }
  EXPECT_FALSE(cache->Status()[0].usable);
}

// A container that is killed and started again has the same process number as before.
TEST_F(DiskCacheFault, FilesThatAKilledProcessWasWritingAreInNobodysWay) {
  auto cache = Open();
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(WriteFileAtomic(fmt::format("{}/.samplefs.tmp/{}-{}", Root(), ::getpid(), i), "old"));
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_TRUE(Put(*cache, Block(i)));
  EXPECT_TRUE(cache->Status()[0].usable);
}

TEST_F(DiskCacheFault, TruncatedFilesAndWrongChecksumsAreMisses) {
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(Put(*cache, Block(i)));
  ASSERT_EQ(::truncate(PathOf(Block(1)).c_str(), 1000), 0);
  ASSERT_EQ(::truncate(PathOf(Block(2)).c_str(), kBlock + 5), 0);
  ASSERT_EQ(::truncate(PathOf(Block(3)).c_str(), 0), 0);
  Overwrite(PathOf(Block(4)), kBlock, "WXYZ");
  for (std::uint64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(Read(*cache, Block(i), 0, 100), "miss") << i;
    EXPECT_FALSE(fs::exists(PathOf(Block(i)))) << i;
  }
  EXPECT_EQ(Metric("paddleop_cache_corrupt_total"), 4);
  // One that is cut while it is open.
  ASSERT_TRUE(Put(*cache, Block(5)));
  EXPECT_TRUE(Holds(*cache, Block(5)));
  ASSERT_EQ(::truncate(PathOf(Block(5)).c_str(), 1000), 0);
  EXPECT_EQ(Read(*cache, Block(5), 5000, 100), "miss");
  EXPECT_FALSE(cache->Contains(Block(5)));
}

TEST_F(DiskCacheFault, ATruncatedFileIsReplacedByWhatIsStored) {
  for (const off_t size : {off_t{0}, off_t{1000}, off_t{kBlock + 5}}) {
    warnings_.clear();
    auto cache = Open();
    ASSERT_OK(Store(*cache, Block(1), "p"));
    ASSERT_EQ(::truncate(PathOf(Block(1)).c_str(), size), 0);
    ASSERT_OK(Store(*cache, Block(1), "p")) << size;
    EXPECT_THAT(warnings_, Contains(HasSubstr(PathOf(Block(1))))) << size;
    EXPECT_TRUE(Holds(*cache, Block(1))) << size;
    ASSERT_OK(cache->Recount(ctx_));
    EXPECT_EQ(cache->Status()[0].pinned_bytes, kBlock + 4096u) << size;
    EXPECT_EQ(cache->Usage().blocks, 1u) << size;
  }
  // What cannot be replaced is no sign of a full cache.
  auto cache = Open();
  fs::create_directories(PathOf(Block(2)) + "/in the way");
  EXPECT_CODE(Store(*cache, Block(2), "p"), Code::kAlreadyExists);
  EXPECT_TRUE(cache->Status()[0].usable);
}

TEST_F(DiskCacheFault, FilesWithoutChecksumsAreServed) {
  options_.checksum = ChecksumLevel::kNone;
  ASSERT_TRUE(Put(*Open(), Block(1)));
  EXPECT_EQ(fs::file_size(PathOf(Block(1))), kBlock);
  options_.checksum = ChecksumLevel::kExtend;
  EXPECT_TRUE(Holds(*Open(), Block(1)));
}

TEST_F(DiskCacheFault, ADamagedRangeIsAMiss) {
  auto cache = Open();
  const BlockId block = Block(1);
  const auto content = Content(block);
  ASSERT_OK(cache->StoreRange(ctx_, block, 0, AsBytes(content).first(16'384), "p"));
  Overwrite(PartPathOf(block), 5000, "XXXX");
  EXPECT_EQ(Read(*cache, block, 0, 100), content.substr(0, 100));
  EXPECT_EQ(Read(*cache, block, 4096, 100), "miss");
  EXPECT_FALSE(fs::exists(PartPathOf(block)));
  EXPECT_EQ(cache->Status()[0].part_blocks, 0u);
  // Not a file of ranges at all.
  ASSERT_OK(WriteFileAtomic(PartPathOf(block), "nonsense"));
  EXPECT_EQ(Read(*cache, block, 0, 100), "miss");
  EXPECT_FALSE(fs::exists(PartPathOf(block)));
}

TEST_F(DiskCacheFault, RangesThatCannotBeReadAreAWarningAMetricAndAMiss) {
  for (const bool direct : {false, true}) {
    options_.direct_reads = direct;
    auto cache = Open();
    const BlockId block = Block(1);
    const auto content = Content(block);
    ASSERT_OK(cache->StoreRange(ctx_, block, 0, AsBytes(content).first(16'384), "p"));
    EXPECT_EQ(Read(*cache, block, 0, 100), content.substr(0, 100));
    const UniqueFd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
    const auto open = OpenedAs(PartPathOf(block));
    EXPECT_FALSE(open.empty());
    for (const int fd : open) ASSERT_GE(::dup3(memory.get(), fd, O_CLOEXEC), 0);
    const double errors = Metric("paddleop_cache_disk_errors_total");
    warnings_.clear();
    EXPECT_EQ(Read(*cache, block, 4096, 100), "miss");
    EXPECT_EQ(Metric("paddleop_cache_disk_errors_total"), errors + 1);
    EXPECT_THAT(warnings_, Contains(HasSubstr(PartPathOf(block))));
    EXPECT_FALSE(fs::exists(PartPathOf(block))) << "it can be kept again";
    EXPECT_TRUE(cache->Status()[0].usable);
  }
}

TEST_F(DiskCacheFault, RangesThatOthersRemovedAreClosed) {
  auto cache = Open();
  const auto content = Content(Block(1));
  ASSERT_OK(cache->StoreRange(ctx_, Block(1), 0, AsBytes(content).first(8192), "p"));
  EXPECT_EQ(Read(*cache, Block(1), 0, 100), content.substr(0, 100));
  Open()->Remove(Block(1));  // as another process would
  const std::string removed = PartPathOf(Block(1)) + " (deleted)";
  EXPECT_FALSE(OpenedAs(removed).empty());
  for (int i = 0; i < 1000 && !OpenedAs(removed).empty(); ++i) {
    clock_.Advance(std::chrono::seconds(1));
    ::usleep(10'000);
  }
  EXPECT_TRUE(OpenedAs(removed).empty()) << "otherwise the disk keeps the space";
}

TEST_F(DiskCacheFault, TroubleWithOpeningRangesIsCalledByItsName) {
  auto cache = Open();
  const auto content = Content(Block(1));
  ASSERT_OK(cache->StoreRange(ctx_, Block(1), 0, AsBytes(content).first(8192), "p"));
  const std::string path = PartPathOf(Block(1));
  // A process that has too many files open has no bad disk. Of the file alone, since sanitizers
  // need descriptors of their own for more.
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto opened = cache::PartFile::Open(path, kBlock, false);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(opened.file, nullptr);
  EXPECT_EQ(opened.error, EMFILE);
  // The warning says what it was.
  fs::remove(path);
  fs::create_symlink(path, path);
  EXPECT_EQ(Read(*cache, Block(1), 0, 100), "miss");
  EXPECT_THAT(warnings_, Contains(HasSubstr("symbolic link")));
}

// Wrong rights are set on files one by one; of the disk they say nothing.
TEST_F(DiskCacheFault, FilesThatWeMayNotReadAreMissesAndTheDirectoryStays) {
  fs::permissions(dir_->path(), fs::perms(0755));
  options_.file_mode = 0644;
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(Put(*cache, Block(i)));
    fs::permissions(PathOf(Block(i)), fs::perms(0));
    ASSERT_OK(cache->StoreRange(ctx_, Block(10 + i), 0, AsBytes(Content(Block(10 + i))), ""));
  }
  fs::permissions(PartPathOf(Block(12)), fs::perms(0));
  clock_.WaitForSleepers(2);
  constexpr uid_t kOther = 65'534;
  ::setfsuid(kOther);  // of this thread
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(Read(*cache, Block(i), 0, 100), "miss") << i;
    EXPECT_EQ(Read(*cache, Block(i), 0, 100), "miss") << i;
  }
  EXPECT_EQ(Read(*cache, Block(11), 0, 100), Content(Block(11)).substr(0, 100))
      << "readers need not be allowed to write";
  EXPECT_EQ(Read(*cache, Block(12), 0, 100), "miss");
  ::setfsuid(0);
  EXPECT_TRUE(cache->Status()[0].usable);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_THAT(warnings_, Contains(HasSubstr(PathOf(Block(i)))));
    EXPECT_TRUE(fs::exists(PathOf(Block(i)))) << "others may be allowed to read it";
  }
  EXPECT_THAT(warnings_, Contains(HasSubstr(PartPathOf(Block(12)))));
  EXPECT_THAT(warnings_, SizeIs(6)) << "each file is told of once";
}

TEST_F(DiskCacheFault, RangesThatWeMayNotChangeAreReplacedIfThatIsAllowed) {
  fs::permissions(dir_->path(), fs::perms(0755));
  options_.file_mode = 0644;
  auto cache = Open();
  const auto content = Content(Block(1));
  const auto store = [&](std::uint32_t offset) {
    return cache->StoreRange(ctx_, Block(1), offset, AsBytes(content).subspan(offset, 4096), "");
  };
  ASSERT_OK(store(0));
  clock_.WaitForSleepers(2);
  ::setfsuid(65'534);  // of this thread
  EXPECT_CODE(store(8192), Code::kAlreadyExists);
  EXPECT_EQ(Read(*cache, Block(1), 0, 100), content.substr(0, 100));
  ::setfsuid(0);
  EXPECT_TRUE(cache->Status()[0].usable);
  EXPECT_THAT(warnings_, Contains(HasSubstr(PartPathOf(Block(1)))));
  fs::permissions(fs::path(PartPathOf(Block(1))).parent_path(), fs::perms(0777));
  ::setfsuid(65'534);
  EXPECT_OK(store(8192));
  EXPECT_EQ(Read(*cache, Block(1), 9000, 100), content.substr(9000, 100));
  ::setfsuid(0);
  EXPECT_EQ(cache->Status()[0].part_blocks, 1u);
}

TEST_F(DiskCacheFault, NamesThatNobodyCanOpenAreOutOfTheWay) {
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 4; ++i) {
    const std::string path = i % 2 == 0 ? PartPathOf(Block(i)) : PathOf(Block(i));
    ASSERT_OK(MakeDirectories(fs::path(path).parent_path()));
    if (i <= 2) {
      fs::create_symlink(path, path);
    } else {
      sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
      const UniqueFd folder(::open(fs::path(path).parent_path().c_str(), O_PATH | O_CLOEXEC));
      fmt::format_to_n(address.sun_path, sizeof address.sun_path, "/proc/self/fd/{}/{}",
                       folder.get(), fs::path(path).filename().string());
      const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0)
          << std::strerror(errno);
    }
    EXPECT_EQ(Read(*cache, Block(i), 0, 100), "miss");
    EXPECT_TRUE(cache->Status()[0].usable) << i;
    EXPECT_THAT(warnings_, Contains(HasSubstr(path)));
    EXPECT_FALSE(fs::exists(fs::symlink_status(path))) << i;
  }
  // Nor do they keep blocks out.
  fs::create_symlink(PathOf(Block(1)), PathOf(Block(1)));
  ASSERT_OK(Store(*cache, Block(1), "p"));
  EXPECT_TRUE(Holds(*cache, Block(1)));
  fs::create_symlink(PartPathOf(Block(2)), PartPathOf(Block(2)));
  const auto content = Content(Block(2));
  ASSERT_OK(cache->StoreRange(ctx_, Block(2), 0, AsBytes(content).first(8192), "p"));
  EXPECT_EQ(Read(*cache, Block(2), 0, 100), content.substr(0, 100));
  EXPECT_TRUE(cache->Status()[0].usable);
}

TEST_F(DiskCacheFault, WhatAnInterruptedClearLeavesIsRemovedLater) {
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_OK(Store(*cache, Block(i), "p"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_CODE(cache->ClearAll(ctx_.WithStop(stop.get_token())), Code::kCancelled);
  EXPECT_FALSE(cache->Contains(Block(1)));
  EXPECT_EQ(cache->Usage().bytes, 0u);
  for (int i = 0; i < 1000 && !fs::is_empty(Root() + "/.samplefs.tmp"); ++i) {
    clock_.Advance(std::chrono::seconds(1));
    ::usleep(10'000);
  }
  EXPECT_TRUE(fs::is_empty(Root() + "/.samplefs.tmp"));
  // Who has no upkeep clears what was left, too.
  cache.reset();
  options_.recount_interval = std::chrono::seconds(0);
  cache = Open();
  ASSERT_OK(Store(*cache, Block(1), "p"));
  EXPECT_CODE(cache->ClearAll(ctx_.WithStop(stop.get_token())), Code::kCancelled);
  EXPECT_FALSE(fs::is_empty(Root() + "/.samplefs.tmp"));
  ASSERT_OK(cache->ClearAll(ctx_));
  EXPECT_TRUE(fs::is_empty(Root() + "/.samplefs.tmp"));
}

TEST_F(DiskCacheFault, AnotherVolumesDirectoryIsLeftAloneAndItsPathIsSaid) {
  ASSERT_TRUE(Put(*Open(), Block(1)));
  const auto expect_left_alone = [&](const DiskCacheOptions& options, const std::string& path) {
    const double errors = Metric("paddleop_cache_disk_errors_total");
    auto cache = DiskCache::Open(ctx_, options, log_, metrics_);
    ASSERT_OK(cache);
    EXPECT_FALSE((*cache)->Status()[0].usable);
    EXPECT_THAT((*cache)->Status()[0].problem, HasSubstr(path));
    EXPECT_EQ(Metric("paddleop_cache_directories_out"), 1);
    EXPECT_GT(Metric("paddleop_cache_disk_errors_total"), errors);
    EXPECT_EQ(Read(**cache, Block(1), 0, 10), "miss");
    EXPECT_FALSE(Put(**cache, Block(2)));
    EXPECT_CODE(Store(**cache, Block(2), "plan"), Code::kUnavailable);
  };
  auto inside = options_;
  inside.directories[0].path = Root();
  expect_left_alone(inside, Root());
  EXPECT_FALSE(fs::exists(Root() + "/" + kUuid)) << "nothing is made there";
  // A directory that was copied under another volume's name.
  auto other = options_;
  other.uuid = "0123abcd-0000-4000-8000-000000000002";
  fs::rename(Root(), dir_->File("cache/") + other.uuid);
  expect_left_alone(other, kUuid);
}

TEST_F(DiskCacheFault, ADirectoryThatCannotBeUsedIsLeftOutAndComesBack) {
  options_.directories.push_back({.path = dir_->File("blocked"), .free_space_ratio = 0});
  ASSERT_OK(WriteFileAtomic(dir_->File("blocked"), "a file is in the way"));
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 20; ++i) EXPECT_TRUE(Put(*cache, Block(i, 100)));
  EXPECT_FALSE(cache->Status()[1].usable);
  EXPECT_THAT(cache->Status()[1].problem, HasSubstr("blocked"));
  EXPECT_EQ(Metric("paddleop_cache_directories_out"), 1);
  fs::remove(dir_->File("blocked"));
  // The upkeep threads sleep on the manual clock.
  for (int i = 0; i < 1000 && !cache->Status()[1].usable; ++i) {
    clock_.Advance(std::chrono::seconds(3));
    ::usleep(10'000);
  }
  EXPECT_TRUE(cache->Status()[1].usable);
  EXPECT_EQ(Metric("paddleop_cache_directories_out"), 0);
  for (std::uint64_t i = 21; i <= 40; ++i) EXPECT_TRUE(Put(*cache, Block(i, 100)));
  EXPECT_GT(cache->Status()[1].blocks, 0u);
}

TEST_F(DiskCacheFault, NobodyWaitsForAPipeInPlaceOfABlock) {
  for (const bool direct : {false, true}) {
    options_.direct_reads = direct;
    ASSERT_TRUE(Put(*Open(), Block(1)));
    ASSERT_EQ(::unlink(PathOf(Block(1)).c_str()), 0);
    ASSERT_EQ(::mkfifo(PathOf(Block(1)).c_str(), 0600), 0);
    EXPECT_EQ(Read(*Open(), Block(1), 0, 10), "miss");
    EXPECT_FALSE(fs::exists(PathOf(Block(1)))) << "it is out of the way";
  }
}

TEST_F(DiskCacheFault, ADirectoryThatFailsUnderUsIsAMiss) {
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  // In one step: a directory that is missing is made anew.
  const auto exchange = [&] {
    return ::renameat2(AT_FDCWD, dir_->File("cache").c_str(), AT_FDCWD, dir_->File("away").c_str(),
                       RENAME_EXCHANGE);
  };
  ASSERT_OK(WriteFileAtomic(dir_->File("away"), "not a directory"));
  ASSERT_EQ(exchange(), 0) << std::strerror(errno);
  EXPECT_FALSE(Put(*cache, Block(2)));
  EXPECT_EQ(Read(*cache, Block(3), 0, 10), "miss");
  EXPECT_FALSE(cache->Status()[0].usable);
  ASSERT_EQ(exchange(), 0) << std::strerror(errno);
  for (int i = 0; i < 1000 && !cache->Status()[0].usable; ++i) {
    clock_.Advance(std::chrono::seconds(3));
    ::usleep(10'000);
  }
  EXPECT_TRUE(Holds(*cache, Block(1)));
  EXPECT_TRUE(Put(*cache, Block(2)));
}

// Touching a mapped page that is not there, or whose disk has failed, would kill the process.
TEST_F(DiskCacheFault, CountersThatAreCutOffKillNobody) {
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  auto other = Open();
  ASSERT_EQ(::truncate((Root() + "/.samplefs.counters").c_str(), 0), 0);
  EXPECT_TRUE(Holds(*cache, Block(1)));
  EXPECT_TRUE(Put(*cache, Block(2)));
  EXPECT_TRUE(Holds(*other, Block(2)));
  // They are made and counted anew, for all to see.
  for (int i = 0; i < 1000 && (cache->Usage().blocks != 2 || other->Usage().blocks != 2); ++i) {
    clock_.Advance(std::chrono::seconds(3));
    ::usleep(10'000);
  }
  EXPECT_EQ(cache->Usage().blocks, 2u);
  ASSERT_TRUE(Put(*other, Block(3)));
  EXPECT_EQ(cache->Usage().blocks, 3u);
}

TEST_F(DiskCacheFault, AFullDiskRefusesAndGoesOnServing) {
  const std::string disk = dir_->File("disk");
  ASSERT_OK(MakeDirectories(disk));
  ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m"), 0)
      << "needs the right to mount: " << std::strerror(errno);
  options_.directories = {{.path = disk, .free_space_ratio = 0}};
  {
    auto cache = Open();
    std::uint64_t kept = 0;
    for (std::uint64_t i = 1; i <= 20; ++i) kept += Put(*cache, Block(i)) ? 1 : 0;
    EXPECT_GT(kept, 4u);
    EXPECT_LT(kept, 8u);
    for (std::uint64_t i = 1; i <= kept; ++i) EXPECT_TRUE(Holds(*cache, Block(i)));
    // Somebody else takes the rest: writing then fails half-way.
    const std::string filler(1 << 20, 'x');
    std::ignore = WriteFileAtomic(disk + "/filler", filler);
    EXPECT_FALSE(Put(*cache, Block(50)));
    EXPECT_FALSE(cache->Contains(Block(50)));
    EXPECT_TRUE(Holds(*cache, Block(1)));
    ASSERT_OK(cache->ClearAll(ctx_));
    clock_.Advance(std::chrono::seconds(10));
    EXPECT_TRUE(Put(*cache, Block(50)));
  }
  // A disk without room for even the counters still serves.
  {
    auto cache = Open();
    ASSERT_TRUE(Holds(*cache, Block(50)));
  }
  fs::remove(disk + "/" + kUuid + "/.samplefs.counters");
  std::ignore = WriteFileAtomic(disk + "/filler2", std::string(16 << 20, 'x'));
  for (int i = 0; WriteFileAtomic(disk + "/f" + std::to_string(i), std::string(4096, 'x')); ++i) {
  }
  {
    auto cache = Open();
    EXPECT_TRUE(Holds(*cache, Block(50)));
  }
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(DiskCacheFault, TheFreeSpaceOfTheDiskIsLeftToOthers) {
  const std::string disk = dir_->File("disk");
  ASSERT_OK(MakeDirectories(disk));
  ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=4m"), 0);
  options_.directories = {{.path = disk, .free_space_ratio = 0.5}};
  {
    auto cache = Open();
    for (std::uint64_t i = 1; i <= 20; ++i) std::ignore = Put(*cache, Block(i));
    EXPECT_LE(cache->Usage().bytes, 2u << 20);
    EXPECT_GT(cache->Usage().bytes, 1u << 20);
    // Others use more: blocks go until half of the disk is free again.
    ASSERT_OK(WriteFileAtomic(disk + "/other", std::string(1 << 20, 'x')));
    for (int i = 0; i < 1000 && cache->Usage().bytes > 1u << 20; ++i) {
      clock_.Advance(std::chrono::seconds(10));
      ::usleep(10'000);
    }
    EXPECT_LE(cache->Usage().bytes, 1u << 20);
    EXPECT_GE(cache->Usage().bytes, 2u * kBlock) << "no more goes than has to, and a little";
  }
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(DiskCacheFault, AProcessKilledInTheMiddleLeavesARightCache) {
  options_.clock = &Clock::System();
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      options_.recount_interval = std::chrono::seconds(0);  // no threads in the child
      auto cache = DiskCache::Open(ctx_, options_, log_, metrics_);
      if (!cache) ::_exit(1);
      for (std::uint64_t i = 0;; ++i) {
        const BlockId block = Block(1 + i % 50);
        std::ignore = (*cache)->Store(ctx_, block, AsBytes(Content(block)), "p");
        if (i % 7 == 0) (*cache)->Remove(Block(1 + (i * 3) % 50));
        if (i % 31 == 0) std::ignore = (*cache)->Unpin(ctx_, "p");
      }
    }
    ::usleep(60'000 + 20'000 * static_cast<unsigned>(round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));

    auto cache = Open();
    while (cache->Status()[0].counted == std::chrono::system_clock::time_point()) ::usleep(1000);
    std::uint64_t blocks = 0;
    ASSERT_OK(cache->ForEachBlock(ctx_, [&](const BlockId& block, bool, bool) {
      ++blocks;
      EXPECT_TRUE(Holds(*cache, block));
    }));
    const auto counted = cache->Status()[0];
    EXPECT_EQ(counted.blocks, blocks);
    ASSERT_OK(cache->Recount(ctx_));
    EXPECT_EQ(cache->Status()[0].bytes, counted.bytes);
    EXPECT_TRUE(fs::is_empty(Root() + "/.samplefs.tmp"));
  }
  EXPECT_THAT(warnings_, SizeIs(0));
}

TEST_F(DiskCacheFault, CountersOfAProcessThatDiedBesideUsAreCorrected) {
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  auto dead = cache::SharedCounters::Open(Root() + "/.samplefs.counters", kUuid, [] {
    ADD_FAILURE() << "we are not alone";
    return Result<void>();
  });
  ASSERT_OK(dead);
  (**dead)->in_flight += 1;
  (**dead)->blocks += 5;
  (**dead)->bytes += 5000;
  dead->reset();
  for (int i = 0; i < 1000 && cache->Usage().blocks != 1; ++i) {
    clock_.Advance(std::chrono::seconds(2));
    ::usleep(10'000);
  }
  EXPECT_EQ(cache->Usage().blocks, 1u);
  EXPECT_EQ(cache->Usage().bytes, kBlock + 4096u);
}

}  // namespace
}  // namespace paddleop::volume
