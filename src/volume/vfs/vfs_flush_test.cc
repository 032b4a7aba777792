// What a file's writer, flushes and buffers do with data that is on its way to the store.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "base/testing/no_more_threads.h"
#include "volume/vfs/testing/vfs_fixture.h"

namespace paddleop::volume::testing {
namespace {

using namespace std::chrono_literals;
using object::testing::Fault;
using object::testing::Op;

template <class T>
Result<void> Outcome(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

TEST_F(VfsTest, ALostWriteIsReportedWhenTheFileIsClosed) {
  const auto file = MustCreate("bad");
  objects_.InjectRandomly(Op::kPut, {.kind = Fault::Kind::kUnavailable}, 1.0);
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  EXPECT_CODE(vfs().Release(kCtx, file.handle), Code::kUnavailable);
  EXPECT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->length, 0u) << "nothing half-written is visible";
}

TEST_F(VfsTest, ALostWriteIsReportedToItsWritersWhoeverNoticesItFirst) {
  const auto writer = MustCreate("bad");
  const auto second = vfs().Open(kCtx, {}, writer.entry.ino, {.read = false, .write = true});
  const auto reader = vfs().Open(kCtx, {}, writer.entry.ino, {.read = true});
  ASSERT_OK(second);
  ASSERT_OK(reader);
  uploads_->RefusePuts(Code::kNoSpace);
  std::byte byte;
  const std::function<Result<void>()> others[] = {
      [&] { return Outcome(vfs().Open(kCtx, {}, writer.entry.ino, {.read = true})); },
      [&] { return Outcome(vfs().Read(kCtx, reader->handle, 0, std::span(&byte, 1))); },
      [&] { return Outcome(vfs().SetAttr(kCtx, {}, writer.entry.ino, {.length = 7})); },
      [&] {
        const Ino ino = writer.entry.ino;
        return Outcome(vfs().CopyRange(kCtx, ino, 0, ino, 100, 1));
      },
      [&] { return vfs().Flush(kCtx, reader->handle); },
  };
  for (const auto& notices : others) {
    ASSERT_OK(vfs().Write(kCtx, writer.handle, 0, AsBytes("data")));
    EXPECT_CODE(notices(), Code::kNoSpace);
    EXPECT_CODE(vfs().Flush(kCtx, writer.handle), Code::kNoSpace);
    EXPECT_CODE(vfs().Flush(kCtx, second->handle), Code::kNoSpace) << "it cannot know whose";
    EXPECT_OK(vfs().Flush(kCtx, writer.handle)) << "once";
  }
  const auto late = vfs().Open(kCtx, {}, writer.entry.ino, {.read = false, .write = true});
  ASSERT_OK(late);
  EXPECT_OK(vfs().Release(kCtx, late->handle)) << "what others lost before";
  EXPECT_EQ(vfs().losses(), std::size(others));
  for (const Handle handle : {writer.handle, second->handle, reader->handle})
    EXPECT_OK(vfs().Release(kCtx, handle));
}

TEST_F(VfsTest, TheCloseOfACopyDoesNotSwallowTheLoss) {
  const auto file = MustCreate("bad");
  uploads_->RefusePuts(Code::kNoSpace);
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  EXPECT_CODE(vfs().FlushOneClose(kCtx, file.handle), Code::kNoSpace) << "of a forked child";
  EXPECT_CODE(vfs().FlushOneClose(kCtx, file.handle), Code::kNoSpace);
  EXPECT_CODE(vfs().Flush(kCtx, file.handle), Code::kNoSpace);
  EXPECT_OK(vfs().Flush(kCtx, file.handle)) << "once";
  EXPECT_OK(vfs().FlushOneClose(kCtx, file.handle));
  EXPECT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AnInterruptedReaderCostsTheWriterNothing) {
  const auto file = MustCreate("a");
  objects_.InjectRandomly(Op::kPut, {.kind = Fault::Kind::kSlow, .delay = 300ms}, 1.0);
  for (const bool at_once : {true, false}) {
    const std::string content = at_once ? "first" : "second";
    ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(content)));
    std::stop_source stop;
    if (at_once) stop.request_stop();
    const int before = objects_.calls(Op::kPut);
    const std::jthread interrupts([&] {  // while the opener waits for the upload
      while (!at_once && objects_.calls(Op::kPut) == before) std::this_thread::yield();
      stop.request_stop();
    });
    EXPECT_CODE(vfs().Open(kCtx.WithStop(stop.get_token()), {}, file.entry.ino, {.read = true}),
                Code::kCancelled);
    EXPECT_OK(vfs().Flush(kCtx, file.handle));
    EXPECT_EQ(ReadAll(vfs(), file.handle), content);
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AFlushThatComesTooLateLosesNothing) {
  const auto file = MustCreate("a");
  const Context late = kCtx.WithTimeout(-1s);
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  EXPECT_CODE(vfs().FlushOneClose(late, file.handle), Code::kDeadline);
  EXPECT_CODE(vfs().Flush(late, file.handle), Code::kDeadline);
  EXPECT_OK(vfs().Release(kCtx, file.handle));
  EXPECT_EQ(vfs().meta().GetAttr(kCtx, file.entry.ino)->length, 4u);
}

TEST_F(VfsTest, AllIsFlushedWhereNoThreadCanBeStarted) {
  std::vector<OpenedFile> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back(MustCreate("f" + std::to_string(i)));
    ASSERT_OK(vfs().Write(kCtx, files.back().handle, 0, AsBytes("data")));
  }
  {
    const paddleop::testing::NoMoreThreads none;
    EXPECT_OK(vfs().FlushAll(kCtx));
  }
  for (const auto& file : files)
    EXPECT_EQ(vfs().meta().GetAttr(kCtx, file.entry.ino)->length, 4u) << "in the volume";
  for (const auto& file : files) ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, ManyOpenFilesWithFewBytesDoNotUseUpTheBuffers) {
  // 200 files of one byte would be 12.5 MiB of blocks; the budget is 4 MiB.
  std::vector<OpenedFile> files;
  for (int i = 0; i < 200; ++i) {
    files.push_back(MustCreate("f" + std::to_string(i)));
    ASSERT_OK(vfs().Write(kCtx, files.back().handle, 0, AsBytes("x")));
  }
  for (const auto& file : files) ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AWriterThatWaitsForBuffersDoesNotStopThoseThatFreeThem) {
  Restart({.flush_idle = 1s, .flush_age = 60s});
  const auto waiting = MustCreate("waiting");  // the first by inode
  std::vector<OpenedFile> files;
  const std::string almost(kBlock - 1, 'y');  // a full block would leave at once
  for (int i = 0; i < 64; ++i) {
    files.push_back(MustCreate("f" + std::to_string(i)));
    ASSERT_OK(vfs().Write(kCtx, files.back().handle, 0, AsBytes(almost)));
  }
  std::jthread writer(
      [&] { EXPECT_OK(vfs().Write(kCtx.WithTimeout(20s), waiting.handle, 0, AsBytes(almost))); });
  std::jthread opener([&] {  // whoever waits for the file must not stop them either
    const auto opened = vfs().Open(kCtx, {}, waiting.entry.ino, {.read = true});
    EXPECT_OK(opened);
    if (opened) {
      EXPECT_OK(vfs().Release(kCtx, opened->handle));
    }
  });
  // The others are touched until the turn of the waiting one has come.
  for (const auto end = std::chrono::steady_clock::now() + 1500ms;
       std::chrono::steady_clock::now() < end;) {
    for (const auto& file : files) ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("z")));
  }
  writer.join();
  opener.join();
  for (const auto& file : files) ASSERT_OK(vfs().Release(kCtx, file.handle));
  ASSERT_OK(vfs().Release(kCtx, waiting.handle));
}

