#include "volume/vfs/vfs.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "volume/vfs/testing/vfs_fixture.h"

namespace paddleop::volume::testing {
namespace {

using namespace std::chrono_literals;
using object::testing::Fault;
using object::testing::Op;

TEST_F(VfsTest, ReadsWhatWasWrittenBeforeAndAfterClosing) {
  const auto file = MustCreate("a");
  const std::string content(3 * kBlock + 17, 'x');
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(content)));
  EXPECT_EQ(ReadAll(vfs(), file.handle), content);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  auto again = vfs().Open(kCtx, {}, file.entry.ino, {.read = true});
  ASSERT_OK(again);
  EXPECT_EQ(again->entry.attr.length, content.size());
  EXPECT_EQ(ReadAll(vfs(), again->handle), content);
  EXPECT_CODE(vfs().Write(kCtx, again->handle, 0, AsBytes("x")), Code::kInvalid);
  ASSERT_OK(vfs().Release(kCtx, again->handle));
  EXPECT_CODE(vfs().Release(kCtx, again->handle), Code::kInvalid);
}

TEST_F(VfsTest, HolesAreZerosAndTruncationForgets) {
  const auto file = MustCreate("sparse");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 2 * kBlock, AsBytes("end")));
  EXPECT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->length, 2 * kBlock + 3)
      << "not yet committed, but ours";
  EXPECT_EQ(ReadAll(vfs(), file.handle), std::string(2 * kBlock, '\0') + "end");
  ASSERT_OK(vfs().SetAttr(kCtx, {}, file.entry.ino, {.length = 2 * kBlock + 1}));
  ASSERT_OK(vfs().SetAttr(kCtx, {}, file.entry.ino, {.length = 2 * kBlock + 3}));
  EXPECT_EQ(ReadAll(vfs(), file.handle),
            std::string(2 * kBlock, '\0') + "e" + std::string(2, '\0'));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AnotherClientSeesAFileOnceItIsClosed) {
  Client other(url_, objects_);
  other.Start({});
  const auto file = MustCreate("shared");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("one")));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  auto theirs = other.vfs->Open(kCtx, {}, file.entry.ino, {.read = true, .write = true});
  ASSERT_OK(theirs);
  EXPECT_EQ(ReadAll(*other.vfs, theirs->handle), "one");
  ASSERT_OK(other.vfs->Write(kCtx, theirs->handle, 0, AsBytes("two")));
  ASSERT_OK(other.vfs->Release(kCtx, theirs->handle));
  auto ours = vfs().Open(kCtx, {}, file.entry.ino, {.read = true});
  ASSERT_OK(ours);
  EXPECT_EQ(ReadAll(vfs(), ours->handle), "two");
  ASSERT_OK(vfs().Release(kCtx, ours->handle));
}

