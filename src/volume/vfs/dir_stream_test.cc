#include "volume/vfs/dir_stream.h"

#include <gtest/gtest.h>

#include <map>

#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/format/setting.h"

namespace paddleop::volume {
namespace {

const Context kCtx = Context::Background().WithTimeout(std::chrono::minutes(2));

class DirStreamTest : public ::testing::Test {
 protected:
  DirStreamTest() : dir_(*TempDir::Create()), log_(LogLevel::kOff) {
    meta_ = *OpenMetaStore(kCtx, "sqlite3://" + dir_.File("m.db"), {.log = &log_});
    Setting setting;
    setting.name = "test";
    setting.uuid = "00000000-0000-0000-0000-000000000001";
    setting.storage = "file";
    setting.bucket = dir_.path() + "/";
    EXPECT_OK(meta_->Format(kCtx, setting, false));
    EXPECT_OK(meta_->Load(kCtx));
  }

  void Make(const std::string& name) {
    ASSERT_OK(meta_->Mknod(kCtx, Caller{}, kRootIno, name, FileType::kFile, 0644, 0));
  }

  TempDir dir_;
  Logger log_;
  std::unique_ptr<MetaStore> meta_;
  std::atomic<std::uint64_t> changes_{0};
};

TEST_F(DirStreamTest, GivesEveryEntryOnceWhileOthersComeAndGo) {
  for (int i = 0; i < 2'500; ++i) Make(fmt::format("f{:05}", i));
  DirStream stream(*meta_, Caller{}, kRootIno, changes_);
  std::map<std::string, int> seen;
  std::uint64_t offset = 0;
  for (int round = 0;; ++round) {
    int room = 100;
    const std::uint64_t before = offset;
    ASSERT_OK(stream.Read(kCtx, offset, false, [&](const DirEntry& entry, std::uint64_t next) {
      if (room-- == 0) return false;
      ++seen[entry.name];
      offset = next;
      return true;
    }));
    if (offset == before) break;
    Make(fmt::format("new{:05}", round));
    ASSERT_OK(meta_->Unlink(kCtx, Caller{}, kRootIno, fmt::format("f{:05}", round)));
  }
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name;
  for (int i = 100; i < 2'500; ++i) EXPECT_EQ(seen.count(fmt::format("f{:05}", i)), 1u) << i;
  EXPECT_EQ(seen.count("."), 1u);
  EXPECT_EQ(seen.count(".."), 1u);
}

TEST_F(DirStreamTest, AnOffsetCanBeReadAgainAndZeroBeginsAfresh) {
  for (int i = 0; i < 5; ++i) Make(fmt::format("f{}", i));
  DirStream stream(*meta_, Caller{}, kRootIno, changes_);
  std::vector<std::string> names;
  std::vector<bool> with;
  const auto all = [&](const DirEntry& entry, std::uint64_t) {
    names.push_back(entry.name);
    with.push_back(entry.attr.has_value());
    return true;
  };
  ASSERT_OK(stream.Read(kCtx, 0, true, all));
  EXPECT_EQ(names, (std::vector<std::string>{".", "..", "f0", "f1", "f2", "f3", "f4"}));
  EXPECT_EQ(with, (std::vector<bool>{false, false, true, true, true, true, true}));
  names.clear();
  ASSERT_OK(stream.Read(kCtx, 4, true, all));
  EXPECT_EQ(names, (std::vector<std::string>{"f2", "f3", "f4"}));
  Make("f9");
  names.clear();
  ASSERT_OK(stream.Read(kCtx, 7, true, all));
  EXPECT_TRUE(names.empty()) << "the listing had ended";
  ASSERT_OK(stream.Read(kCtx, 0, true, all));
  EXPECT_EQ(names.size(), 8u);
}

TEST_F(DirStreamTest, AttributesFromBeforeAChangeAreNotGiven) {
  for (int i = 0; i < 5; ++i) Make(fmt::format("f{}", i));
  DirStream stream(*meta_, Caller{}, kRootIno, changes_);
  std::vector<bool> with;
  const auto read = [&](std::uint64_t offset, std::size_t most) {
    with.clear();
    ASSERT_OK(stream.Read(kCtx, offset, true, [&](const DirEntry& entry, std::uint64_t) {
      if (with.size() == most) return false;
      with.push_back(entry.attr.has_value());
      return true;
    }));
  };
  read(0, 3);
  EXPECT_EQ(with, (std::vector<bool>{false, false, true}));
  ++changes_;
  read(3, 10);
  EXPECT_EQ(with, (std::vector<bool>{false, false, false, false})) << "the kernel asks for each";
  read(0, 10);
  EXPECT_EQ(with, (std::vector<bool>{false, false, true, true, true, true, true}));
}

TEST_F(DirStreamTest, AFileCannotBeListed) {
  Make("f");
  auto entry = meta_->Lookup(kCtx, Caller{}, kRootIno, "f");
  ASSERT_OK(entry);
  DirStream stream(*meta_, Caller{}, entry->ino, changes_);
  EXPECT_CODE(stream.Read(kCtx, 0, false, [](const DirEntry&, std::uint64_t) { return true; }),
              Code::kNotDirectory);
}

}  // namespace
}  // namespace paddleop::volume