TEST_F(VfsTest, ManyWritersShareFewBuffers) {
  Restart({}, 1 << 20);
  // Together they would like twice the buffers that there are.
  constexpr unsigned kWriters = 8;
  constexpr std::size_t kPiece = 100'000, kPieces = 25;
  const auto content = [](unsigned writer, std::size_t piece) {
    return std::string(kPiece, static_cast<char>('a' + (writer + piece) % 26));
  };
  std::vector<OpenedFile> files;
  for (unsigned i = 0; i < kWriters; ++i) files.push_back(MustCreate("f" + std::to_string(i)));
  {
    std::vector<std::jthread> writers;
    for (unsigned i = 0; i < kWriters; ++i) {
      writers.emplace_back([&, i] {
        for (std::size_t k = 0; k < kPieces; ++k)
          ASSERT_OK(vfs().Write(kCtx.WithTimeout(20s), files[i].handle, k * kPiece,
                                AsBytes(content(i, k))));
      });
    }
  }
  for (unsigned i = 0; i < kWriters; ++i) {
    ASSERT_OK(vfs().Flush(kCtx, files[i].handle));
    std::string expected;
    for (std::size_t k = 0; k < kPieces; ++k) expected += content(i, k);
    EXPECT_EQ(ReadAll(vfs(), files[i].handle), expected);
    ASSERT_OK(vfs().Release(kCtx, files[i].handle));
  }
}

