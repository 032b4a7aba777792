#include "volume/chunk/slice_writer.h"

#include <gtest/gtest.h>

#include <latch>

#include "base/bytes.h"
#include "base/testing/matchers.h"
#include "volume/object/forwarding_store.h"
#include "volume/object/testing/faulty_store.h"
#include "volume/object/testing/mem_object.h"

namespace paddleop::volume {
namespace {

using object::testing::Fault;
using object::testing::FaultyObjectStore;
using object::testing::MemObjectStore;
using object::testing::Op;

const Context kCtx = Context::Background();
constexpr std::uint32_t kBlock = 64 << 10;

class SliceWriterTest : public ::testing::Test {
 protected:
  std::string ReadBack(const SliceWriter& writer) {
    std::string out(writer.size(), '?');
    EXPECT_OK(blocks_.ReadSlice(kCtx, {writer.id(), writer.size()}, 0,
                                std::as_writable_bytes(std::span(out))));
    return out;
  }

  Logger log_{LogLevel::kOff};
  FaultyObjectStore store_{std::make_unique<MemObjectStore>()};
  BlockStore blocks_{
      {.layout = {.block_size = kBlock}, .max_uploads = 2, .buffer_bytes = 4 * kBlock},
      store_,
      nullptr,
      log_};
};

TEST_F(SliceWriterTest, StoresWhatWasWrittenWhateverThePieces) {
  std::string expected;
  SliceWriter writer(blocks_, 1);
  for (int i = 0; expected.size() < 10 * kBlock; ++i) {
    const std::string piece(static_cast<std::size_t>(1 + i * 997 % 30000),
                            static_cast<char>('a' + i % 26));
    ASSERT_OK(writer.Write(kCtx, static_cast<std::uint32_t>(expected.size()), AsBytes(piece)));
    expected += piece;
  }
  ASSERT_OK(writer.Finish(kCtx));
  EXPECT_EQ(ReadBack(writer), expected);
  EXPECT_EQ(blocks_.budget().used(), 0u) << "buffers are given back";
}

TEST_F(SliceWriterTest, BytesCanBeRewrittenUntilTheirBlockHasLeft) {
  SliceWriter writer(blocks_, 2);
  ASSERT_OK(writer.Write(kCtx, 0, AsBytes("hello world")));
  ASSERT_TRUE(writer.CanWrite(6, 5));
  ASSERT_OK(writer.Write(kCtx, 6, AsBytes("there")));
  EXPECT_FALSE(writer.CanWrite(20, 1)) << "a gap";
  ASSERT_OK(writer.Write(kCtx, 11, AsBytes(std::string(kBlock, 'x'))));
  EXPECT_FALSE(writer.CanWrite(0, 1)) << "the first block has left";
  EXPECT_TRUE(writer.CanWrite(kBlock, 1));
  ASSERT_OK(writer.Finish(kCtx));
  EXPECT_EQ(ReadBack(writer), "hello there" + std::string(kBlock, 'x'));
  EXPECT_FALSE(writer.CanWrite(writer.size(), 1)) << "sealed";
}

TEST_F(SliceWriterTest, ASliceEndsAtItsLargestSize) {
  SliceWriter writer(blocks_, 3);
  EXPECT_TRUE(writer.CanWrite(0, kMaxSliceSize));
  EXPECT_FALSE(writer.CanWrite(0, kMaxSliceSize + 1));
}

TEST_F(SliceWriterTest, WhatGotNoBufferIsNotStored) {
  auto all = blocks_.budget().Acquire(kCtx, 4 * kBlock);
  ASSERT_OK(all);
  SliceWriter writer(blocks_, 5);
  const Context stopped = kCtx.WithTimeout(std::chrono::milliseconds(1));
  EXPECT_CODE(writer.Write(stopped, 0, AsBytes("data")), Code::kDeadline);
  EXPECT_OK(writer.Finish(kCtx));
  EXPECT_EQ(writer.size(), 0u);
  EXPECT_EQ(store_.calls(Op::kPut), 0);
}

TEST_F(SliceWriterTest, WhoeverIsStoppedLosesNoBlocks) {
  store_.InjectRandomly(Op::kPut,
                        {.kind = Fault::Kind::kSlow, .delay = std::chrono::milliseconds(20)}, 1.0);
  SliceWriter writer(blocks_, 6);
  ASSERT_OK(writer.Write(kCtx, 0, AsBytes("data")));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_CODE(writer.Finish(kCtx.WithStop(stop.get_token())), Code::kCancelled);
  ASSERT_OK(writer.Finish(kCtx));
  EXPECT_EQ(ReadBack(writer), "data");
}

TEST_F(SliceWriterTest, WhatTheStoreCouldNotTakeIsTriedAgain) {
  SliceWriter writer(blocks_, 4);
  const std::string content(2 * kBlock + 5, 'x');
  store_.Inject(Op::kPut, {.kind = Fault::Kind::kUnavailable}, /*times=*/6);
  ASSERT_OK(writer.Write(kCtx, 0, AsBytes(content)));
  Result<void> finished;
  int failed = 0;
  while (!(finished = writer.Finish(kCtx)) && failed < 10) {
    EXPECT_CODE(finished, Code::kUnavailable);
    EXPECT_GT(blocks_.budget().used(), 0u) << "the blocks are still there";
    ++failed;
  }
  ASSERT_OK(finished);
  EXPECT_GT(failed, 0);
  EXPECT_EQ(store_.calls(Op::kPut), 9);
  EXPECT_EQ(ReadBack(writer), content);
  EXPECT_EQ(blocks_.budget().used(), 0u);
  EXPECT_OK(writer.Finish(kCtx)) << "and stays";
  EXPECT_EQ(store_.calls(Op::kPut), 9);
}

TEST_F(SliceWriterTest, ABlockThatFoundNoPlaceInTheQueueIsNotTakenForStored) {
  store_.Inject(Op::kPut, {.kind = Fault::Kind::kUnavailable}, /*times=*/1);
  SliceWriter writer(blocks_, 9);
  ASSERT_OK(writer.Write(kCtx, 0, AsBytes("data")));
  EXPECT_CODE(writer.Finish(kCtx), Code::kUnavailable);
  // Others fill the queue.
  std::latch go_on(1);
  while (blocks_.uploads().TrySubmit([&] { go_on.wait(); })) {
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(writer.FinishUploaded(kCtx.WithStop(stop.get_token())));
  EXPECT_FALSE(writer.Uploading());
  go_on.count_down();
  EXPECT_CODE(writer.FinishUploaded(kCtx), Code::kUnavailable) << "it is only now on its way";
  blocks_.uploads().Drain();
  EXPECT_OK(writer.FinishUploaded(kCtx));
  EXPECT_EQ(ReadBack(writer), "data");
}

TEST_F(SliceWriterTest, WhoGivesUpGetsTheBuffersBack) {
  store_.InjectRandomly(Op::kPut, {.kind = Fault::Kind::kUnavailable}, 1.0);
  {
    SliceWriter writer(blocks_, 7);
    ASSERT_OK(writer.Write(kCtx, 0, AsBytes(std::string(2 * kBlock + 5, 'x'))));
    EXPECT_CODE(writer.Finish(kCtx), Code::kUnavailable);
  }
  blocks_.uploads().Drain();
  EXPECT_EQ(blocks_.budget().used(), 0u);
}

class FullStore final : public object::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<void> Put(const Context&, std::string_view key, std::span<const std::byte>,
                   const object::PutOptions&) override {
    return Fail(Code::kNoSpace, "{}: the store is full", key);
  }
};

TEST_F(SliceWriterTest, AnUploadThatFailedForGoodIsReported) {
  FullStore full(std::make_unique<MemObjectStore>());
  BlockStore blocks(blocks_.options(), full, nullptr, log_);
  SliceWriter writer(blocks, 8);
  ASSERT_OK(writer.Write(kCtx, 0, AsBytes("data")));
  EXPECT_CODE(writer.Finish(kCtx), Code::kNoSpace);
  EXPECT_CODE(writer.Finish(kCtx), Code::kNoSpace) << "and stays";
  EXPECT_EQ(blocks.budget().used(), 0u);
}

}  // namespace
}  // namespace paddleop::volume
