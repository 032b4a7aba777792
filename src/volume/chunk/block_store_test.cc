#include "volume/chunk/block_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/bytes.h"
#include "base/testing/matchers.h"
#include "volume/cache/memory_cache.h"
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

std::string Pattern(std::size_t size, unsigned seed) {
  std::minstd_rand random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class BlockStoreTest : public ::testing::TestWithParam<Compression> {
 protected:
  BlockStoreOptions Options() const {
    return {.layout = {.block_size = kBlock},
            .compression = GetParam(),
            .max_downloads = 4,
            .max_uploads = 2,
            .buffer_bytes = 4 * kBlock};
  }

  // Stores a slice of this content block by block.
  void Store(BlockStore& blocks, const SliceKey& slice, std::string_view content) {
    for (std::uint32_t i = 0; i < BlockCount(blocks.options().layout, slice.size); ++i) {
      const BlockId block = blocks.BlockOf(slice, i);
      ASSERT_OK(blocks.WriteBlock(kCtx, block,
                                  AsBytes(content.substr(std::size_t{i} * kBlock, block.length))));
    }
  }

  std::string ReadBack(BlockStore& blocks, const SliceKey& slice, std::uint32_t offset,
                       std::size_t size) {
    std::string out(size, '?');
    auto read = blocks.ReadSlice(kCtx, slice, offset, std::as_writable_bytes(std::span(out)));
    EXPECT_OK(read);
    return out;
  }

  Logger log_{LogLevel::kOff};
  FaultyObjectStore store_{std::make_unique<MemObjectStore>()};
  std::unique_ptr<CacheStore> cache_ = MakeMemoryCache(32 * kBlock);
};

TEST_P(BlockStoreTest, ReadsAnyRangeOfWhatWasStored) {
  const std::string content = Pattern(5 * kBlock + 123, 1);
  const SliceKey slice{.id = 9, .size = static_cast<std::uint32_t>(content.size())};
  for (CacheStore* cache : {cache_.get(), static_cast<CacheStore*>(nullptr)}) {
    BlockStore blocks(Options(), store_, cache, log_);
    Store(blocks, slice, content);
    for (auto [offset, size] : {std::pair{0u, content.size()},
                                {1u, std::size_t{1}},
                                {kBlock - 1, std::size_t{2}},
                                {3 * kBlock + 7, std::size_t{2 * kBlock}}}) {
      EXPECT_EQ(ReadBack(blocks, slice, offset, size), content.substr(offset, size));
    }
  }
}

TEST_P(BlockStoreTest, ReadersOfOneBlockShareOneRequest) {
  const std::string content = Pattern(kBlock, 2);
  const SliceKey slice{.id = 3, .size = kBlock};
  {
    BlockStore writer(Options(), store_, nullptr, log_);
    Store(writer, slice, content);
  }
  BlockStore blocks(Options(), store_, cache_.get(), log_);
  store_.Inject(Op::kGet, {.kind = Fault::Kind::kSlow, .delay = std::chrono::milliseconds(50)});
  std::vector<std::jthread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back(
        [&] { EXPECT_EQ(ReadBack(blocks, slice, 10, 100), content.substr(10, 100)); });
  }
  readers.clear();
  EXPECT_EQ(store_.calls(Op::kGet), 1);
}

TEST_P(BlockStoreTest, AnErrorIsToldToAllWhoWaitAndForgottenAfterwards) {
  const std::string content = Pattern(kBlock, 3);
  const SliceKey slice{.id = 4, .size = kBlock};
  BlockStore blocks(Options(), store_, cache_.get(), log_);
  Store(blocks, slice, content);
  cache_->Remove(blocks.BlockOf(slice, 0));
  store_.Inject(Op::kGet, {.kind = Fault::Kind::kUnavailable});
  std::byte byte;
  EXPECT_CODE(blocks.ReadSlice(kCtx, slice, 0, std::span(&byte, 1)), Code::kUnavailable);
  EXPECT_EQ(ReadBack(blocks, slice, 0, kBlock), content);
}