TEST_F(VfsTest, WhoOpensAFileFreesTheBuffersThatItsWriterWaitsFor) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const std::string full(kBlock, 'x'), almost(kBlock - 1, 'y');
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(full)));  // leaves at once
  for (std::uint64_t i = 1; i <= 64; ++i)  // slices behind it that hold every buffer
    ASSERT_OK(vfs().Write(kCtx, file.handle, i * 1'000'000, AsBytes(almost)));
  std::jthread writer(
      [&] { EXPECT_OK(vfs().Write(kCtx.WithTimeout(20s), file.handle, kBlock, AsBytes(full))); });
  const auto opened = vfs().Open(kCtx.WithTimeout(20s), {}, file.entry.ino, {.read = true});
  ASSERT_OK(opened);
  writer.join();
  ASSERT_OK(vfs().Release(kCtx, opened->handle));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, WhoseTimeIsUpLosesNothingAndWaitsForNobody) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  objects_.InjectRandomly(Op::kPut, {.kind = Fault::Kind::kSlow, .delay = 2s}, 1.0);
  EXPECT_CODE(vfs().Open(kCtx.WithTimeout(50ms), {}, file.entry.ino, {.read = true}),
              Code::kDeadline);
  std::atomic<bool> flushed = false;
  std::jthread flusher([&] {
    EXPECT_OK(vfs().Flush(kCtx, file.handle)) << "it goes on where the other stopped";
    flushed = true;
  });
  // Also who waits for the flush of another can be interrupted.
  std::stop_source stop;
  std::jthread interrupts([&] { stop.request_stop(); });
  EXPECT_CODE(vfs().Open(kCtx.WithStop(stop.get_token()), {}, file.entry.ino, {.read = true}),
              Code::kCancelled);
  EXPECT_FALSE(flushed);
  flusher.join();
  EXPECT_EQ(ReadAll(vfs(), file.handle), "data");
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, WhatCouldNotBeStoredIsStoredByAFlushWhenTheStoreIsBack) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const std::string content(3 * kBlock + 17, 'x');
  for (const Code away : {Code::kUnavailable, Code::kDeadline, Code::kPermission}) {
    uploads_->RefusePuts(away);
    ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes(content)));
    for (int i = 0; i < 3; ++i) EXPECT_CODE(vfs().Flush(kCtx, file.handle), away);
    EXPECT_CODE(vfs().Open(kCtx, {}, file.entry.ino, {.read = true}), away);
    uploads_->RefusePuts({});
    EXPECT_OK(vfs().Flush(kCtx, file.handle));
  }
  EXPECT_EQ(client_->blocks->budget().used(), 0u);
  Client other(url_, objects_);
  other.Start({});
  const auto theirs = other.vfs->Open(kCtx, {}, file.entry.ino, {.read = true});
  ASSERT_OK(theirs);
  EXPECT_EQ(ReadAll(*other.vfs, theirs->handle), content + content + content);
  ASSERT_OK(other.vfs->Release(kCtx, theirs->handle));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, TheBackgroundStoresWhatItCouldNotStoreBefore) {
  Restart({.flush_idle = 10ms, .flush_age = 10ms});
  const auto file = MustCreate("f");
  uploads_->RefusePuts(Code::kUnavailable);
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  while (objects_.calls(Op::kPut) < 3 && kCtx.Check()) std::this_thread::yield();
  EXPECT_EQ(vfs().meta().GetAttr(kCtx, file.entry.ino)->length, 0u);
  uploads_->RefusePuts({});
  while (vfs().meta().GetAttr(kCtx, file.entry.ino)->length != 4 && kCtx.Check())
    std::this_thread::yield();
  EXPECT_OK(vfs().Release(kCtx, file.handle)) << "nothing was lost";
}

