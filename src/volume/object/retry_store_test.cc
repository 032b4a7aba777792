#include "volume/object/retry_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <thread>

#include "base/bytes.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "volume/object/checksum_store.h"
#include "volume/object/forwarding_store.h"
#include "volume/object/testing/faulty_store.h"
#include "volume/object/testing/mem_object.h"
#include "volume/object/testing/object_store_contract.h"

namespace paddleop::volume::object::testing {
namespace {

using ::testing::HasSubstr;

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Fault::Kind;

constexpr BackoffOptions kQuick{
    .initial = milliseconds(1), .maximum = milliseconds(4), .max_attempts = 8};

// All operations of the contract hold while a third of the attempts fail.
std::unique_ptr<ObjectStore> OpenUnreliable() {
  const std::uint64_t seed = std::random_device{}();
  std::fprintf(stderr, "faults with seed %llu\n", static_cast<unsigned long long>(seed));
  auto faulty = std::make_unique<FaultyObjectStore>(std::make_unique<MemObjectStore>(), seed);
  for (const Op op : {Op::kGet, Op::kPut, Op::kDelete, Op::kHead, Op::kList}) {
    faulty->InjectRandomly(op, {Kind::kUnavailable}, 0.15);
    faulty->InjectRandomly(op, {Kind::kReset}, 0.15);
  }
  faulty->InjectRandomly(Op::kGet, {Kind::kShortRead}, 0.1);
  BackoffOptions patient = kQuick;
  patient.max_attempts = 100;
  return WithRetry(std::move(faulty), {.backoff = patient});
}

INSTANTIATE_TEST_SUITE_P(Retry, ObjectStoreContract,
                         ::testing::Values(StoreCase{.name = "Unreliable", .open = OpenUnreliable}),
                         NameOfCase);

class RetryStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clock_.set_auto_advance(true);
    Open({.backoff = kQuick});
  }
  void Open(const RetryOptions& options) {
    auto faulty = std::make_unique<FaultyObjectStore>(std::make_unique<MemObjectStore>());
    faulty_ = faulty.get();
    store_ = WithRetry(std::move(faulty), options, clock_, &metrics_);
  }
  double Retries() { return metrics_.AddCounter("paddleop_object_retries_total", "").Value(); }

  const Context ctx_ = Context::Background();
  paddleop::testing::ManualClock clock_;
  MetricsRegistry metrics_;
  FaultyObjectStore* faulty_ = nullptr;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(RetryStoreTest, TriesAgainUntilItWorks) {
  ASSERT_OK(PutString(*store_, ctx_, "k", "content"));
  faulty_->Inject(Op::kGet, {Kind::kUnavailable}, 3);
  auto read = GetString(*store_, ctx_, "k", 100);
  ASSERT_OK(read);
  EXPECT_EQ(*read, "content");
  EXPECT_EQ(faulty_->calls(Op::kGet), 4);
  EXPECT_EQ(Retries(), 3);
}

TEST_F(RetryStoreTest, GivesUpAfterTheAttemptsWithTheStoresOwnError) {
  faulty_->Inject(Op::kPut, {Kind::kUnavailable}, 100);
  auto put = PutString(*store_, ctx_, "k", "x");
  ASSERT_CODE(put, Code::kUnavailable);
  EXPECT_THAT(put.error().message(), HasSubstr("503 SlowDown"));
  EXPECT_EQ(faulty_->calls(Op::kPut), 9);
}

TEST_F(RetryStoreTest, DoesNotRepeatWhatCannotGetBetter) {
  EXPECT_CODE(GetString(*store_, ctx_, "missing", 10), Code::kNotFound);
  EXPECT_EQ(faulty_->calls(Op::kGet), 1);
  ASSERT_OK(PutString(*store_, ctx_, "k", "x"));
  std::string buffer(10, '\0');
  EXPECT_CODE(
      store_->Get(ctx_, "k", {.if_match = "other"}, std::as_writable_bytes(std::span(buffer))),
      Code::kConflict);
  EXPECT_EQ(faulty_->calls(Op::kGet), 2);
}

TEST_F(RetryStoreTest, ReturnsTheStoresErrorWhenTheDeadlineWouldPass) {
  RetryOptions slow{.backoff = {.initial = seconds(5), .jitter = 0}};
  Open(slow);
  faulty_->Inject(Op::kHead, {Kind::kUnavailable}, 100);
  EXPECT_CODE(store_->Head(ctx_.WithTimeout(seconds(4)), "k"), Code::kUnavailable);
  EXPECT_EQ(faulty_->calls(Op::kHead), 1);
}

// Refuses `refusals` times, then says nothing until the caller gives up.
class SilentStore final : public ForwardingStore {
 public:
  explicit SilentStore(int refusals)
      : ForwardingStore(std::make_unique<MemObjectStore>()), refusals_(refusals) {}
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override {
    if (refusals_-- > 0) return Fail(Code::kUnavailable, "{}: 503 SlowDown", key);
    while (!ctx.Expired()) std::this_thread::sleep_for(milliseconds(1));
    return Fail(Code::kDeadline, "{}: too slow", key);
  }