TEST_P(BlockStoreTest, MissingAndShortObjectsAreTold) {
  BlockStore blocks(Options(), store_, cache_.get(), log_);
  std::byte byte;
  EXPECT_CODE(blocks.ReadSlice(kCtx, {.id = 77, .size = 10}, 0, std::span(&byte, 1)),
              Code::kNotFound);
  ASSERT_OK(object::PutString(
      store_, kCtx, BlockKey(blocks.options().layout, blocks.BlockOf({78, 10}, 0)), "short"));
  EXPECT_CODE(blocks.ReadSlice(kCtx, {.id = 78, .size = 10}, 0, std::span(&byte, 1)),
              Code::kCorrupt);
  EXPECT_CODE(blocks.ReadSlice(kCtx, {.id = 79, .size = 10}, 10, std::span(&byte, 1)),
              Code::kCorrupt);
}

TEST_P(BlockStoreTest, DeletesAllBlocksOfASliceAndItsCopies) {
  const std::string content = Pattern(3 * kBlock, 4);
  const SliceKey slice{.id = 5, .size = 3 * kBlock};
  BlockStore blocks(Options(), store_, cache_.get(), log_);
  Store(blocks, slice, content);
  ASSERT_OK(blocks.DeleteSlice(kCtx, slice));
  ASSERT_OK(blocks.DeleteSlice(kCtx, slice)) << "what is gone is fine";
  std::byte byte;
  EXPECT_CODE(blocks.ReadSlice(kCtx, slice, 0, std::span(&byte, 1)), Code::kNotFound);
}

TEST_P(BlockStoreTest, PrefetchBringsABlockIntoTheCache) {
  const SliceKey slice{.id = 6, .size = kBlock};
  BlockStore blocks(Options(), store_, cache_.get(), log_);
  Store(blocks, slice, Pattern(kBlock, 5));
  cache_->Remove(blocks.BlockOf(slice, 0));
  blocks.Prefetch(blocks.BlockOf(slice, 0));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!cache_->Contains(blocks.BlockOf(slice, 0))) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
}

TEST_P(BlockStoreTest, FullBlocksThatWereWrittenAreCachedOnlyIfWanted) {
  const std::string content = Pattern(kBlock + 100, 8);
  for (const bool wanted : {true, false}) {
    BlockStoreOptions options = Options();
    options.cache_full_writes = wanted;
    const auto cache = MakeMemoryCache(32 * kBlock);
    BlockStore blocks(options, store_, cache.get(), log_);
    const SliceKey slice{wanted ? 91U : 92U, kBlock + 100};
    Store(blocks, slice, content);
    EXPECT_EQ(cache->Contains(blocks.BlockOf(slice, 0)), wanted);
    EXPECT_TRUE(cache->Contains(blocks.BlockOf(slice, 1)));
    EXPECT_EQ(ReadBack(blocks, slice, 0, content.size()), content);
  }
}

TEST_P(BlockStoreTest, AFetchedBlockThatIsKeptCountsAsABuffer) {
  BlockStore blocks(Options(), store_, nullptr, log_);
  const SliceKey slice{93, kBlock};
  const std::string content = Pattern(kBlock, 9);
  Store(blocks, slice, content);
  {
    auto fetched = blocks.FetchBlock(kCtx, blocks.BlockOf(slice, 0));
    ASSERT_OK(fetched);
    EXPECT_EQ(AsText((*fetched)->bytes()), content);
    EXPECT_EQ(blocks.budget().used(), kBlock);
  }
  EXPECT_EQ(blocks.budget().used(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Compressions, BlockStoreTest,
                         ::testing::Values(Compression::kNone, Compression::kLz4,
                                           Compression::kZstd));

}  // namespace
}  // namespace paddleop::volume
