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

TEST_F(VfsTest, TimesTellOfWhatIsNotCommittedYet) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const Ino ino = file.entry.ino;
  const auto times = [&] {
    const auto attr = vfs().GetAttr(kCtx, ino);
    EXPECT_OK(attr);
    return std::pair(attr->mtime, attr->ctime);
  };
  auto before = times();
  for (int i = 0; i < 3; ++i) {
    // In chunks of their own: several slices, which are committed one after the other.
    for (const std::uint64_t at : {std::uint64_t{0}, kChunkSize, std::uint64_t{0}}) {
      ASSERT_OK(vfs().Write(kCtx, file.handle, at, AsBytes("data")));
      const auto written = times();
      EXPECT_GT(written.first, before.first);
      EXPECT_GT(written.second, before.second);
      const auto looked = vfs().Lookup(kCtx, {}, kRootIno, "f");
      ASSERT_OK(looked);
      EXPECT_EQ(looked->attr.mtime, written.first);
      const auto changed = vfs().SetAttr(kCtx, {}, ino, {.mode = 0600});
      ASSERT_OK(changed);
      EXPECT_EQ(changed->mtime, written.first);
      before = times();
    }
    ASSERT_OK(vfs().Flush(kCtx, file.handle));
    EXPECT_EQ(times().first, before.first) << "that of the last write";
    EXPECT_GE(times().second, before.second);
    before = times();
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, ACommitTakesNoTimeBack) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const Ino ino = file.entry.ino;
  Client other(url_, objects_);
  other.Start({});
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("first")));
  const auto theirs = other.vfs->Open(kCtx, {}, ino, {.read = true, .write = true});
  ASSERT_OK(theirs);
  ASSERT_OK(other.vfs->Write(kCtx, theirs->handle, 0, AsBytes("second")));
  ASSERT_OK(other.vfs->Release(kCtx, theirs->handle));
  const auto later = vfs().meta().GetAttr(kCtx, ino);
  EXPECT_EQ(vfs().GetAttr(kCtx, ino)->mtime, later->mtime);
  ASSERT_OK(vfs().Flush(kCtx, file.handle));
  EXPECT_EQ(vfs().GetAttr(kCtx, ino)->mtime, later->mtime);

  // A time that is still to come is none of a write.
  const Timestamp to_come{.seconds = later->mtime.seconds + 100'000, .nanos = 0};
  ASSERT_OK(vfs().SetAttr(kCtx, {}, ino, {.mtime = to_come}));
  EXPECT_EQ(vfs().GetAttr(kCtx, ino)->mtime, to_come);
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("third")));
  const Timestamp written = vfs().GetAttr(kCtx, ino)->mtime;
  EXPECT_LT(written, to_come);
  EXPECT_GT(written, later->mtime);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  EXPECT_EQ(vfs().GetAttr(kCtx, ino)->mtime, written);
}

// What another client appends.
void AppendElsewhere(Client& other, Ino ino, std::string_view text) {
  const auto file = other.vfs->Open(kCtx, {}, ino, {.read = true, .write = true});
  ASSERT_OK(file);
  ASSERT_OK(other.vfs->Append(kCtx, file->handle, AsBytes(text)));
  ASSERT_OK(other.vfs->Release(kCtx, file->handle));
}

// Opens the file; `meanwhile` runs between the volume's answer and its arrival.
Result<OpenedFile> OpenAnsweredLate(Client& client, Ino ino, OpenFlags flags,
                                    const std::function<void()>& meanwhile) {
  client.meta->HoldNextAnswer();
  Result<OpenedFile> opened = Fail(Code::kInternal, "not opened");
  std::jthread opener([&] { opened = client.vfs->Open(kCtx, {}, ino, flags); });
  EXPECT_TRUE(client.meta->AwaitHeldAnswer());
  meanwhile();
  client.meta->LetAnswerThrough();
  opener.join();
  return opened;
}

TEST_F(VfsTest, WhoIsAboutToOpenHasNoHandle) {
  const auto made = MustCreate("f");
  const Ino ino = made.entry.ino;
  EXPECT_TRUE(vfs().HasHandle(ino));
  ASSERT_OK(vfs().Release(kCtx, made.handle));
  EXPECT_FALSE(vfs().HasHandle(ino));
  const auto opened = OpenAnsweredLate(*client_, ino, {.read = true}, [&] {
    EXPECT_TRUE(vfs().IsOpen(ino));
    EXPECT_FALSE(vfs().HasHandle(ino));
  });
  ASSERT_OK(opened);
  EXPECT_TRUE(vfs().HasHandle(ino));
  ASSERT_OK(vfs().Release(kCtx, opened->handle));
}

TEST_F(VfsTest, AnAnswerThatComesLateShortensNoFile) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto made = MustCreate("f");
  const Ino ino = made.entry.ino;
  ASSERT_OK(vfs().Append(kCtx, made.handle, AsBytes("one,")));
  ASSERT_OK(vfs().Release(kCtx, made.handle));
  Client other(url_, objects_);
  other.Start({});

  Result<OpenedFile> second = Fail(Code::kInternal, "not opened");
  const auto first = OpenAnsweredLate(*client_, ino, {.read = true, .write = true}, [&] {
    AppendElsewhere(other, ino, "two,");
    second = vfs().Open(kCtx, {}, ino, {.read = true, .write = true});
    ASSERT_OK(second);
  });
  ASSERT_OK(first);
  ASSERT_OK(vfs().Append(kCtx, second->handle, AsBytes("three,")));
  EXPECT_EQ(ReadAll(vfs(), second->handle), "one,two,three,");
  ASSERT_OK(vfs().Release(kCtx, first->handle));
  ASSERT_OK(vfs().Release(kCtx, second->handle));
}