 private:
  int refusals_;
};

TEST_F(RetryStoreTest, ReturnsTheStoresErrorWhenTheDeadlineCutsALaterAttempt) {
  const auto refusing = WithRetry(std::make_unique<SilentStore>(2), {.backoff = kQuick}, clock_);
  const auto head = refusing->Head(ctx_.WithTimeout(milliseconds(50)), "k");
  ASSERT_CODE(head, Code::kUnavailable);
  EXPECT_THAT(head.error().message(), HasSubstr("no time left for another attempt: k: 503"));
  // A first attempt that was cut has no other cause.
  const auto silent = WithRetry(std::make_unique<SilentStore>(0), {.backoff = kQuick}, clock_);
  EXPECT_CODE(silent->Head(ctx_.WithTimeout(milliseconds(50)), "k"), Code::kDeadline);
}

TEST_F(RetryStoreTest, DelaysGrowAndRespectRetryAfter) {
  Open({.backoff = {.initial = seconds(1), .maximum = seconds(4), .jitter = 0, .max_attempts = 4}});
  faulty_->Inject(Op::kHead, {Kind::kUnavailable}, 100);
  auto start = clock_.Now();
  EXPECT_CODE(store_->Head(ctx_, "k"), Code::kUnavailable);
  EXPECT_EQ(clock_.Now() - start, seconds(1 + 2 + 4 + 4));
  faulty_->set_retry_after(seconds(12));
  start = clock_.Now();
  EXPECT_CODE(store_->Head(ctx_, "k"), Code::kUnavailable);
  EXPECT_EQ(clock_.Now() - start, seconds(4 * 12));
  // Within reason, and not at the price of the last tries before the deadline.
  faulty_->set_retry_after(seconds(3600));
  start = clock_.Now();
  EXPECT_CODE(store_->Head(ctx_, "k"), Code::kUnavailable);
  EXPECT_EQ(clock_.Now() - start, seconds(4 * 15));
  start = clock_.Now();
  EXPECT_CODE(store_->Head(ctx_.WithTimeout(seconds(10)), "k"), Code::kUnavailable);
  EXPECT_EQ(clock_.Now() - start, seconds(1 + 2 + 4 + 4));
}

TEST_F(RetryStoreTest, AnAttemptThatHangsIsGivenUp) {
  Open({.backoff = kQuick, .attempt_timeout = milliseconds(20)});
  ASSERT_OK(PutString(*store_, ctx_, "k", "x"));
  faulty_->Inject(Op::kGet, {Kind::kSlow, seconds(60)}, 2);
  EXPECT_OK(GetString(*store_, ctx_, "k", 10));
  EXPECT_EQ(faulty_->calls(Op::kGet), 3);
  faulty_->Inject(Op::kGet, {Kind::kSlow, seconds(60)}, 100);
  auto read = GetString(*store_, ctx_, "k", 10);
  ASSERT_CODE(read, Code::kUnavailable);
  EXPECT_THAT(read.error().message(), HasSubstr("no answer within 0.02 s"));
}

TEST_F(RetryStoreTest, DownloadsAndUploadsMayHaveTimeLimitsOfTheirOwn) {
  Open({.backoff = kQuick, .get_timeout = milliseconds(20), .put_timeout = milliseconds(30)});
  faulty_->Inject(Op::kPut, {Kind::kSlow, seconds(60)}, 1);
  ASSERT_OK(PutString(*store_, ctx_, "k", "x"));
  EXPECT_EQ(faulty_->calls(Op::kPut), 2);
  faulty_->Inject(Op::kGet, {Kind::kSlow, seconds(60)}, 100);
  auto read = GetString(*store_, ctx_, "k", 10);
  ASSERT_CODE(read, Code::kUnavailable);
  EXPECT_THAT(read.error().message(), HasSubstr("no answer within 0.02 s"));
}

TEST_F(RetryStoreTest, ReadsACorruptBodyAgainButNotForEver) {
  auto faulty = std::make_unique<FaultyObjectStore>(std::make_unique<MemObjectStore>());
  faulty_ = faulty.get();
  store_ = WithRetry(WithChecksum(std::move(faulty)), {.backoff = kQuick}, clock_);
  ASSERT_OK(PutString(*store_, ctx_, "k", "some content"));
  faulty_->Inject(Op::kGet, {Kind::kCorrupt}, 2);
  auto read = GetString(*store_, ctx_, "k", 100);
  ASSERT_OK(read);
  EXPECT_EQ(*read, "some content");
  faulty_->Inject(Op::kGet, {Kind::kCorrupt}, 100);
  EXPECT_CODE(GetString(*store_, ctx_, "k", 100), Code::kCorrupt);
  EXPECT_EQ(faulty_->calls(Op::kGet), 3 + 3);
}

TEST_F(RetryStoreTest, AListingGoesOnWhereItBroke) {
  for (int i = 0; i < 20; ++i) ASSERT_OK(PutString(*store_, ctx_, fmt::format("k{:02}", i), "x"));
  faulty_->Inject(Op::kList, {Kind::kReset}, 15);
  auto entries = ListEntries(*store_, ctx_, {.limit = 18});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 18u);
  for (std::size_t i = 0; i < entries->size(); ++i)
    EXPECT_EQ(entries->at(i).key, fmt::format("k{:02}", i));
}

