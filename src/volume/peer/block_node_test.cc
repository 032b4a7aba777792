#include "volume/peer/block_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/object/testing/mem_object.h"
#include "volume/peer/rendezvous.h"

namespace paddleop::volume {
namespace {

constexpr std::uint32_t kBlock = 128 << 10;
constexpr std::uint32_t kPartitions = 3;

struct Node;

// Partitions of one process: calls go straight to the other node, or fail if it is down.
class DirectLink : public PeerLink {
 public:
  DirectLink(std::vector<std::unique_ptr<Node>>& nodes, std::uint32_t self)
      : nodes_(nodes), self_(self) {}
  std::uint32_t count() const override { return kPartitions; }
  std::uint32_t self() const override { return self_; }
  Result<BlockFrom> Read(const Context& ctx, std::uint32_t peer, const BlockId& block,
                         std::uint32_t offset, std::span<std::byte> out, bool find) override;
  Result<std::vector<BlockHave>> Check(const Context& ctx, std::uint32_t peer,
                                       std::span<const BlockWish> wishes, std::string_view plan,
                                       bool tight) override;
  Result<void> Give(const Context& ctx, std::uint32_t peer, const BlockWish& wish,
                    std::span<const std::byte> block, std::string_view plan) override;
  Result<void> Drop(const Context& ctx, std::uint32_t peer,
                    std::span<const BlockId> blocks) override;
  Result<void> Unpin(const Context& ctx, std::uint32_t peer, std::string_view prefix,
                     std::string_view keep) override;

 private:
  std::vector<std::unique_ptr<Node>>& nodes_;
  const std::uint32_t self_;
};

struct Node {
  std::unique_ptr<DiskCache> cache;
  std::unique_ptr<DirectLink> link;
  std::unique_ptr<BlockNode> node;
  bool down = false;
};

// Through the HTTP handler, so that the wire is part of the test.
net::ServerResponse Ask(Node& node, net::ServerRequest request) {
  if (node.down) return net::ServerResponse::Text(503, "");
  return node.node->Serve(Context::Background(), request, false).value();
}

Result<BlockFrom> DirectLink::Read(const Context&, std::uint32_t peer, const BlockId& block,
                                   std::uint32_t offset, std::span<std::byte> out, bool find) {
  const auto response =
      Ask(*nodes_[peer],
          {.method = "GET",
           .path = std::string(kBlocksPath) + BlockName(block),
           .query = fmt::format("offset={}&size={}{}", offset, out.size(), find ? "&find=1" : "")});
  if (response.status != 200) {
    return std::unexpected(runtime::ErrorFromBody(response.status, response.body));
  }
  std::ranges::copy(AsBytes(response.body), out.begin());
  return ParseBlockFrom(*response.headers.Get(kBlockFromHeader));
}

Result<std::vector<BlockHave>> DirectLink::Check(const Context&, std::uint32_t peer,
                                                 std::span<const BlockWish> wishes,
                                                 std::string_view plan, bool tight) {
  const auto response =
      Ask(*nodes_[peer], {.method = "POST",
                          .path = std::string(kCheckPath),
                          .query = fmt::format("plan={}{}", plan, tight ? "&tight=1" : ""),
                          .body = EncodeWishes(wishes)});
  if (response.status != 200) {
    return std::unexpected(runtime::ErrorFromBody(response.status, response.body));
  }
  return DecodeHaves(response.body, wishes.size());
}

Result<void> DirectLink::Give(const Context&, std::uint32_t peer, const BlockWish& wish,
                              std::span<const std::byte> block, std::string_view plan) {
  const auto response =
      Ask(*nodes_[peer], {.method = "PUT",
                          .path = std::string(kBlocksPath) + BlockName(wish.block),
                          .query = fmt::format("plan={}", plan),
                          .body = EncodeGift(wish, block)});
  if (response.status == 200) return {};
  return std::unexpected(runtime::ErrorFromBody(response.status, response.body));
}

Result<void> DirectLink::Drop(const Context&, std::uint32_t peer, std::span<const BlockId> blocks) {
  std::vector<BlockWish> wishes;
  for (const BlockId& block : blocks) wishes.push_back({.block = block});
  const auto response =
      Ask(*nodes_[peer],
          {.method = "POST", .path = std::string(kDropPath), .body = EncodeWishes(wishes)});
  if (response.status == 200) return {};
  return std::unexpected(runtime::ErrorFromBody(response.status, response.body));
}

Result<void> DirectLink::Unpin(const Context&, std::uint32_t peer, std::string_view prefix,
                               std::string_view keep) {
  const auto response =
      Ask(*nodes_[peer], {.method = "POST",
                          .path = std::string(kUnpinPath),
                          .query = fmt::format("prefix={}&keep={}", prefix, keep)});
  if (response.status == 200) return {};
  return std::unexpected(runtime::ErrorFromBody(response.status, response.body));
}

class BlockNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_OK(dir);
    dir_.emplace(*std::move(dir));
    store_ =
        std::make_unique<BlockStore>(BlockStoreOptions{.layout = layout_}, objects_, nullptr, log_);
    for (std::uint32_t i = 0; i < kPartitions; ++i) nodes_.push_back(std::make_unique<Node>());
    for (std::uint32_t i = 0; i < kPartitions; ++i) {
      auto cache = DiskCache::Open(ctx_,
                                   {.uuid = "0123abcd-0000-4000-8000-000000000001",
                                    .layout = layout_,
                                    .directories = {{.path = dir_->File(fmt::format("cache-{}", i)),
                                                     .capacity = 64 << 20,
                                                     .free_space_ratio = 0.0001}}},
                                   log_, metrics_);
      ASSERT_OK(cache);
      nodes_[i]->cache = *std::move(cache);
      nodes_[i]->link = std::make_unique<DirectLink>(nodes_, i);
      nodes_[i]->node = std::make_unique<BlockNode>(layout_, *nodes_[i]->cache, *store_,
                                                    *nodes_[i]->link, log_, metrics_);
    }
  }
  void TearDown() override {
    nodes_.clear();
    store_.reset();
  }

