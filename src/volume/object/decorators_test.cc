#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/bytes.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "base/testing/no_more_threads.h"
#include "volume/object/checksum_store.h"
#include "volume/object/internal/delay_queue.h"
#include "volume/object/internal/token_bucket.h"
#include "volume/object/limit_store.h"
#include "volume/object/metrics_store.h"
#include "volume/object/prefix_store.h"
#include "volume/object/testing/faulty_store.h"
#include "volume/object/testing/mem_object.h"
#include "volume/object/threaded_store.h"

namespace paddleop::volume::object::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const Context kCtx = Context::Background();

Result<GetResult> GetAll(ObjectStore& store, std::string_view key, std::string& buffer,
                         const GetOptions& options = {}) {
  return store.Get(kCtx, key, options, std::as_writable_bytes(std::span(buffer)));
}

TEST(PrefixStore, HidesItsPrefixAndItsNeighbours) {
  auto mem = std::make_unique<MemObjectStore>();
  MemObjectStore& whole = *mem;
  ASSERT_OK(PutString(whole, kCtx, "other", "x"));
  auto store = WithPrefix(std::move(mem), "vol/");
  EXPECT_EQ(store->name(), "mem://vol/");
  ASSERT_OK(PutString(*store, kCtx, "a", "content"));
  EXPECT_OK(whole.Head(kCtx, "vol/a"));
  auto entries = ListEntries(*store, kCtx, {});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ(entries->front().key, "a");
  EXPECT_CODE(store->Head(kCtx, "other"), Code::kNotFound);
}

TEST(PrefixStore, AnEmptyPrefixCostsNothing) {
  auto mem = std::make_unique<MemObjectStore>();
  ObjectStore* raw = mem.get();
  EXPECT_EQ(WithPrefix(std::move(mem), "").get(), raw);
}

TEST(ChecksumStore, FindsADamagedBody) {
  auto faulty = std::make_unique<FaultyObjectStore>(std::make_unique<MemObjectStore>());
  FaultyObjectStore& faults = *faulty;
  auto store = WithChecksum(std::move(faulty));
  ASSERT_OK(PutString(*store, kCtx, "k", "hello"));
  std::string buffer(5, '\0');
  auto got = GetAll(*store, "k", buffer);
  ASSERT_OK(got);
  EXPECT_EQ(got->crc32c, 2591144780u);

  faults.Inject(Op::kGet, {Fault::Kind::kCorrupt}, 3);
  got = GetAll(*store, "k", buffer);
  ASSERT_CODE(got, Code::kCorrupt);
  EXPECT_THAT(got.error().message(), HasSubstr("mem://k"));
  EXPECT_THAT(got.error().message(), HasSubstr("2591144780"));
  // A part cannot be checked.
  EXPECT_OK(GetAll(*store, "k", buffer, {.range = {0, 4}}));
  std::promise<Code> code;
  store->StartGet(
      kCtx, "k", {}, std::as_writable_bytes(std::span(buffer)),
      [&](Result<GetResult> r) { code.set_value(r ? Code::kInternal : r.error().code()); });
  EXPECT_EQ(code.get_future().get(), Code::kCorrupt);
}

TEST(ChecksumStore, TakesTheChecksumThatWasFoundOnTheWay) {
  class Arriving final : public ForwardingStore {
   public:
    using ForwardingStore::ForwardingStore;
    Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                          std::span<std::byte> out) override {
      auto got = ForwardingStore::Get(ctx, key, options, out);
      if (got) got->received_crc32c = *got->crc32c + wrong;
      return got;
    }
    std::uint32_t wrong = 0;
  };
  auto arriving = std::make_unique<Arriving>(std::make_unique<MemObjectStore>());
  Arriving* const inner = arriving.get();
  auto store = WithChecksum(std::move(arriving));
  const Context ctx = Context::Background();
  ASSERT_OK(store->Put(ctx, "k", AsBytes("abc"), {}));
  std::array<std::byte, 3> out;
  EXPECT_OK(store->Get(ctx, "k", {}, out));
  inner->wrong = 1;
  EXPECT_CODE(store->Get(ctx, "k", {}, out), Code::kCorrupt);
}