TEST_F(RetryStoreTest, AVisitorsErrorIsNotRetried) {
  ASSERT_OK(PutString(*store_, ctx_, "k", "x"));
  EXPECT_CODE(
      store_->List(ctx_, {},
                   [](ObjectInfo&) -> Result<bool> { return Fail(Code::kUnavailable, "mine"); }),
      Code::kUnavailable);
  EXPECT_EQ(faulty_->calls(Op::kList), 1);
}

TEST_F(RetryStoreTest, DeleteManyRepeatsOnlyWhatFailed) {
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) keys.push_back(fmt::format("k{}", i));
  for (const auto& key : keys) ASSERT_OK(PutString(*store_, ctx_, key, "x"));
  faulty_->Inject(Op::kDelete, {Kind::kUnavailable}, 3, 4);
  auto failed = store_->DeleteMany(ctx_, keys);
  ASSERT_OK(failed);
  EXPECT_TRUE(failed->empty());
  EXPECT_EQ(faulty_->calls(Op::kDelete), 13);
}

TEST_F(RetryStoreTest, ACompletedUploadWhoseReplyWasLostIsRecognised) {
  auto upload = store_->CreateUpload(ctx_, "k", {});
  ASSERT_OK(upload);
  auto part = store_->UploadPart(ctx_, "k", *upload, 1, AsBytes("abc"));
  ASSERT_OK(part);
  faulty_->Inject(Op::kUpload, {Kind::kReset});
  EXPECT_OK(store_->CompleteUpload(ctx_, "k", *upload, std::vector{*part}));
  // Without a lost reply a missing upload is what it looks like.
  EXPECT_CODE(store_->CompleteUpload(ctx_, "k", *upload, std::vector{*part}), Code::kNotFound);
}

TEST_F(RetryStoreTest, AsynchronousOperationsRetryToo) {
  ASSERT_OK(PutString(*store_, ctx_, "k", "content"));
  faulty_->Inject(Op::kGet, {Kind::kUnavailable}, 3);
  Countdown done(1);
  std::string buffer(100, '\0');
  Result<GetResult> result = GetResult{};
  store_->StartGet(ctx_, "k", {}, std::as_writable_bytes(std::span(buffer)),
                   [&](Result<GetResult> got) {
                     result = std::move(got);
                     done.Down();
                   });
  ASSERT_TRUE(done.Wait());
  ASSERT_OK(result);
  EXPECT_EQ(buffer.substr(0, result->size), "content");
  EXPECT_EQ(Retries(), 3);

  faulty_->Inject(Op::kDelete, {Kind::kUnavailable}, 100);
  Countdown deleted(1);
  Result<void> last;
  store_->StartDelete(ctx_, "k", [&](Result<void> r) {
    last = std::move(r);
    deleted.Down();
  });
  ASSERT_TRUE(deleted.Wait());
  EXPECT_CODE(last, Code::kUnavailable);
  EXPECT_EQ(faulty_->calls(Op::kDelete), 9);
}

TEST_F(RetryStoreTest, AStoppedCallerNeedNotWaitForTheDelay) {
  Open({.backoff = {.initial = std::chrono::hours(1)}});
  faulty_->Inject(Op::kPut, {Kind::kUnavailable}, 100);
  std::stop_source stop;
  Countdown done(1);
  Result<void> result;
  store_->StartPut(ctx_.WithStop(stop.get_token()), "k", AsBytes("x"), {}, [&](Result<void> r) {
    result = std::move(r);
    done.Down();
  });
  stop.request_stop();
  ASSERT_TRUE(done.Wait());
  EXPECT_CODE(result, Code::kUnavailable);
}

TEST_F(RetryStoreTest, ClosingTheStoreCompletesWhatWaits) {
  Open({.backoff = {.initial = std::chrono::hours(1)}});
  faulty_->Inject(Op::kPut, {Kind::kUnavailable}, 100);
  Countdown done(5);
  for (int i = 0; i < 5; ++i) {
    store_->StartPut(ctx_, "k", AsBytes("x"), {}, [&](Result<void> r) {
      EXPECT_CODE(r, Code::kUnavailable);
      done.Down();
    });
  }
  store_.reset();
  EXPECT_TRUE(done.Wait(seconds(0)));
}

}  // namespace
}  // namespace paddleop::volume::object::testing