  BlockId NewBlock() {
    const BlockId block{.slice = ++slice_, .index = 0, .length = kBlock};
    contents_[block] = RandomBytes(kBlock);
    EXPECT_OK(objects_.Put(ctx_, BlockKey(layout_, block), AsBytes(contents_[block]), {}));
    return block;
  }
  // A block whose owner is `partition`.
  BlockId NewBlockOf(std::uint32_t partition) {
    for (;;) {
      const BlockId block = NewBlock();
      if (OwnerOf(block, kPartitions) == partition) return block;
    }
  }
  Result<BlockFrom> ReadAt(std::uint32_t partition, const BlockId& block,
                           std::uint32_t offset = 1000, std::uint32_t size = 5000) {
    std::string out(size, '\0');
    auto from = nodes_[partition]->node->Find(ctx_, block, offset,
                                              std::as_writable_bytes(std::span(out)), false);
    if (from) {
      EXPECT_EQ(out, contents_[block].substr(offset, size));
    }
    return from;
  }
  double StoreReads() {
    return metrics_
        .AddCounter("paddleop_peer_blocks_fetched_total",
                    "Whole blocks fetched, by where they came from.", {{"from", "store"}})
        .Value();
  }

  const Context ctx_ = Context::Background();
  const BlockLayout layout_{.block_size = kBlock};
  std::optional<TempDir> dir_;
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  object::testing::MemObjectStore objects_;
  std::unique_ptr<BlockStore> store_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<BlockId, std::string> contents_;
  std::uint64_t slice_ = 0;
};

TEST_F(BlockNodeTest, EachBlockLeavesTheStoreOnce) {
  const BlockId block = NewBlockOf(1);
  EXPECT_EQ(ReadAt(0, block).value(), BlockFrom::kStore);
  EXPECT_EQ(ReadAt(2, block).value(), BlockFrom::kPeer);
  EXPECT_EQ(ReadAt(1, block).value(), BlockFrom::kCache);
  // Having been read there once, it has been brought there.
  EXPECT_EQ(ReadAt(2, block, 0, kBlock).value(), BlockFrom::kCache);
  EXPECT_EQ(StoreReads(), 1);
}

TEST_F(BlockNodeTest, ConcurrentReadersShareOneFetch) {
  const BlockId block = NewBlockOf(0);
  std::vector<std::jthread> readers;
  for (std::uint32_t i = 0; i < 12; ++i) {
    readers.emplace_back([&, i] { EXPECT_OK(ReadAt(i % kPartitions, block, i * 100, 100)); });
  }
  readers.clear();
  EXPECT_EQ(StoreReads(), 1);
}

