// What a file's writer tells the metadata, and does when that refuses or its answer is lost.
#include <gtest/gtest.h>

#include <thread>

#include "volume/vfs/testing/vfs_fixture.h"

namespace paddleop::volume::testing {
namespace {

using namespace std::chrono_literals;

TEST_F(VfsTest, WhatTheMetadataRefusesForAWhileIsNotLost) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  std::string content;
  for (const Code away : {Code::kUnavailable, Code::kDeadline, Code::kCancelled}) {
    client_->meta->RefuseSlices(away);
    ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("data")));
    content += "data";
    // There is time left, but too little to wait for another attempt.
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(vfs().Flush(kCtx.WithTimeout(120ms), file.handle));
    client_->meta->RefuseSlices({});
    EXPECT_OK(vfs().Flush(kCtx, file.handle)) << "nothing was lost";
    EXPECT_EQ(ReadAll(vfs(), file.handle), content);
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, TheBackgroundCommitsWhatTheMetadataRefusedBefore) {
  Restart({.flush_idle = 10ms, .flush_age = 10ms, .io_timeout = 100ms});
  const auto file = MustCreate("f");
  client_->meta->RefuseSlices(Code::kUnavailable);
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  EXPECT_FALSE(vfs().Flush(kCtx.WithTimeout(300ms), file.handle));
  client_->meta->RefuseSlices({});
  const auto end = std::chrono::steady_clock::now() + 20s;
  const auto length = [&] { return vfs().meta().GetAttr(kCtx, file.entry.ino)->length; };
  while (length() != 4 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(length(), 4u);
  EXPECT_OK(vfs().Release(kCtx, file.handle)) << "nothing was lost";
}

TEST_F(VfsTest, WhatWasGivenUpIsNotCommittedLater) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  client_->meta->RefuseSlices(Code::kNoSpace);
  // The opener goes away while the objects are deleted.
  std::stop_source stop;
  uploads_->OnDelete([&] { stop.request_stop(); });
  EXPECT_FALSE(vfs().Open(kCtx.WithStop(stop.get_token()), {}, file.entry.ino, {.read = true}));
  EXPECT_TRUE(stop.stop_requested());
  uploads_->OnDelete({});
  client_->meta->RefuseSlices({});
  EXPECT_CODE(vfs().Flush(kCtx, file.handle), Code::kNoSpace) << "who wrote it is told";
  EXPECT_EQ(vfs().meta().GetAttr(kCtx, file.entry.ino)->length, 0u);
  EXPECT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AnAppendGoesToTheEndOfAFileWhoseCutWasNotAnswered) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("log", {.read = true, .write = true, .append = true});
  for (const bool silent : {false, true}) {  // also when it is asked what has become of it
    ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("a long line")));
    EXPECT_EQ(ReadAll(vfs(), file.handle), "a long line");
    client_->meta->LoseAnswers(true);
    if (silent) client_->meta->RefuseAttrs(Code::kUnavailable);
    EXPECT_CODE(vfs().SetAttr(kCtx, {}, file.entry.ino, {.length = 0}), Code::kUnavailable);
    client_->meta->LoseAnswers(false);
    if (silent) {
      EXPECT_CODE(vfs().Append(kCtx, file.handle, AsBytes("short")), Code::kUnavailable);
      client_->meta->RefuseAttrs({});
    }
    ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("short")));
    EXPECT_EQ(ReadAll(vfs(), file.handle), "short");
    ASSERT_OK(vfs().SetAttr(kCtx, {}, file.entry.ino, {.length = 0}));
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, TheTimeOfTheLastWriteStays) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("begun first")));
  ASSERT_OK(vfs().Write(kCtx, file.handle, 1'000'000, AsBytes("begun second")));
  const auto between = Timestamp::From(std::chrono::system_clock::now());
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("written last")));
  ASSERT_OK(vfs().Flush(kCtx, file.handle));
  EXPECT_GE(vfs().GetAttr(kCtx, file.entry.ino)->mtime, between);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

}  // namespace
}  // namespace paddleop::volume::testing