TEST(ChecksumStore, ForgivesObjectsWithoutOne) {
  auto mem = std::make_unique<MemObjectStore>();
  ASSERT_OK(PutString(*mem, kCtx, "k", "hello"));
  auto store = WithChecksum(std::move(mem));
  EXPECT_OK(GetString(*store, kCtx, "k", 10));
}

TEST(TokenBucket, SpreadsBytesOverTime) {
  paddleop::testing::ManualClock clock;
  internal::TokenBucket bucket(1000, clock);
  EXPECT_EQ(bucket.Reserve(100), seconds(0));  // the bucket begins full: a tenth of a second
  EXPECT_EQ(bucket.Reserve(500), milliseconds(500));
  EXPECT_EQ(bucket.Reserve(500), seconds(1));  // behind the first
  bucket.Return(500);
  clock.Advance(milliseconds(500));
  EXPECT_EQ(bucket.Reserve(0), seconds(0));
  clock.Advance(seconds(3600));
  EXPECT_EQ(bucket.Reserve(1100), seconds(1));  // an idle hour gives no burst
}

class LimitStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clock_.set_auto_advance(true);
    store_ = WithBandwidthLimit(std::make_unique<MemObjectStore>(),
                                {.upload_mbps = 8, .download_mbps = 16}, clock_);
  }
  paddleop::testing::ManualClock clock_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(LimitStoreTest, HoldsUploadsAndDownloadsToTheirRates) {
  const std::string block(1'000'000, 'x');
  auto start = clock_.Now();
  for (int i = 0; i < 10; ++i) ASSERT_OK(PutString(*store_, kCtx, "k", block));
  EXPECT_NEAR(std::chrono::duration<double>(clock_.Now() - start).count(), 10.0, 0.2);
  start = clock_.Now();
  std::string buffer(block.size(), '\0');
  for (int i = 0; i < 10; ++i) ASSERT_OK(GetAll(*store_, "k", buffer));
  EXPECT_NEAR(std::chrono::duration<double>(clock_.Now() - start).count(), 5.0, 0.2);
}

TEST_F(LimitStoreTest, ChargesForWhatWasReadOnly) {
  ASSERT_OK(PutString(*store_, kCtx, "k", "small"));
  const auto start = clock_.Now();
  std::string buffer(1000, '\0');
  for (int i = 0; i < 1000; ++i) ASSERT_OK(GetAll(*store_, "k", buffer));
  EXPECT_LT(clock_.Now() - start, milliseconds(100));
}

TEST(LimitStore, RefusesAtOnceWhatCannotBeginInTime) {
  auto store = WithBandwidthLimit(std::make_unique<MemObjectStore>(), {.upload_mbps = 8});
  const std::string block(5'000'000, 'x');
  auto put = PutString(*store, kCtx.WithTimeout(seconds(2)), "k", block);
  ASSERT_CODE(put, Code::kDeadline);
  EXPECT_THAT(put.error().message(), HasSubstr("8 Mbps up"));
  std::promise<Code> code;
  store->StartPut(kCtx.WithTimeout(seconds(2)), "k", AsBytes(block), {},
                  [&](Result<void> r) { code.set_value(r ? Code::kInternal : r.error().code()); });
  EXPECT_EQ(code.get_future().get(), Code::kDeadline);
  EXPECT_OK(PutString(*store, kCtx, "k", "small"));  // and left the bucket as it was
}

TEST(LimitStore, DelaysAsynchronousTransfers) {
  auto store = WithBandwidthLimit(std::make_unique<MemObjectStore>(),
                                  {.upload_mbps = 8, .download_mbps = 8});
  const std::string block(150'000, 'x');
  std::promise<void> put;
  const auto start = std::chrono::steady_clock::now();
  store->StartPut(kCtx, "k", AsBytes(block), {}, [&](Result<void> r) {
    EXPECT_OK(r);
    put.set_value();
  });
  put.get_future().get();
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(45));
  std::promise<void> got;
  std::string buffer(block.size(), '\0');
  store->StartGet(kCtx, "k", {}, std::as_writable_bytes(std::span(buffer)),
                  [&](Result<GetResult> r) {
                    EXPECT_OK(r);
                    got.set_value();
                  });
  got.get_future().get();
  EXPECT_EQ(buffer, block);
}