TEST_F(BlockNodeTest, FindsWhatAPartitionThatIsNotTheOwnerHas) {
  const BlockId block = NewBlockOf(1);
  ASSERT_OK(nodes_[2]->cache->Store(ctx_, block, AsBytes(contents_[block]), ""));
  EXPECT_EQ(ReadAt(0, block).value(), BlockFrom::kPeer);
  EXPECT_EQ(ReadAt(1, block).value(), BlockFrom::kPeer);
  EXPECT_EQ(StoreReads(), 0);
}

TEST_F(BlockNodeTest, RangesAreFoundWhereverTheyAre) {
  const BlockId block = NewBlockOf(1);
  const std::string& content = contents_[block];
  ASSERT_OK(nodes_[0]->cache->StoreRange(ctx_, block, 0, AsBytes(content.substr(0, 8192)), "p"));
  ASSERT_OK(
      nodes_[2]->cache->StoreRange(ctx_, block, 8192, AsBytes(content.substr(8192, 8192)), "p"));
  EXPECT_EQ(ReadAt(0, block, 100, 8000).value(), BlockFrom::kCache);
  EXPECT_EQ(ReadAt(0, block, 9000, 7000).value(), BlockFrom::kPeer);
  EXPECT_EQ(ReadAt(2, block, 100, 8000).value(), BlockFrom::kPeer);
  EXPECT_EQ(StoreReads(), 0);
}

TEST_F(BlockNodeTest, AnOwnerRemembersWhoWasGivenWhat) {
  const BlockId block = NewBlockOf(1);
  const BlockWish wish{.block = block, .ranges = {{8192, 16384}}};
  ASSERT_OK(nodes_[1]->link->Give(ctx_, 2, wish, AsBytes(contents_[block]), "p"));
  nodes_[1]->node->Remember(block, 2, wish);
  EXPECT_EQ(ReadAt(0, block, 9000, 1000).value(), BlockFrom::kPeer);
  // What it remembers may be gone meanwhile.
  ASSERT_OK(nodes_[2]->cache->ClearAll(ctx_));
  EXPECT_EQ(ReadAt(1, block, 9000, 1000).value(), BlockFrom::kStore);
}

TEST_F(BlockNodeTest, AnOwnerThatIsDownCostsAReadOfTheStoreAtMost) {
  const BlockId block = NewBlockOf(1);
  nodes_[1]->down = true;
  EXPECT_EQ(ReadAt(0, block).value(), BlockFrom::kStore);
  EXPECT_EQ(ReadAt(2, block).value(), BlockFrom::kPeer);
  EXPECT_EQ(StoreReads(), 1);
}

TEST_F(BlockNodeTest, ABlockThatIsGoneIsNotFound) {
  const BlockId block = NewBlockOf(1);
  ASSERT_OK(objects_.Delete(ctx_, BlockKey(layout_, block)));
  EXPECT_CODE(ReadAt(0, block), Code::kNotFound);
  EXPECT_CODE(ReadAt(1, block), Code::kNotFound);
}

TEST_F(BlockNodeTest, GiftsAreKeptAndPinned) {
  const BlockId block = NewBlockOf(0);
  const BlockWish wish{.block = block, .ranges = {{0, 4096}, {40960, 49152}}};
  PeerLink& link = *nodes_[0]->link;
  auto before = link.Check(ctx_, 1, {&wish, 1}, "plan.a", false);
  ASSERT_OK(before);
  EXPECT_FALSE(before->front().wish);
  ASSERT_OK(link.Give(ctx_, 1, wish, AsBytes(contents_[block]), "plan.a"));
  auto after = link.Check(ctx_, 1, {&wish, 1}, "plan.a", false);
  ASSERT_OK(after);
  EXPECT_TRUE(after->front().wish);
  EXPECT_FALSE(after->front().whole);
  EXPECT_EQ(ReadAt(1, block, 41000, 8000).value(), BlockFrom::kCache);
  EXPECT_EQ(nodes_[1]->cache->Plans().value(), std::vector<std::string>{"plan.a"});
  ASSERT_OK(link.Unpin(ctx_, 1, "plan.", "plan.b"));
  EXPECT_TRUE(nodes_[1]->cache->Plans().value().empty());
}