TEST_F(VfsTest, ACutThatIsAnsweredLateHidesNoAppend) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const Ino ino = file.entry.ino;
  Client other(url_, objects_);
  other.Start({});
  for (const bool answered_between : {true, false}) {
    ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("zero")));
    client_->meta->HoldNextAnswer();
    std::jthread cutter([&] { EXPECT_OK(vfs().SetAttr(kCtx, {}, ino, {.length = 0})); });
    ASSERT_TRUE(client_->meta->AwaitHeldAnswer());
    AppendElsewhere(other, ino, "one,");
    if (answered_between) {
      const auto opened = vfs().Open(kCtx, {}, ino, {.read = true, .write = true});
      ASSERT_OK(opened);
      client_->meta->LetAnswerThrough();
      cutter.join();
      ASSERT_OK(vfs().Append(kCtx, opened->handle, AsBytes("two")));
      ASSERT_OK(vfs().Release(kCtx, opened->handle));
    } else {
      client_->meta->LetAnswerThrough();
      cutter.join();
      const auto opened = vfs().Open(kCtx, {}, ino, {.read = true, .write = true});
      ASSERT_OK(opened);
      ASSERT_OK(vfs().Append(kCtx, opened->handle, AsBytes("two")));
      ASSERT_OK(vfs().Release(kCtx, opened->handle));
    }
    EXPECT_EQ(ReadAll(vfs(), file.handle), "one,two");
    ASSERT_OK(vfs().SetAttr(kCtx, {}, ino, {.length = 0}));
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, WhoOpensWhileACommitIsUnderWayKnowsOfAllAppends) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const Ino ino = file.entry.ino;
  Client other(url_, objects_);
  other.Start({});
  for (const bool committed : {true, false}) {
    ASSERT_OK(vfs().SetAttr(kCtx, {}, ino, {.length = 0}));
    AppendElsewhere(other, ino, "a long line,");
    const auto late = OpenAnsweredLate(*client_, ino, {.read = true, .write = true}, [&] {
      ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("A")));
      if (committed) {
        ASSERT_OK(vfs().Flush(kCtx, file.handle));
      }
    });
    ASSERT_OK(late);
    EXPECT_EQ(late->entry.attr.length, 12u);
    ASSERT_OK(vfs().Append(kCtx, late->handle, AsBytes("end")));
    EXPECT_EQ(ReadAll(vfs(), late->handle), "A long line,end");
    ASSERT_OK(vfs().Release(kCtx, late->handle));
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, WhoOpensWhileOthersWriteKnowsWhatWasCutOff) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const Ino ino = file.entry.ino;
  ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("a long line,")));
  ASSERT_OK(vfs().Flush(kCtx, file.handle));
  Client other(url_, objects_);
  other.Start({});
  ASSERT_OK(other.vfs->SetAttr(kCtx, {}, ino, {.length = 2}));
  const auto late = OpenAnsweredLate(*client_, ino, {.read = true, .write = true}, [&] {
    ASSERT_OK(vfs().Write(kCtx, file.handle, 1, AsBytes("bcd")));
  });
  ASSERT_OK(late);
  ASSERT_OK(vfs().Append(kCtx, late->handle, AsBytes("end")));
  EXPECT_EQ(ReadAll(vfs(), late->handle), "abcdend");
  ASSERT_OK(vfs().Release(kCtx, late->handle));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, WhoOpensWhileOthersCommitAllTheTimeKnowsOfAllAppends) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const Ino ino = file.entry.ino;
  Client other(url_, objects_);
  other.Start({});
  AppendElsewhere(other, ino, "a long line,");
  const auto commit = [&] {
    ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("A")));
    ASSERT_OK(vfs().Flush(kCtx, file.handle));
  };
  client_->meta->OnAttr(commit);
  const auto late =
      OpenAnsweredLate(*client_, ino, {.read = true, .write = true}, [&] { commit(); });
  client_->meta->OnAttr({});
  ASSERT_OK(late);
  ASSERT_OK(vfs().Append(kCtx, late->handle, AsBytes("end")));
  EXPECT_EQ(ReadAll(vfs(), late->handle), "A long line,end");
  ASSERT_OK(vfs().Release(kCtx, late->handle));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, ACutThatNobodyAnswersForIsACut) {
  Restart({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const Ino ino = file.entry.ino;
  ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("a long line")));
  ASSERT_OK(vfs().Flush(kCtx, file.handle));
  client_->meta->HoldNextChange();
  std::jthread cutter([&] { EXPECT_OK(vfs().SetAttr(kCtx, {}, ino, {.length = 3})); });
  ASSERT_TRUE(client_->meta->AwaitHeldAnswer());
  const auto opened = vfs().Open(kCtx, {}, ino, {.read = true});  // knows the old length
  ASSERT_OK(opened);
  client_->meta->RefuseAttrs(Code::kUnavailable);
  client_->meta->LetAnswerThrough();
  cutter.join();
  EXPECT_EQ(ReadAll(vfs(), opened->handle), "a l");
  client_->meta->RefuseAttrs({});
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("A")));
  EXPECT_EQ(vfs().GetAttr(kCtx, ino)->length, 3u);
  ASSERT_OK(vfs().Append(kCtx, file.handle, AsBytes("ine")));
  EXPECT_EQ(ReadAll(vfs(), file.handle), "A line");
  ASSERT_OK(vfs().Release(kCtx, opened->handle));
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