TEST_F(VfsTest, ARewriteThatSetsTheTimeBackIsSeen) {
  Client other(url_, objects_);
  other.Start({});
  const Timestamp past{.seconds = 1'600'000'000, .nanos = 7};
  const auto ours = MustCreate("same");
  ASSERT_OK(vfs().Write(kCtx, ours.handle, 0, AsBytes("one")));
  ASSERT_OK(vfs().SetAttr(kCtx, {}, ours.entry.ino, {.mtime = past}));
  const auto before = vfs().Open(kCtx, {}, ours.entry.ino, {.read = true});
  ASSERT_OK(before);
  EXPECT_EQ(ReadAll(vfs(), before->handle), "one");
  const auto theirs = other.vfs->Open(kCtx, {}, ours.entry.ino, {.read = true, .write = true});
  ASSERT_OK(theirs);
  ASSERT_OK(other.vfs->Write(kCtx, theirs->handle, 0, AsBytes("two")));
  ASSERT_OK(other.vfs->SetAttr(kCtx, {}, ours.entry.ino, {.mtime = past}));
  ASSERT_OK(other.vfs->Release(kCtx, theirs->handle));
  const auto again = vfs().Open(kCtx, {}, ours.entry.ino, {.read = true});
  ASSERT_OK(again);
  EXPECT_EQ(ReadAll(vfs(), again->handle), "two");
  for (const Handle handle : {ours.handle, before->handle, again->handle})
    ASSERT_OK(vfs().Release(kCtx, handle));
}

TEST_F(VfsTest, AnUnlinkedFileLivesUntilItsLastHandleCloses) {
  const auto file = MustCreate("gone");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("still here")));
  ASSERT_OK(vfs().Flush(kCtx, file.handle));
  ASSERT_OK(vfs().meta().Unlink(kCtx, {}, kRootIno, "gone"));
  EXPECT_EQ(ReadAll(vfs(), file.handle), "still here");
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  EXPECT_CODE(vfs().GetAttr(kCtx, file.entry.ino), Code::kNotFound);
  ASSERT_OK(vfs().meta().DrainDeletions(kCtx));
  auto left = object::ListEntries(objects_, kCtx, {.prefix = "chunks/"});
  ASSERT_OK(left);
  EXPECT_TRUE(left->empty()) << "the data goes with the last handle";
}

TEST_F(VfsTest, AppendersOfOneProcessDoNotOverwriteEachOther) {
  const auto file = MustCreate("log", {.read = true, .write = true, .append = true});
  std::vector<std::jthread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      const std::string line(100, static_cast<char>('a' + i));
      for (int n = 0; n < 50; ++n) EXPECT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(line)));
    });
  }
  writers.clear();
  const std::string all = ReadAll(vfs(), file.handle);
  ASSERT_EQ(all.size(), 4u * 50 * 100);
  for (std::size_t i = 0; i < all.size(); i += 100) {
    EXPECT_EQ(all.substr(i, 100), std::string(100, all[i])) << "a line is torn";
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AChangeOfTheModeDoesNotHideWhatIsBeingWritten) {
  const auto file = MustCreate("a");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(std::string(100, 'x'))));
  const auto changed = vfs().SetAttr(kCtx, {}, file.entry.ino, {.mode = 0600});
  ASSERT_OK(changed);
  // The kernel believes this length, and forgets what lies beyond.
  EXPECT_EQ(changed->length, 100u);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, DataThatIsGoneIsAnErrorNotZeros) {
  const auto file = MustCreate("lost");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  auto objects = object::ListEntries(objects_, kCtx, {.prefix = "chunks/"});
  for (const auto& object : *objects) ASSERT_OK(objects_.Delete(kCtx, object.key));
  Client other(url_, objects_);
  other.Start({});
  auto opened = other.vfs->Open(kCtx, {}, file.entry.ino, {.read = true});
  ASSERT_OK(opened);
  std::byte byte;
  EXPECT_CODE(other.vfs->Read(kCtx.WithTimeout(1s), opened->handle, 0, std::span(&byte, 1)),
              Code::kCorrupt);
  ASSERT_OK(other.vfs->Release(kCtx, opened->handle));
}

TEST_F(VfsTest, CreatingAFileAnewDropsWhatWasBeingWritten) {
  const auto first = MustCreate("f");
  ASSERT_OK(vfs().Write(kCtx, first.handle, 0, AsBytes("old")));
  const auto second =
      vfs().Create(kCtx, {}, kRootIno, "f", 0644, {.read = true, .write = true, .truncate = true},
                   /*exclusive=*/false);
  ASSERT_OK(second);
  EXPECT_EQ(second->entry.attr.length, 0u);
  EXPECT_EQ(ReadAll(vfs(), second->handle), "");
  for (const Handle handle : {first.handle, second->handle}) ASSERT_OK(vfs().Release(kCtx, handle));
}