TEST_F(BlockNodeTest, WhereItIsTightRangesTakeTheWholeBlocksPlace) {
  const BlockId block = NewBlockOf(0);
  ASSERT_OK(nodes_[1]->cache->Store(ctx_, block, AsBytes(contents_[block]), ""));
  const BlockWish wish{.block = block, .ranges = {{8192, 16384}}};
  PeerLink& link = *nodes_[0]->link;
  auto have = link.Check(ctx_, 1, {&wish, 1}, "plan", true);
  ASSERT_OK(have);
  EXPECT_FALSE(have->front().wish);
  EXPECT_TRUE(have->front().whole);
  std::vector<std::byte> content(kBlock);
  const std::uint32_t holder = 1;
  EXPECT_EQ(nodes_[0]->node->FetchWhole(ctx_, block, {&holder, 1}, content).value(),
            BlockFrom::kPeer);
  ASSERT_OK(link.Give(ctx_, 1, wish, content, "plan"));
  EXPECT_LT(nodes_[1]->cache->Status()[0].bytes, kBlock);
  EXPECT_EQ(ReadAt(1, block, 9000, 1000).value(), BlockFrom::kCache);
}

TEST_F(BlockNodeTest, WhereItIsTightAnotherOrderTakesThePlaceOfTheFirst) {
  const BlockId block = NewBlockOf(1);
  PeerLink& link = *nodes_[0]->link;
  DiskCache& cache = *nodes_[2]->cache;
  const std::span<const std::byte> content = AsBytes(contents_[block]);
  const BlockWish first{.block = block, .ranges = {{.begin = 0, .end = 65'536}}};
  const BlockWish second{.block = block, .ranges = {{.begin = 61'440, .end = 73'728}}};
  ASSERT_OK(link.Give(ctx_, 2, first, content, "order.1"));
  const std::uint64_t before = cache.Status()[0].bytes;
  auto have = link.Check(ctx_, 2, {&second, 1}, "order.2", true);
  ASSERT_OK(have);
  EXPECT_FALSE(have->front().wish);
  EXPECT_EQ(cache.Status()[0].bytes, before - 15 * 4096) << "what both want stays";
  ASSERT_OK(link.Give(ctx_, 2, second, content, "order.2"));
  have = link.Check(ctx_, 2, {&second, 1}, "order.2", true);
  ASSERT_OK(have);
  EXPECT_TRUE(have->front().wish);
}

TEST_F(BlockNodeTest, DroppedBlocksAreGoneWithTheirPins) {
  const BlockId block = NewBlockOf(1), other = NewBlockOf(1);
  PeerLink& link = *nodes_[0]->link;
  for (const BlockId& each : {block, other}) {
    const BlockWish wish{.block = each, .whole = true};
    ASSERT_OK(link.Give(ctx_, 2, wish, AsBytes(contents_[each]), "order.1"));
  }
  ASSERT_OK(link.Drop(ctx_, 2, {&block, 1}));
  EXPECT_FALSE(nodes_[2]->cache->Contains(block));
  EXPECT_TRUE(nodes_[2]->cache->Contains(other));
  EXPECT_EQ(nodes_[2]->cache->Status()[0].pinned_bytes, nodes_[2]->cache->Status()[0].bytes);
}

TEST_F(BlockNodeTest, RefusesWhatIsNoBlockOfTheVolume) {
  const auto ask = [&](const char* method, const char* path, const char* query) {
    return Ask(*nodes_[0], {.method = method, .path = path, .query = query}).status;
  };
  EXPECT_EQ(ask("GET", "/blocks/../../etc/passwd", "offset=0&size=1"), 400);
  EXPECT_EQ(ask("GET", "/blocks/1_0_99999999", "offset=0&size=1"), 400);
  EXPECT_EQ(ask("GET", "/blocks/1_0_1000", "offset=999&size=2"), 400);
  EXPECT_EQ(ask("GET", "/blocks/1_0_1000", "offset=4294967295&size=2"), 400);
  EXPECT_EQ(ask("GET", "/blocks/1_0_1000", "offset=-1&size=2"), 400);
  EXPECT_EQ(ask("GET", "/blocks/1_0_1000", "size=2"), 400);
  EXPECT_EQ(ask("GET", "/blocks/1_0_1000", "offset=0&size=10"), 404);
  EXPECT_EQ(ask("DELETE", "/blocks/1_0_1000", ""), 405);
  EXPECT_EQ(ask("PUT", "/blocks/1_0_1000", "plan=x"), 400);
  EXPECT_EQ(ask("POST", "/blocks/check", "plan=x"), 400);
  // A mount may only read.
  EXPECT_EQ(
      nodes_[0]
          ->node->Serve(ctx_, {.method = "PUT", .path = "/blocks/1_0_1000", .query = ""}, true)
          ->status,
      405);
}

}  // namespace
}  // namespace paddleop::volume
