#include "volume/vfs/data_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <random>
#include <set>
#include <thread>

#include "volume/cache/metrics.h"
#include "volume/cache/testing/held_access.h"
#include "volume/vfs/metrics.h"
#include "volume/vfs/testing/data_set_fixture.h"

namespace paddleop::volume {
namespace {

using namespace std::chrono_literals;
using object::testing::Fault;
using object::testing::Op;

struct Recorder final : ChangeListener {
  void OnEntryChanged(Ino parent, std::string_view name) override {
    entries.insert(fmt::format("{}/{}", ToInt(parent), name));
    order.push_back(fmt::format("names of {}", ToInt(parent)));
  }
  void OnInodeChanged(Ino ino) override {
    inodes.insert(ToInt(ino));
    order.push_back(fmt::format("inode {}", ToInt(ino)));
  }
  // When it was told so first.
  std::ptrdiff_t When(const std::string& what) const {
    return std::ranges::find(order, what) - order.begin();
  }
  std::set<std::string> entries;
  std::set<std::uint64_t> inodes;
  std::vector<std::string> order;
};

TEST_F(DataSetTest, ReadsCachedBlocksAndCountsThem) {
  OpenDisk();
  Import(2, 20, 3'000);
  const std::string big = Content("big", 3 * kBlock);
  Write("big", big);
  const DataSetOptions options{.recent_bytes = 0, .prefetch = false};
  Open(options);
  const auto all = [&] {
    for (const char* name : {"p000-000", "p001-000"})
      EXPECT_EQ(*Read(Find(name), 0, 3'000), Content(name, 3'000));
    EXPECT_EQ(*Read(Find("big"), 0, big.size()), big) << "of several blocks";
  };
  all();
  Open(options);  // the one before has brought everything to the disk when it ends
  ASSERT_EQ(disk_->Usage().blocks, 5U);
  const auto& hits = metrics_.AddCounter(cache_metrics::kHits, "", {{"tier", "disk"}});
  const auto& bytes = metrics_.AddCounter(cache_metrics::kHitBytes, "", {{"tier", "disk"}});
  const double hits_before = hits.Value(), bytes_before = bytes.Value();
  all();
  EXPECT_EQ(hits.Value() - hits_before, 5);
  EXPECT_EQ(bytes.Value() - bytes_before, 6'000 + big.size());
}

TEST_F(DataSetTest, ADiskThatHangsKeepsNobodyFromTheStore) {
  OpenDisk();
  Import(20, 20, 3'000);
  DataSetOptions options{.recent_bytes = 0, .prefetch = false};
  Open(options);
  for (int p = 0; p < 20; ++p) ASSERT_OK(Read(Find(fmt::format("p{:03}-000", p)), 0, 3'000));
  // What waits to be put there when it stops is not.
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (disk_->Usage().blocks < 20U) {
    ASSERT_LT(std::chrono::steady_clock::now(), until);
    std::this_thread::sleep_for(5ms);
  }
  set_->Stop();
  testing::HeldAccess held;
  // Nothing that is there opens any more.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.File("cache"))) {
    if (entry.is_regular_file() && entry.path().string().contains("/raw/"))
      held.Watch(entry.path().string(), FAN_OPEN_PERM);
  }
  OpenDisk();
  options.disk_patience = 300ms;
  Open(options);
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 2; ++round) {
    for (int p = 0; p < 20; ++p) {
      const std::string name = fmt::format("p{:03}-{:03}", p, round + 1);
      auto content = Read(Find(name), 0, 3'000);
      ASSERT_OK(content);
      EXPECT_EQ(*content, Content(name, 3'000));
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s) << "a thread hangs once";
  EXPECT_GT(metrics_.AddCounter(kReadsGivenUp, "").Value(), 0);
}

TEST_F(DataSetTest, WhatWasRemovedIsReadPastADiskThatHangs) {
  const std::string content = Content("gone", kBlock + kBlock / 2);
  const Ino gone = Write("gone", content);
  ASSERT_OK(vfs_->SetAttr(kCtx, {}, gone, {.length = content.size() + 1000}));
  vfs_.reset();
  OpenDisk();
  blocks_ = std::make_unique<BlockStore>(BlockStoreOptions{.layout = {.block_size = kBlock}},
                                         objects_, disk_.get(), log_);
  DataSetOptions options{.fetch_threads = 1,
                         .recent_bytes = 0,
                         .io_timeout = 20s,
                         .disk_patience = 1s,
                         .prefetch = false};
  Open(options);
  ASSERT_OK(Read(gone, 0, content.size()));
  set_->Stop();
  ASSERT_EQ(disk_->Usage().blocks, 2U);
  ASSERT_OK(meta_->Unlink(kCtx, Caller{}, kRootIno, "gone"));
  Import(1, 1, 3'000);
  set_.reset();
  OpenDisk();
  blocks_ = std::make_unique<BlockStore>(BlockStoreOptions{.layout = {.block_size = kBlock}},
                                         objects_, disk_.get(), log_);
  Open(options);
  std::future<Result<std::string>> removed;
  {
    testing::HeldAccess held;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.File("cache"))) {
      if (entry.is_regular_file() && entry.path().string().contains("/raw/"))
        held.Watch(entry.path().string(), FAN_OPEN_PERM);
    }
    removed = std::async(std::launch::async, [&] { return Read(gone, 0, 2 * kBlock); });
    EXPECT_TRUE(held.WaitForOne());
    EXPECT_OK(Read(Find("p000-000"), 0, 3'000)) << "the thread that fetches is free";
    EXPECT_EQ(removed.wait_for(20s), std::future_status::ready) << "it waits for the disk";
  }
  auto read = removed.get();
  ASSERT_OK(read);
  EXPECT_TRUE(*read == content + std::string(1000, '\0'));
}

TEST_F(DataSetTest, BlocksOnTheDiskLeaveMemoryWhenNobodyReadsThem) {
  OpenDisk();
  Import(2, 20, 3'000);
  Open({.recent_bytes = 10 * kBlock, .prefetch = false});
  const auto from = [&](const char* tier) {
    return metrics_.AddCounter("paddleop_dataset_reads_total", "", {{"tier", tier}}).Value();
  };
  ASSERT_OK(Read(Find("p000-000"), 0, 3'000));
  ASSERT_OK(Read(Find("p000-001"), 0, 3'000));
  EXPECT_EQ(from("store") + from("memory"), 2);
  const auto until = std::chrono::steady_clock::now() + 40s;
  while (from("disk") == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(300ms);  // each read is a reason to stay for a while
    ASSERT_OK(Read(Find("p000-002"), 0, 3'000));
  }
  EXPECT_GT(from("disk"), 0);
  EXPECT_EQ(from("store"), 1);
}

TEST_F(DataSetTest, ReadsPackedFilesWithFewRequests) {
  Import(10, 20, 3'000);
  Open({.recent_bytes = 10 * kBlock});
  std::vector<std::pair<int, int>> order;
  for (int p = 0; p < 10; ++p) {
    for (int i = 0; i < 20; ++i) order.emplace_back(p, i);
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (const auto& [p, i] : order) {
    const std::string name = fmt::format("p{:03}-{:03}", p, i);
    auto content = Read(Find(name), 0, 10'000);
    ASSERT_OK(content);
    EXPECT_EQ(*content, Content(name, 3'000));
  }
  set_->Stop();
  const auto status = set_->Status();
  EXPECT_EQ(status.inodes, 201u);
  EXPECT_GT(status.prefetched, 0u) << "the packs that follow are fetched ahead";
  EXPECT_EQ(status.prefetch_wasted, 0u);
}

TEST_F(DataSetTest, ReadsAnyPartOfAnyFile) {
  const std::string big = Content("big", 5 * kBlock + 777);
  const Ino big_ino = Write("big", big);
  const Ino sparse = Write("sparse", "head");
  auto opened = vfs_->Open(kCtx, Caller{}, sparse, {.read = true, .write = true});
  ASSERT_OK(opened);
  ASSERT_OK(vfs_->Write(kCtx, opened->handle, 3 * kBlock, AsBytes("tail")));
  ASSERT_OK(vfs_->Release(kCtx, opened->handle));
  const Ino empty = Write("empty", "");
  Open();
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const std::size_t offset = random() % (big.size() + 100), size = random() % (3 * kBlock);
    auto part = Read(big_ino, offset, size);
    ASSERT_OK(part);
    EXPECT_EQ(*part, offset >= big.size() ? "" : big.substr(offset, size)) << offset;
  }
  auto whole = Read(sparse, 0, 10 * kBlock);
  ASSERT_OK(whole);
  EXPECT_EQ(*whole, "head" + std::string(3 * kBlock - 4, '\0') + "tail");
  EXPECT_EQ(*Read(empty, 0, 100), "");
  EXPECT_CODE(Read(Ino{999'999}, 0, 1), Code::kExpired);
  EXPECT_CODE(Read(kRootIno, 0, 1), Code::kIsDirectory);
}

TEST_F(DataSetTest, ReadsAheadWithAnyLimit) {
  const std::string big = Content("big", 5 * kBlock + 777);
  const Ino ino = Write("big", big);
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{kBlock - 1},
                                    std::uint64_t{kBlock}, 3 * std::uint64_t{kBlock}}) {
    Open({.max_readahead = limit});
    const std::uint64_t before = set_->Status().prefetched;  // by the ones before it
    std::string read;
    while (read.size() < big.size()) {
      auto part = Read(ino, read.size(), 10'000);
      ASSERT_OK(part);
      ASSERT_FALSE(part->empty());
      read += *part;
    }
    EXPECT_EQ(read, big) << limit;
    set_->Stop();
    EXPECT_EQ(set_->Status().prefetched > before, limit > 0) << limit;
  }
}

TEST_F(DataSetTest, ManyReadersOfOneBlockCostOneRequest) {
  Import(1, 20, 3'000);
  Open();
  objects_.Inject(
      object::testing::Op::kGet,
      {.kind = object::testing::Fault::Kind::kSlow, .delay = std::chrono::milliseconds(100)}, 100);
  std::vector<std::promise<bool>> answers(20);
  for (int i = 0; i < 20; ++i) {
    const std::string name = fmt::format("p000-{:03}", i);
    set_->Read(Find(name), 0, 3'000, [&, i, name](Result<std::span<const std::byte>> bytes) {
      answers[static_cast<std::size_t>(i)].set_value(bytes &&
                                                     AsText(*bytes) == Content(name, 3'000));
    });
  }
  for (auto& answer : answers) EXPECT_TRUE(answer.get_future().get());
  EXPECT_EQ(objects_.calls(object::testing::Op::kGet), 1);
}

TEST_F(DataSetTest, ReplacedBlocksAreFoundThroughTheVolume) {
  const Ino ino = Write("f", "old content");
  Open();
  // Rewritten in place: the object that the view knows is gone.
  Write("f", "new content");
  ASSERT_OK(meta_->DrainDeletions(kCtx));
  const auto view = set_->view();
  const auto slices = view->Slices(view->Find(ino), 0);
  ASSERT_EQ(slices.size(), 1u);
  ASSERT_OK(blocks_->DeleteSlice(kCtx, {slices[0].id, slices[0].size}));
  auto content = Read(ino, 0, 100);
  ASSERT_OK(content);
  EXPECT_EQ(*content, "new content");
  // Gone for good.
  ASSERT_OK(meta_->Unlink(kCtx, Caller{}, kRootIno, "f", true));
  ASSERT_OK(meta_->DrainDeletions(kCtx));
  Open();
  EXPECT_CODE(Read(ino, 0, 100), Code::kExpired);
}

// Not as long as it would take to look at each of its chunks.
TEST_F(DataSetTest, ARefreshPassesOverTheHolesOfAFile) {
  const Ino ino = Write("sparse", "data");
  ASSERT_OK(vfs_->SetAttr(kCtx, {}, ino, {.length = kMaxFileSize}));
  Open();
  Recorder seen;
  Write("other", "data");
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_OK(set_->Refresh(kCtx, seen));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
  EXPECT_FALSE(seen.inodes.contains(ToInt(ino)));
}

TEST_F(DataSetTest, RefreshTellsExactlyWhatChanged) {
  const Ino same = Write("same", "1"), changed = Write("changed", "1"), gone = Write("gone", "1");
  const Ino replaced = Write("replaced", "1");
  Open();
  Recorder nothing;
  auto done = set_->Refresh(kCtx, nothing);
  ASSERT_OK(done);
  EXPECT_FALSE(done->changed);
  EXPECT_TRUE(nothing.entries.empty() && nothing.inodes.empty());
  EXPECT_FALSE(*set_->IsStale(kCtx));

  Write("changed", "22");
  ASSERT_OK(meta_->Unlink(kCtx, Caller{}, kRootIno, "gone"));
  Write("new", "1");
  Write("tmp", "x");
  ASSERT_OK(
      meta_->Rename(kCtx, Caller{}, kRootIno, "tmp", kRootIno, "replaced", RenameMode::kReplace));
  EXPECT_TRUE(*set_->IsStale(kCtx));
  Recorder seen;
  done = set_->Refresh(kCtx, seen);
  ASSERT_OK(done);
  EXPECT_TRUE(done->changed);
  EXPECT_EQ(seen.entries, (std::set<std::string>{"1/gone", "1/new", "1/replaced",
                                                 "1/" + std::string(kNobodysName)}));
  EXPECT_TRUE(seen.inodes.contains(ToInt(changed)));
  // Whoever has these open goes on with what the kernel knows, and what the volume still has.
  EXPECT_FALSE(seen.inodes.contains(ToInt(gone)));
  EXPECT_FALSE(seen.inodes.contains(ToInt(replaced)));
  EXPECT_EQ(*Read(gone, 0, 10), "1") << "from the trash";
  EXPECT_EQ(*Read(replaced, 0, 10), "1");
  EXPECT_EQ(*Read(replaced, 1, 10), "") << "its end";
  std::promise<Result<Attr>> attr;
  set_->GetAttr(gone, [&](Result<Attr> found) { attr.set_value(std::move(found)); });
  EXPECT_EQ(attr.get_future().get()->length, 1u);
  EXPECT_TRUE(seen.inodes.contains(1)) << "the listing of the root";
  EXPECT_FALSE(seen.inodes.contains(ToInt(same)));
  EXPECT_EQ(*Read(changed, 0, 10), "22");
  EXPECT_FALSE(*set_->IsStale(kCtx));
}

// Who has just been answered from the old state may not have told the kernel yet: it holds the
// directory's lock until then, and the kernel knows no inode to forget.
TEST_F(DataSetTest, TheDirectoriesOfWhatChangedAreSettledFirst) {
  const auto make = [&](Ino parent, const char* name) {
    return meta_->Mkdir(kCtx, Caller{}, parent, name, 0755)->ino;
  };
  const Ino a = make(kRootIno, "a"), b = make(kRootIno, "b"), quiet = make(kRootIno, "quiet");
  const Ino inner = make(a, "inner"), removed = make(kRootIno, "removed");
  const auto move = [&](Ino from, const char* old_name, Ino to, const char* name) {
    ASSERT_OK(meta_->Rename(kCtx, Caller{}, from, old_name, to, name, RenameMode::kReplace));
  };
  const Ino file = Write("f", "1"), leaves = Write("l", "1");
  move(kRootIno, "f", a, "f");
  ASSERT_OK(meta_->Link(kCtx, Caller{}, file, b, "second"));
  move(kRootIno, "l", removed, "l");
  Write("q", "1");
  move(kRootIno, "q", quiet, "q");
  Open();
  for (const Ino ino : {file, leaves})
    ASSERT_OK(meta_->SetAttr(kCtx, Caller{}, ino, AttrChange{.mode = 0600}));
  move(removed, "l", b, "l");
  ASSERT_OK(meta_->Rmdir(kCtx, Caller{}, kRootIno, "removed"));
  Write("n", "1");
  move(kRootIno, "n", inner, "n");

  Recorder seen;
  const auto done = set_->Refresh(kCtx, seen);
  ASSERT_OK(done);
  const auto settled_before = [&](Ino directory, Ino ino) {
    const auto inode = seen.When(fmt::format("inode {}", ToInt(ino)));
    EXPECT_LT(inode, std::ssize(seen.order)) << ToInt(ino);
    EXPECT_LT(seen.When(fmt::format("names of {}", ToInt(directory))), inode)
        << ToInt(directory) << " before " << ToInt(ino);
  };
  settled_before(a, file);
  settled_before(b, file);
  settled_before(removed, leaves);
  settled_before(b, leaves);
  settled_before(a, inner);
  settled_before(kRootIno, b);
  EXPECT_EQ(seen.When(fmt::format("names of {}", ToInt(quiet))), std::ssize(seen.order));
  // With the name of a directory the kernel would forget all that it knows below.
  EXPECT_FALSE(seen.entries.contains("1/a") || seen.entries.contains("1/b"));
  EXPECT_FALSE(seen.entries.contains(fmt::format("{}/inner", ToInt(a))));
  EXPECT_EQ(done->entries, 3u) << "b/l, inner/n and removed";
}

TEST_F(DataSetTest, AFileThatComesBackHasChanged) {
  const auto directory = meta_->Mkdir(kCtx, Caller{}, kRootIno, "set", 0755);
  ASSERT_OK(directory);
  const Ino file = Write("f", "1");
  const auto move = [&](Ino from, Ino to) {
    ASSERT_OK(meta_->Rename(kCtx, Caller{}, from, "f", to, "f", RenameMode::kReplace));
  };
  move(kRootIno, directory->ino);
  Open({.root = directory->ino});
  move(directory->ino, kRootIno);
  Recorder gone, back;
  ASSERT_OK(set_->Refresh(kCtx, gone));
  EXPECT_FALSE(gone.inodes.contains(ToInt(file))) << "who has it open reads on";
  Write("f", "22");
  move(kRootIno, directory->ino);
  ASSERT_OK(set_->Refresh(kCtx, back));
  EXPECT_TRUE(back.inodes.contains(ToInt(file))) << "the kernel may hold pages from before";
}

TEST_F(DataSetTest, PrefetchBacksOffWhenItIsWasted) {
  Import(60, 2, 30'000);
  // Room for two blocks: what is fetched ahead of random readers leaves unread.
  Open({.recent_bytes = 2 * kBlock});
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const std::string name = fmt::format("p{:03}-{:03}", random() % 60, random() % 2);
    ASSERT_EQ(*Read(Find(name), 0, 30'000), Content(name, 30'000));
  }
  const auto status = set_->Status();
  EXPECT_GT(status.prefetch_wasted, 0u);
  EXPECT_LT(status.prefetched, 200u) << "it was given up";
}

}  // namespace
}  // namespace paddleop::volume