TEST(LimitStore, ClosingItCancelsWhatWaits) {
  auto store = WithBandwidthLimit(std::make_unique<MemObjectStore>(), {.upload_mbps = 1});
  const std::string block(8'000'000, 'x');
  std::promise<Code> code;
  store->StartPut(kCtx, "k", AsBytes(block), {},
                  [&](Result<void> r) { code.set_value(r ? Code::kInternal : r.error().code()); });
  store.reset();
  EXPECT_EQ(code.get_future().get(), Code::kCancelled);
}

TEST(MetricsStore, CountsOperationsBytesAndErrors) {
  MetricsRegistry registry;
  auto store = WithMetrics(std::make_unique<MemObjectStore>(), registry);
  ASSERT_OK(PutString(*store, kCtx, "k", "12345"));
  ASSERT_OK(GetString(*store, kCtx, "k", 10));
  EXPECT_CODE(GetString(*store, kCtx, "missing", 10), Code::kNotFound);
  std::string buffer(5, '\0');
  store->StartGet(kCtx, "k", {}, std::as_writable_bytes(std::span(buffer)),
                  [](Result<GetResult> r) { EXPECT_OK(r); });
  const std::string text = registry.Serialize();
  EXPECT_THAT(text, HasSubstr("paddleop_object_bytes_total{direction=\"read\"} 10"));
  EXPECT_THAT(text, HasSubstr("paddleop_object_bytes_total{direction=\"written\"} 5"));
  EXPECT_THAT(text, HasSubstr("paddleop_object_request_seconds_count{op=\"get\"} 3"));
  EXPECT_THAT(text, HasSubstr("paddleop_object_errors_total{code=\"not_found\",op=\"get\"} 1"));
  EXPECT_THAT(text, HasSubstr("paddleop_object_errors_total{code=\"corrupt\",op=\"list\"} 0"));
  EXPECT_THAT(text, HasSubstr("paddleop_object_in_flight{op=\"get\"} 0"));
}

TEST(ThreadedStore, RefusesWhatItCannotQueue) {
  auto faulty = std::make_unique<FaultyObjectStore>(std::make_unique<MemObjectStore>());
  faulty->InjectRandomly(Op::kPut, {Fault::Kind::kSlow, seconds(60)}, 1);
  auto store = WithThreads(std::move(faulty), {.threads = 1, .queue_limit = 2});
  EXPECT_TRUE(store->traits().asynchronous);
  std::stop_source stop;
  const Context ctx = kCtx.WithStop(stop.get_token());
  std::atomic<int> refused = 0, ended = 0;
  for (int i = 0; i < 10; ++i) {
    store->StartPut(ctx, "k", AsBytes("x"), {}, [&](Result<void> r) {
      ++ended;
      if (!r && r.error().code() == Code::kUnavailable) ++refused;
    });
  }
  EXPECT_GE(refused, 7);
  stop.request_stop();
  store.reset();
  EXPECT_EQ(ended, 10);
}

TEST(DelayQueue, RunsTasksInTheOrderOfTheirTimes) {
  internal::DelayQueue queue("test");
  std::promise<void> done;
  std::vector<int> order;
  queue.Run(kCtx, milliseconds(30), [&](bool due) {
    EXPECT_TRUE(due);
    order.push_back(2);
    done.set_value();
  });
  queue.Run(kCtx, milliseconds(1), [&](bool due) {
    EXPECT_TRUE(due);
    order.push_back(1);
  });
  done.get_future().get();
  EXPECT_EQ(order, (std::vector{1, 2}));
  queue.Stop();
  bool ran = false;
  queue.Run(kCtx, milliseconds(1), [&](bool due) { ran = !due; });
  EXPECT_TRUE(ran);
}

TEST(DelayQueue, WhereNoThreadCanBeStartedTasksReportAtOnce) {
  internal::DelayQueue queue("test");
  int reported = 0;
  {
    const paddleop::testing::NoMoreThreads none;
    queue.Run(kCtx, std::chrono::minutes(1), [&](bool due) { reported += due ? 0 : 1; });
    EXPECT_EQ(reported, 1);
  }
  std::promise<bool> later;
  queue.Run(kCtx, milliseconds(1), [&](bool due) { later.set_value(due); });
  EXPECT_TRUE(later.get_future().get());
  EXPECT_EQ(reported, 1) << "once";
}

}  // namespace
}  // namespace paddleop::volume::object::testing