TEST_F(VfsTest, AWriterWithoutBuffersGoesOnWhenTheStoreIsBack) {
  Restart({.flush_idle = 10ms, .flush_age = 10ms});
  const auto file = MustCreate("f");
  uploads_->RefusePuts(Code::kUnavailable);
  const std::string piece(1 << 20, 'x');
  constexpr int kPieces = 6;  // the buffers are 4 MiB
  std::jthread writer([&] {
    for (int i = 0; i < kPieces; ++i)
      EXPECT_OK(vfs().Append(kCtx.WithTimeout(20s), file.handle, AsBytes(piece)));
  });
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (client_->blocks->budget().used() < 4 << 20 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  while (objects_.calls(Op::kPut) < 100 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  uploads_->RefusePuts({});
  writer.join();
  EXPECT_TRUE(ReadAll(vfs(), file.handle) == std::string(kPieces * piece.size(), 'x'));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, WhatIsLostWithTheLastHandleDoesNotComeBack) {
  const auto file = MustCreate("f");
  const auto second = vfs().Open(kCtx, {}, file.entry.ino, {.read = false, .write = true});
  ASSERT_OK(second);
  uploads_->RefusePuts(Code::kUnavailable);
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("a long line")));
  EXPECT_CODE(vfs().Release(kCtx, file.handle), Code::kUnavailable);
  EXPECT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->length, 11u) << "another handle keeps it";
  EXPECT_EQ(vfs().losses(), 0u);
  EXPECT_CODE(vfs().Release(kCtx, second->handle), Code::kUnavailable);
  EXPECT_EQ(vfs().losses(), 1u);
  EXPECT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->length, 0u);
  uploads_->RefusePuts({});
  const auto again = vfs().Open(kCtx, {}, file.entry.ino, {.read = true, .write = true});
  ASSERT_OK(again);
  ASSERT_OK(vfs().Write(kCtx, again->handle, 0, AsBytes("new")));
  EXPECT_EQ(ReadAll(vfs(), again->handle), "new");
  ASSERT_OK(vfs().Release(kCtx, again->handle));
  client_->blocks->uploads().Drain();
  EXPECT_EQ(client_->blocks->budget().used(), 0u);
}

TEST_F(VfsTest, AnUploadThatIsStuckHoldsUpNoOtherFile) {
  for (const bool background : {true, false}) {
    Restart({.flush_idle = background ? 10ms : 60s, .flush_age = background ? 10ms : 60s});
    const std::string prefix = background ? "b" : "a";
    uploads_->HoldNextPut();
    const auto stuck = MustCreate(prefix + "-stuck");
    ASSERT_OK(vfs().Write(kCtx, stuck.handle, 0, AsBytes(std::string(kBlock, 'x'))));
    const auto file = MustCreate(prefix + "-other");
    ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
    std::jthread flusher([&] {
      if (!background) {
        EXPECT_OK(vfs().FlushAll(kCtx));
      }
    });
    const auto stored = [&](const OpenedFile& which) {
      return vfs().meta().GetAttr(kCtx, which.entry.ino)->length;
    };
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (stored(file) == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(stored(file), 4u);
    EXPECT_EQ(stored(stuck), 0u);
    uploads_->HoldPuts(false);
    flusher.join();
    for (const Handle handle : {stuck.handle, file.handle}) ASSERT_OK(vfs().Release(kCtx, handle));
    EXPECT_EQ(stored(stuck), kBlock);
  }
}

}  // namespace
}  // namespace paddleop::volume::testing
