#include "volume/object/testing/object_store_contract.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <stop_token>

#include "base/bytes.h"
#include "base/crc32c.h"

namespace paddleop::volume::object::testing {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_P(ObjectStoreContract, CreatingItAgainIsFine) { EXPECT_OK(store_->Create(ctx_)); }

TEST_P(ObjectStoreContract, WhatIsPutIsRead) {
  for (const std::size_t size : {0u, 1u, 4095u, 70'000u, 4u << 20}) {
    const std::string content = Pattern(size);
    Write("block", content);
    auto read = Read("block");
    ASSERT_OK(read);
    EXPECT_EQ(read->size(), size);
    EXPECT_TRUE(*read == content) << size;
  }
}

TEST_P(ObjectStoreContract, AMissingObjectIsNotFoundAndNamed) {
  auto read = Read("there/is/none");
  ASSERT_CODE(read, Code::kNotFound);
  EXPECT_THAT(read.error().message(), HasSubstr("there/is/none"));
  EXPECT_CODE(store_->Head(ctx_, "there/is/none"), Code::kNotFound);
}

TEST_P(ObjectStoreContract, ReadsRanges) {
  Write("digits", "0123456789");
  const auto range = [&](std::uint64_t offset, std::uint64_t length) {
    auto read = Read("digits", {.range = {offset, length}});
    return read ? *read : read.error().ToString();
  };
  EXPECT_EQ(range(0, 4), "0123");
  EXPECT_EQ(range(3, 4), "3456");
  EXPECT_EQ(range(9, 1), "9");
  EXPECT_EQ(range(7, 100), "789");
  EXPECT_EQ(range(4, ByteRange::kToEnd), "456789");
  EXPECT_EQ(range(10, 5), "");
  EXPECT_EQ(range(1000, ByteRange::kToEnd), "");
  Write("empty", "");
  auto read = Read("empty", {.range = {0, 10}});
  ASSERT_OK(read);
  EXPECT_EQ(*read, "");
}

TEST_P(ObjectStoreContract, TellsTheSizeOfTheWholeObjectWithARange) {
  Write("digits", "0123456789");
  std::string buffer(4, '\0');
  auto got =
      store_->Get(ctx_, "digits", {.range = {2, 4}}, std::as_writable_bytes(std::span(buffer)));
  ASSERT_OK(got);
  EXPECT_EQ(got->size, 4u);
  EXPECT_EQ(got->object_size, 10u);
  EXPECT_EQ(buffer, "2345");
}

TEST_P(ObjectStoreContract, AnObjectLargerThanTheBufferIsRefused) {
  Write("large", Pattern(100'000));
  std::string buffer(99'999, '\0');
  EXPECT_CODE(store_->Get(ctx_, "large", {}, std::as_writable_bytes(std::span(buffer))),
              Code::kInvalid);
}

TEST_P(ObjectStoreContract, ReplacesAnObject) {
  Write("k", "first, longer");
  Write("k", "second");
  auto read = Read("k");
  ASSERT_OK(read);
  EXPECT_EQ(*read, "second");
}

TEST_P(ObjectStoreContract, DeletesAndForgivesWhatIsMissing) {
  Write("k", "x");
  EXPECT_OK(store_->Delete(ctx_, "k"));
  EXPECT_CODE(Read("k"), Code::kNotFound);
  EXPECT_OK(store_->Delete(ctx_, "k"));
  EXPECT_OK(store_->Delete(ctx_, "never/was"));
}

TEST_P(ObjectStoreContract, DeletesMany) {
  std::vector<std::string> keys;
  for (int i = 0; i < 25; ++i) keys.push_back(fmt::format("dir/{:02}", i));
  for (const std::string& key : keys) Write(key, "x");
  Write("dir/keep", "x");
  keys.emplace_back("dir/never-was");
  auto failed = store_->DeleteMany(ctx_, keys);
  ASSERT_OK(failed);
  EXPECT_TRUE(failed->empty());
  EXPECT_THAT(Keys(), ElementsAre("dir/keep"));
  EXPECT_OK(store_->DeleteMany(ctx_, {}));
}

TEST_P(ObjectStoreContract, HeadTellsSizeAndTime) {
  const auto before = std::chrono::system_clock::now() - std::chrono::minutes(5);
  Write("k", Pattern(12'345));
  auto info = store_->Head(ctx_, "k");
  ASSERT_OK(info);
  EXPECT_EQ(info->key, "k");
  EXPECT_EQ(info->size, 12'345u);
  EXPECT_FALSE(info->is_prefix);
  if (!GetParam().has_mtime) return;
  EXPECT_GT(info->mtime, before);
  EXPECT_LT(info->mtime, std::chrono::system_clock::now() + std::chrono::minutes(5));
}

TEST_P(ObjectStoreContract, AnEtagTellsWhetherAnObjectChanged) {
  Write("k", "one");
  auto info = store_->Head(ctx_, "k");
  ASSERT_OK(info);
  if (info->etag.empty()) return;  // the store has none: redis
  auto entries = ListEntries(*store_, ctx_, {});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ(entries->front().etag, info->etag);

  EXPECT_OK(Read("k", {.if_match = info->etag}));
  EXPECT_OK(Read("k", {.range = {1, 1}, .if_match = info->etag}));
  Write("k", "two");
  EXPECT_CODE(Read("k", {.if_match = info->etag}), Code::kConflict);
  EXPECT_CODE(Read("k", {.range = {1, 1}, .if_match = info->etag}), Code::kConflict);
}

TEST_P(ObjectStoreContract, KeepsTheRecordedChecksum) {
  if (!store_->traits().metadata) return;
  const std::string content = "hello";
  ASSERT_OK(store_->Put(ctx_, "k", AsBytes(content), {.crc32c = Crc32c(content)}));
  std::string buffer(10, '\0');
  auto got = store_->Get(ctx_, "k", {}, std::as_writable_bytes(std::span(buffer)));
  ASSERT_OK(got);
  EXPECT_EQ(got->crc32c, 2591144780u);
}

TEST_P(ObjectStoreContract, ListsInByteOrder) {
  // '.' < '/' < '0': a directory does not sort by its own name.
  for (const char* key : {"b", "a/2", "a.x", "a0", "a/1/x", "a/10", "B", "\xc3\xa4"})
    Write(key, "x");
  EXPECT_THAT(Keys(), ElementsAre("B", "a.x", "a/1/x", "a/10", "a/2", "a0", "b", "\xc3\xa4"));
}

TEST_P(ObjectStoreContract, ListTellsSizes) {
  Write("a/b", "12345");
  auto entries = ListEntries(*store_, ctx_, {});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ(entries->front().size, 5u);
  EXPECT_FALSE(entries->front().is_prefix);
  if (!GetParam().has_mtime) return;
  EXPECT_GT(entries->front().mtime.time_since_epoch().count(), 0);
}

TEST_P(ObjectStoreContract, ListsByPrefix) {
  for (const char* key : {"a", "b/1", "b/12/3", "b/2", "bb", "c/1"}) Write(key, "x");
  EXPECT_THAT(Keys({.prefix = "b/"}), ElementsAre("b/1", "b/12/3", "b/2"));
  EXPECT_THAT(Keys({.prefix = "b/1"}), ElementsAre("b/1", "b/12/3"));
  EXPECT_THAT(Keys({.prefix = "b"}), ElementsAre("b/1", "b/12/3", "b/2", "bb"));
  EXPECT_THAT(Keys({.prefix = "d/"}), IsEmpty());
  EXPECT_THAT(Keys({.prefix = "a/b/c/d"}), IsEmpty());
}

TEST_P(ObjectStoreContract, ListsAfterAKey) {
  for (const char* key : {"a/1", "a/2", "a/3/x", "b", "c/1"}) Write(key, "x");
  EXPECT_THAT(Keys({.start_after = "a/2"}), ElementsAre("a/3/x", "b", "c/1"));
  EXPECT_THAT(Keys({.start_after = "a/2x"}), ElementsAre("a/3/x", "b", "c/1"));
  EXPECT_THAT(Keys({.start_after = "a/3/"}), ElementsAre("a/3/x", "b", "c/1"));
  EXPECT_THAT(Keys({.start_after = "a/3/x"}), ElementsAre("b", "c/1"));
  EXPECT_THAT(Keys({.prefix = "a/", .start_after = "a/1"}), ElementsAre("a/2", "a/3/x"));
  EXPECT_THAT(Keys({.prefix = "c/", .start_after = "a/1"}), ElementsAre("c/1"));
  EXPECT_THAT(Keys({.start_after = "z"}), IsEmpty());
}

TEST_P(ObjectStoreContract, ListsUpToALimitAndUntilToldToStop) {
  for (int i = 0; i < 10; ++i) Write(fmt::format("k{}", i), "x");
  EXPECT_THAT(Keys({.limit = 3}), ElementsAre("k0", "k1", "k2"));
  EXPECT_THAT(Keys({.start_after = "k2", .limit = 2}), ElementsAre("k3", "k4"));
  EXPECT_EQ(Keys({.limit = 10}).size(), 10u);
  int seen = 0;
  EXPECT_OK(store_->List(ctx_, {}, [&](ObjectInfo&) -> Result<bool> { return ++seen < 4; }));
  EXPECT_EQ(seen, 4);
  EXPECT_CODE(
      store_->List(ctx_, {},
                   [](ObjectInfo&) -> Result<bool> { return Fail(Code::kQuota, "enough"); }),
      Code::kQuota);
}

TEST_P(ObjectStoreContract, RollsUpByDelimiter) {
  for (const char* key : {"a", "b/1", "b/2/x", "c", "d/1", "d.e/1"}) Write(key, "x");
  EXPECT_THAT(Keys({.delimiter = "/"}), ElementsAre("a", "b/", "c", "d.e/", "d/"));
  EXPECT_THAT(Keys({.prefix = "b/", .delimiter = "/"}), ElementsAre("b/1", "b/2/"));
  EXPECT_THAT(Keys({.start_after = "b/", .delimiter = "/"}), ElementsAre("c", "d.e/", "d/"));
  EXPECT_THAT(Keys({.delimiter = "/", .limit = 2}), ElementsAre("a", "b/"));
  auto entries = ListEntries(*store_, ctx_, {.delimiter = "/"});
  ASSERT_OK(entries);
  EXPECT_FALSE(entries->at(0).is_prefix);
  EXPECT_TRUE(entries->at(1).is_prefix);
}

TEST_P(ObjectStoreContract, HoldsAwkwardKeys) {
  std::vector<std::string> keys = {" leading and trailing ",
                                   "a+b&c=d?e#f%2Fg%",
                                   "quotes\"'<>&amp;",
                                   "back\\slash",
                                   "~tilde!*()",
                                   "\xe5\x9b\xbe\xe7\x89\x87/\xe6\x95\xb0 1.jpg",
                                   "colon:semi;comma,at@",
                                   "new\nline and\ttab",
                                   "long/" + std::string(250, 'n')};
  if (GetParam().binary_keys) keys.emplace_back("bytes\x01\x7f\xff\xfe end");
  for (const std::string& key : keys) {
    Write(key, key);
    auto read = Read(key);
    ASSERT_OK(read) << key;
    EXPECT_EQ(*read, key);
    auto info = store_->Head(ctx_, key);
    ASSERT_OK(info) << key;
    EXPECT_EQ(info->size, key.size());
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(Keys(), keys);
  auto failed = store_->DeleteMany(ctx_, keys);
  ASSERT_OK(failed);
  for (const KeyError& failure : *failed)
    ADD_FAILURE() << failure.key << ": " << failure.error.ToString();
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_P(ObjectStoreContract, AnEmptyKeyIsRefused) {
  if (GetParam().empty_key) return;
  EXPECT_CODE(PutString(*store_, ctx_, "", "x"), Code::kInvalid);
}

TEST_P(ObjectStoreContract, KeysAreNoPaths) {
  if (!GetParam().flat_keys) return;
  Write("a", "file");
  Write("a/b", "below");
  EXPECT_THAT(Keys(), ElementsAre("a", "a/b"));
  EXPECT_OK(store_->Delete(ctx_, "a"));
  EXPECT_THAT(Keys(), ElementsAre("a/b"));
}

TEST_P(ObjectStoreContract, ADirectoryObjectIsEmptyAndFound) {
  Write("dir/", "");
  auto info = store_->Head(ctx_, "dir/");
  ASSERT_OK(info);
  EXPECT_EQ(info->size, 0u);
  EXPECT_THAT(Keys({.directories = true}), ElementsAre("dir/"));
  EXPECT_OK(store_->Delete(ctx_, "dir/"));
  EXPECT_THAT(Keys({.directories = true}), IsEmpty());
}

TEST_P(ObjectStoreContract, Copies) {
  if (!store_->traits().copy) return;
  const std::string content = Pattern(300'000);
  Write("from here", content);
  ASSERT_OK(store_->Copy(ctx_, "from here", "to/there+1"));
  auto read = Read("to/there+1");
  ASSERT_OK(read);
  EXPECT_TRUE(*read == content);
  EXPECT_OK(Read("from here"));
  EXPECT_CODE(store_->Copy(ctx_, "missing", "x"), Code::kNotFound);
}

TEST_P(ObjectStoreContract, UploadsInParts) {
  const StoreTraits traits = store_->traits();
  if (traits.max_parts == 0) {
    EXPECT_CODE(store_->CreateUpload(ctx_, "big", {}), Code::kNotSupported);
    return;
  }
  const std::string content = Pattern(traits.min_part_size + 1000);
  const std::string_view first = std::string_view(content).substr(0, traits.min_part_size);
  const std::string_view second = std::string_view(content).substr(first.size());
  auto upload = store_->CreateUpload(ctx_, "big one", {});
  ASSERT_OK(upload);
  auto part2 = store_->UploadPart(ctx_, "big one", *upload, 2, AsBytes(second));
  auto part1 = store_->UploadPart(ctx_, "big one", *upload, 1, AsBytes(first));
  ASSERT_OK(part1);
  ASSERT_OK(part2);
  EXPECT_CODE(Read("big one"), Code::kNotFound);
  ASSERT_OK(store_->CompleteUpload(ctx_, "big one", *upload, std::vector{*part1, *part2}));
  auto read = Read("big one");
  ASSERT_OK(read);
  EXPECT_TRUE(*read == content);
}

TEST_P(ObjectStoreContract, AnAbortedUploadLeavesNothing) {
  if (store_->traits().max_parts == 0) return;
  auto upload = store_->CreateUpload(ctx_, "k", {});
  ASSERT_OK(upload);
  ASSERT_OK(store_->UploadPart(ctx_, "k", *upload, 1, AsBytes("abc")));
  EXPECT_OK(store_->AbortUpload(ctx_, "k", *upload));
  EXPECT_OK(store_->AbortUpload(ctx_, "k", *upload));
  EXPECT_CODE(store_->CompleteUpload(ctx_, "k", *upload, std::vector{UploadedPart{1, "x", 3}}),
              Code::kNotFound);
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_P(ObjectStoreContract, ManyOperationsAtOnce) {
  constexpr int kCount = 200;
  std::vector<std::string> contents;
  for (int i = 0; i < kCount; ++i) contents.push_back(Pattern(static_cast<std::size_t>(i) * 97));
  std::atomic<int> failures = 0;
  const auto count = [&](Countdown& countdown) {
    return [&](Result<void> result) {
      if (!result) ++failures;
      countdown.Down();
    };
  };
  Countdown puts(kCount);
  for (int i = 0; i < kCount; ++i) {
    store_->StartPut(ctx_, fmt::format("many/{:03}", i),
                     AsBytes(contents[static_cast<std::size_t>(i)]), {}, count(puts));
  }
  ASSERT_TRUE(puts.Wait());
  ASSERT_EQ(failures, 0);

  Countdown gets(kCount + 1);
  std::vector<std::string> buffers(kCount + 1, std::string(20'000, '\0'));
  std::vector<Code> codes(kCount + 1, Code::kInternal);
  for (std::size_t i = 0; i <= kCount; ++i) {
    store_->StartGet(ctx_, fmt::format("many/{:03}", i), {},
                     std::as_writable_bytes(std::span(buffers[i])), [&, i](Result<GetResult> got) {
                       if (got) {
                         buffers[i].resize(got->size);
                       } else {
                         codes[i] = got.error().code();
                         ++failures;
                       }
                       gets.Down();
                     });
  }
  ASSERT_TRUE(gets.Wait());
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(codes[kCount], Code::kNotFound);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_TRUE(buffers[i] == contents[i]) << i;

  Countdown deletes(kCount);
  for (int i = 0; i < kCount; ++i)
    store_->StartDelete(ctx_, fmt::format("many/{:03}", i), count(deletes));
  ASSERT_TRUE(deletes.Wait());
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_P(ObjectStoreContract, AStoppedCallerGetsCancelled) {
  std::stop_source stop;
  stop.request_stop();
  const Context stopped = ctx_.WithStop(stop.get_token());
  std::string buffer(10, '\0');
  EXPECT_CODE(store_->Get(stopped, "k", {}, std::as_writable_bytes(std::span(buffer))),
              Code::kCancelled);
  EXPECT_CODE(store_->Put(stopped, "k", AsBytes("x"), {}), Code::kCancelled);
  Countdown done(1);
  Result<GetResult> result = GetResult{};
  store_->StartGet(stopped, "k", {}, std::as_writable_bytes(std::span(buffer)),
                   [&](Result<GetResult> got) {
                     result = std::move(got);
                     done.Down();
                   });
  ASSERT_TRUE(done.Wait());
  EXPECT_CODE(result, Code::kCancelled);
}

}  // namespace paddleop::volume::object::testing