TEST_F(VfsTest, OpeningAFileDoesNotSetAnAppenderBack) {
  const auto file = MustCreate("log", {.read = true, .write = true, .append = true});
  constexpr int kLines = 500;
  {
    std::vector<std::jthread> openers;
    for (int i = 0; i < 4; ++i) {
      openers.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          auto opened = vfs().Open(kCtx, {}, file.entry.ino, {.read = true});
          ASSERT_OK(opened);
          ASSERT_OK(vfs().Release(kCtx, opened->handle));
        }
      });
    }
    for (int i = 0; i < kLines; ++i) {
      ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("line")));
      ASSERT_OK(vfs().Flush(kCtx, file.handle));
    }
  }
  EXPECT_EQ(ReadAll(vfs(), file.handle).size(), 4u * kLines);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AnAppendDuringATruncationDoesNotLandBehindTheOldEnd) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("log");
  const Ino ino = file.entry.ino;
  const std::function<Result<void>()> cuts[] = {
      [&]() -> Result<void> {
        RETURN_IF_ERROR(vfs().SetAttr(kCtx, {}, ino, {.length = 0}));
        return {};
      },
      [&]() -> Result<void> {
        ASSIGN_OR_RETURN(const auto cut,
                         vfs().Open(kCtx, {}, ino, {.write = true, .truncate = true}));
        return vfs().Release(kCtx, cut.handle);
      },
  };
  for (const auto& cut : cuts) {
    ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("first")));
    uploads_->HoldPuts(true);
    const int before = objects_.calls(Op::kPut);
    std::jthread truncates([&] { EXPECT_OK(cut()); });
    while (objects_.calls(Op::kPut) == before && kCtx.Check()) std::this_thread::yield();
    ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("second")));
    uploads_->HoldPuts(false);
    truncates.join();
    ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("third")));
    EXPECT_EQ(ReadAll(vfs(), file.handle), "third");
    EXPECT_EQ(vfs().meta().GetAttr(kCtx, ino)->length, 5u);
    ASSERT_OK(vfs().SetAttr(kCtx, {}, ino, {.length = 0}));
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AppendersOfAFileThatIsCutLeaveNoHoles) {
  const Ino ino = MustCreate("log").entry.ino;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 100; ++n) {
          const auto log = vfs().Open(kCtx, {}, ino, {.write = true, .append = true});
          ASSERT_OK(log);
          ASSERT_OK(vfs().Append(kCtx, log->handle, AsBytes("line")));
          ASSERT_OK(vfs().Release(kCtx, log->handle));
        }
      });
    }
    for (int n = 0; n < 100; ++n) {
      ASSERT_OK(vfs().SetAttr(kCtx, {}, ino, {.length = 0}));
      const auto cut = vfs().Open(kCtx, {}, ino, {.write = true, .truncate = true});
      ASSERT_OK(cut);
      ASSERT_OK(vfs().Release(kCtx, cut->handle));
    }
  }
  const auto left = vfs().Open(kCtx, {}, ino, {.read = true});
  ASSERT_OK(left);
  const std::string all = ReadAll(vfs(), left->handle);
  EXPECT_EQ(all.size() % 4, 0u);
  EXPECT_EQ(all.find(char{0}), std::string::npos);
  ASSERT_OK(vfs().Release(kCtx, left->handle));
}

TEST_F(VfsTest, EmptyingAnEmptyFileChangesItsTimes) {
  const auto file = MustCreate("empty");
  const Timestamp past{.seconds = 1'600'000'000, .nanos = 7};
  ASSERT_OK(vfs().SetAttr(kCtx, {}, file.entry.ino, {.mtime = past}));
  const auto cut = vfs().Open(kCtx, {}, file.entry.ino, {.write = true, .truncate = true});
  ASSERT_OK(cut);
  EXPECT_NE(cut->entry.attr.mtime, past);
  EXPECT_EQ(cut->entry.attr.mtime, cut->entry.attr.ctime);
  EXPECT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->mtime, cut->entry.attr.mtime);
  for (const Handle handle : {file.handle, cut->handle}) ASSERT_OK(vfs().Release(kCtx, handle));
}

TEST_F(VfsTest, WhatIsFetchedAheadIsReadBeforeItLeavesMemory) {
  // Four times what the cache in memory holds, and nothing else keeps it.
  constexpr std::size_t kBlocks = 512, kPiece = 2 * kBlock, kReaders = 2;
  std::vector<OpenedFile> files;
  const std::string piece(kPiece, 'x');
  for (std::size_t i = 0; i < kReaders; ++i) {
    files.push_back(MustCreate("big" + std::to_string(i)));
    for (std::size_t at = 0; at < kBlocks * kBlock; at += kPiece)
      ASSERT_OK(vfs().Write(kCtx, files[i].handle, at, AsBytes(piece)));
    ASSERT_OK(vfs().Release(kCtx, files[i].handle));
  }
  Restart({});
  const int before = objects_.calls(Op::kGet);
  for (auto& file : files) {
    auto opened = vfs().Open(kCtx, {}, file.entry.ino, {.read = true});
    ASSERT_OK(opened);
    file = *opened;
  }
  std::string out(kPiece, '?');
  for (std::size_t at = 0; at < kBlocks * kBlock; at += kPiece) {
    for (const auto& file : files) {
      ASSERT_OK(vfs().Read(kCtx, file.handle, at, std::as_writable_bytes(std::span(out))));
      ASSERT_EQ(out, piece);
    }
  }
  for (const auto& file : files) ASSERT_OK(vfs().Release(kCtx, file.handle));
  // A block that arrives while it is looked for may be fetched twice.
  EXPECT_LE(objects_.calls(Op::kGet) - before, static_cast<int>(kReaders * kBlocks * 11 / 10));
}

// Random writes, truncations and reads, compared with a string.
TEST_F(VfsTest, BehavesLikeAStringOfBytes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto upto = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n)(random);
  };
  auto file = MustCreate("model");
  std::string model;
  for (int step = 0; step < 400; ++step) {
    const std::size_t offset = upto(model.size() + kBlock);
    switch (upto(9)) {
      case 0:
        ASSERT_OK(vfs().SetAttr(kCtx, {}, file.entry.ino, {.length = offset}));
        model.resize(offset, '\0');
        break;
      case 1:
        ASSERT_OK(vfs().Flush(kCtx, file.handle));
        break;
      case 2: {
        ASSERT_OK(vfs().Release(kCtx, file.handle));
        auto again = vfs().Open(kCtx, {}, file.entry.ino, {.read = true, .write = true});
        ASSERT_OK(again);
        file = *again;
        break;
      }
      case 3:
      case 4: {
        const std::size_t wanted = upto(2 * kBlock);
        std::string out(wanted, '?');
        auto n = vfs().Read(kCtx, file.handle, offset, std::as_writable_bytes(std::span(out)));
        ASSERT_OK(n);
        out.resize(*n);
        ASSERT_EQ(out, offset < model.size() ? model.substr(offset, wanted) : "");
        break;
      }
      case 5: {
        const std::size_t length = upto(kBlock);
        ASSERT_OK(vfs().Fallocate(kCtx, {}, file.entry.ino, FallocateMode::kPunchHole, offset,
                                  length + 1));
        for (std::size_t i = offset; i < std::min(model.size(), offset + length + 1); ++i)
          model[i] = '\0';
        break;
      }
      default: {
        const std::string data(1 + upto(3 * kBlock), static_cast<char>('a' + step % 26));
        ASSERT_OK(vfs().Write(kCtx, file.handle, offset, AsBytes(data)));
        if (model.size() < offset + data.size()) model.resize(offset + data.size(), '\0');
        model.replace(offset, data.size(), data);
      }
    }
    ASSERT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->length, model.size()) << "step " << step;
  }
  EXPECT_EQ(ReadAll(vfs(), file.handle), model);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

}  // namespace
}  // namespace paddleop::volume::testing
