// Deletion, trash, open files and sessions.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "volume/format/chunk_view.h"
#include "volume/format/trash.h"
#include "volume/meta/testing/meta_contract.h"

namespace paddleop::volume::testing {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

TEST_P(MetaStoreContract, DeletedFilesWaitForSomeoneWhoCanDelete) {
  const Ino file = MakeFile(kRootIno, "a", 10000);
  const std::uint64_t id = store_->ReadSlices(ctx_, file, 0)->front().id;
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  const auto waiting = store_->ListDeletedFiles(ctx_, 10);
  ASSERT_OK(waiting);
  ASSERT_EQ(waiting->size(), 1U);
  EXPECT_EQ(waiting->front().ino, file);
  EXPECT_EQ(waiting->front().length, 10000U);

  DeletedSlices deleted;
  auto other = OpenAnother();
  other->SetSliceDeleter(deleted.Deleter());
  ASSERT_OK(other->RunMaintenance(ctx_, /*ignore_leases=*/false));
  EXPECT_THAT(deleted.ids(), IsEmpty())
      << "within its first hour it is left to the one that deleted it";
  ASSERT_OK(other->RunMaintenance(ctx_, /*ignore_leases=*/true));
  EXPECT_THAT(deleted.ids(), ElementsAre(id));
  EXPECT_THAT(*store_->ListDeletedFiles(ctx_, 10), IsEmpty());
  ExpectConsistent();
}

TEST_P(MetaStoreContract, WhatWasCutOffGoesAtOnce) {
  DeletedSlices deleted;
  store_->SetSliceDeleter(deleted.Deleter());
  const Ino file = MakeFile(kRootIno, "a");
  std::vector<std::uint64_t> ids;
  for (const std::uint32_t index : {0U, 1U, 2U, 3U, 9U, 2U}) {
    ids.push_back(*store_->NewSliceId(ctx_));
    ASSERT_OK(store_->WriteSlice(ctx_, file, index, Whole(ids.back(), 5000), {}));
  }
  ASSERT_OK(store_->Truncate(ctx_, root_, file, 2 * kChunkSize + 1000));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted.ids(), UnorderedElementsAre(ids[3], ids[4]));
  EXPECT_THAT(*store_->ReadSlices(ctx_, file, 3), IsEmpty());
  // What comes back is zeros.
  ASSERT_OK(store_->Truncate(ctx_, root_, file, 4 * kChunkSize));
  for (const std::uint32_t index : {2U, 3U}) {
    const auto view = BuildChunkView(*store_->ReadSlices(ctx_, file, index),
                                     static_cast<std::uint32_t>(kChunkSize));
    for (const Slice& piece : view) EXPECT_TRUE(piece.id == 0 || piece.pos + piece.len <= 1000);
  }
  ExpectConsistent();
  ASSERT_OK(store_->Truncate(ctx_, root_, file, kChunkSize));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted.ids(), UnorderedElementsAre(ids[1], ids[2], ids[3], ids[4], ids[5]));
  ExpectConsistent();
  ASSERT_OK(store_->Truncate(ctx_, root_, file, 0));
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted.ids(), UnorderedElementsAreArray(ids));
  int left = 0;
  ASSERT_OK(store_->ScanChunks(ctx_, [&](Ino, std::uint32_t, const std::vector<Slice>&) {
    ++left;
    return Result<void>();
  }));
  EXPECT_EQ(left, 0);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, AVeryLargeFileIsCutInSteps) {
  const Ino file = MakeFile(kRootIno, "a");
  for (std::uint32_t index = 0; index < 2500; ++index) {
    ASSERT_OK(store_->WriteSlice(ctx_, file, index, Whole(1'000'000 + index, 10), {}));
  }
  const auto cut = store_->Truncate(ctx_, root_, file, 7);
  ASSERT_OK(cut);
  EXPECT_EQ(cut->length, 7U);
  EXPECT_EQ(store_->GetAttr(ctx_, file)->length, 7U);
  int left = 0;
  ASSERT_OK(store_->ScanChunks(ctx_, [&](Ino, std::uint32_t, const std::vector<Slice>&) {
    ++left;
    return Result<void>();
  }));
  EXPECT_EQ(left, 1);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, ASliceWhoseObjectsStayIsTriedAgain) {
  bool fail = true;
  int calls = 0;
  store_->SetSliceDeleter([&](const Context&, SliceKey) -> Result<void> {
    ++calls;
    if (fail) return Fail(Code::kUnavailable, "store is away");
    return {};
  });
  MakeFile(kRootIno, "a", 10);
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_EQ(calls, 1);
  fail = false;
  ASSERT_OK(store_->RunMaintenance(ctx_, /*ignore_leases=*/true));
  EXPECT_EQ(calls, 2);
  ASSERT_OK(store_->RunMaintenance(ctx_, /*ignore_leases=*/true));
  EXPECT_EQ(calls, 2);
}

TEST_P(MetaStoreContract, AnOpenFileOutlivesItsLastName) {
  DeletedSlices deleted;
  store_->SetSliceDeleter(deleted.Deleter());
  ASSERT_OK(store_->OpenSession(ctx_, {.version = "1.3.1", .host_name = "h", .mount_point = "m"}));
  const Ino file = MakeFile(kRootIno, "a", 10);
  ASSERT_OK(store_->Open(ctx_, root_, file, kMayRead));
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  const auto attr = store_->GetAttr(ctx_, file);
  ASSERT_OK(attr);
  EXPECT_EQ(attr->nlink, 0U);
  EXPECT_OK(store_->SetAttr(ctx_, root_, file, {.mode = 0600}));
  auto other = OpenAnother();
  EXPECT_CODE(other->SetAttr(ctx_, root_, file, {.mode = 0640}), Code::kNotFound)
      << "nobody there can have come to it but by the name that it had";
  EXPECT_CODE(other->SetAttr(ctx_, root_, file, {.length = 1}), Code::kNotFound);
  EXPECT_OK(store_->SetXattr(ctx_, file, "user.a", "1", XattrMode::kAny));
  EXPECT_CODE(other->SetXattr(ctx_, file, "user.a", "2", XattrMode::kAny), Code::kNotFound);
  EXPECT_CODE(other->RemoveXattr(ctx_, file, "user.a"), Code::kNotFound);
  EXPECT_EQ(*store_->GetXattr(ctx_, file, "user.a"), "1");
  EXPECT_OK(store_->RemoveXattr(ctx_, file, "user.a"));
  const auto id = store_->NewSliceId(ctx_);
  EXPECT_OK(store_->WriteSlice(ctx_, file, 0, Whole(*id, 9000), {}));
  ASSERT_OK(store_->Close(ctx_, file));
  EXPECT_CODE(store_->GetAttr(ctx_, file), Code::kNotFound);
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_EQ(deleted.ids().size(), 2U);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, DeadClientsAreCleanedUpAfter) {
  const Ino file = MakeFile(kRootIno, "a", 10);
  paddleop::testing::ManualClock clock(std::chrono::system_clock::now());
  {
    MetaOptions options;
    options.clock = &clock;
    auto dying = OpenAnother(options);
    ASSERT_OK(dying->OpenSession(ctx_, {.host_name = "h", .mount_point = "m"}));
    ASSERT_OK(dying->Open(ctx_, root_, file, kMayRead));
    ASSERT_OK(dying->Unlink(ctx_, root_, kRootIno, "a"));
    ASSERT_EQ(store_->ListSessions(ctx_)->size(), 1U);
    // Others leave it alone while it lives...
    ASSERT_OK(store_->RunMaintenance(ctx_, /*ignore_leases=*/true));
    EXPECT_OK(store_->GetAttr(ctx_, file));
    // ...and clean up when its time is over.
    paddleop::testing::ManualClock later(std::chrono::system_clock::now() +
                                         std::chrono::minutes(5));
    MetaOptions late;
    late.clock = &later;
    auto heir = OpenAnother(late);
    ASSERT_OK(heir->RunMaintenance(ctx_, /*ignore_leases=*/true));
    EXPECT_CODE(store_->GetAttr(ctx_, file), Code::kNotFound);
    EXPECT_THAT(*store_->ListSessions(ctx_), IsEmpty());
  }
  ExpectConsistent();
}

TEST_P(MetaStoreContract, AnOpenThatSucceededKeepsTheFileAndACloseLetsItGo) {
  ASSERT_OK(store_->OpenSession(ctx_, {.host_name = "h", .mount_point = "m"}));
  int opened = 0;
  for (int round = 0; round < 300; ++round) {
    const Ino file = MakeFile(kRootIno, "a", 10);
    std::atomic<bool> opens = false;
    std::jthread opener([&] {
      opens = true;
      while (store_->Open(ctx_, root_, file, kMayRead)) {
        ++opened;
        EXPECT_OK(store_->ReadSlices(ctx_, file, 0)) << "open, but gone";
        ASSERT_OK(store_->Close(ctx_, file));
      }
    });
    while (!opens) std::this_thread::yield();
    ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
    opener.join();
    ASSERT_CODE(store_->GetAttr(ctx_, file), Code::kNotFound) << "nobody deleted it";
  }
  EXPECT_GT(opened, 0);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, WhatCouldNotBeDeletedWhenItWasClosedIsDeletedLater) {
  ASSERT_OK(store_->OpenSession(ctx_, {.host_name = "h", .mount_point = "m"}));
  const Ino file = MakeFile(kRootIno, "a", 10);
  ASSERT_OK(store_->Open(ctx_, root_, file, kMayRead));
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_CODE(store_->Close(ctx_.WithStop(stop.get_token()), file), Code::kCancelled);
  EXPECT_OK(store_->GetAttr(ctx_, file));
  ASSERT_OK(store_->RunMaintenance(ctx_, /*ignore_leases=*/false));
  EXPECT_CODE(store_->GetAttr(ctx_, file), Code::kNotFound);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, AClientThatIsBusyWithDeletionsBeatsOn) {
  paddleop::testing::ManualClock clock(std::chrono::system_clock::now());
  MetaOptions options;
  options.clock = &clock;
  auto busy = OpenAnother(options);
  std::promise<void> arrived;
  std::promise<void> release;
  auto released = release.get_future().share();
  busy->SetSliceDeleter([&, once = std::make_shared<std::once_flag>()](const Context&, SliceKey) {
    std::call_once(*once, [&] { arrived.set_value(); });
    released.wait();
    return Result<void>();
  });
  MakeFile(kRootIno, "a", 10);
  ASSERT_OK(busy->OpenSession(ctx_, {.host_name = "h", .mount_point = "m"}));
  ASSERT_OK(busy->Unlink(ctx_, root_, kRootIno, "a"));
  arrived.get_future().wait();
  const auto expires = [&] { return store_->ListSessions(ctx_)->front().expires; };
  const std::int64_t before = expires();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (expires() < before + 120 && std::chrono::steady_clock::now() < end) {
    clock.Advance(std::chrono::seconds(1));
  }
  EXPECT_GE(expires(), before + 120);
  release.set_value();
  ASSERT_OK(busy->DrainDeletions(ctx_));
}

TEST_P(MetaStoreContract, ACleanExitLeavesNoSession) {
  {
    auto other = OpenAnother();
    ASSERT_OK(other->OpenSession(ctx_, {.host_name = "h", .mount_point = "m"}));
    const auto sessions = store_->ListSessions(ctx_);
    ASSERT_OK(sessions);
    ASSERT_EQ(sessions->size(), 1U);
    EXPECT_THAT(sessions->front().info_json, ::testing::HasSubstr("\"HostName\":\"h\""));
  }
  EXPECT_THAT(*store_->ListSessions(ctx_), IsEmpty());
}

TEST_P(MetaStoreContract, TrashKeepsWhatIsRemoved) {
  Setting setting = TestSetting();
  setting.trash_days = 1;
  Reformat(setting);
  const Ino dir = MakeDir(kRootIno, "d");
  const Ino file = MakeFile(dir, "f", 5000);
  const Ino over = MakeFile(dir, "g", 6000);
  ASSERT_OK(store_->SetXattr(ctx_, file, "user.a", "1", XattrMode::kAny));
  ASSERT_OK(store_->Unlink(ctx_, root_, dir, "f"));
  MakeFile(dir, "h", 1);
  ASSERT_OK(store_->Rename(ctx_, root_, dir, "h", dir, "g", RenameMode::kReplace));
  ASSERT_OK(store_->RemoveTree(ctx_, root_, kRootIno, "d", {}));
  EXPECT_THAT(List(kRootIno), IsEmpty());

  const auto trash = store_->Lookup(ctx_, root_, kRootIno, ".trash");
  ASSERT_OK(trash);
  EXPECT_EQ(trash->ino, kTrashIno);
  const auto hours = List(kTrashIno);
  ASSERT_FALSE(hours.empty());
  const auto hour = store_->Lookup(ctx_, root_, kTrashIno, hours.front());
  ASSERT_OK(hour);
  const auto name = [](Ino parent, Ino ino, const char* text) {
    return TrashEntryName(parent, ino, text);
  };
  EXPECT_OK(store_->Lookup(ctx_, root_, hour->ino, name(dir, file, "f")));
  EXPECT_OK(store_->Lookup(ctx_, root_, hour->ino, name(dir, over, "g")));
  EXPECT_OK(store_->Lookup(ctx_, root_, hour->ino, name(kRootIno, dir, "d")));
  EXPECT_EQ(store_->GetAttr(ctx_, file)->parent, hour->ino);
  EXPECT_CODE(store_->SetAttr(ctx_, root_, file, {.mode = 0777}), Code::kPermission);
  EXPECT_CODE(store_->SetXattr(ctx_, file, "user.a", "2", XattrMode::kAny), Code::kPermission);
  EXPECT_CODE(store_->RemoveXattr(ctx_, file, "user.a"), Code::kPermission);
  EXPECT_EQ(*store_->GetXattr(ctx_, file, "user.a"), "1");
  EXPECT_CODE(store_->Mkdir(ctx_, root_, hour->ino, "x", 0755), Code::kNotFound);
  EXPECT_CODE(store_->Mkdir(ctx_, root_, dir, "x", 0755), Code::kNotFound);

  // Out of the trash again.
  ASSERT_OK(store_->Rename(ctx_, root_, hour->ino, name(dir, file, "f"), kRootIno, "back",
                           RenameMode::kReplace));
  EXPECT_EQ(store_->Lookup(ctx_, root_, kRootIno, "back")->ino, file);

  // Nothing is old enough yet; two days later everything is.
  ASSERT_OK(store_->RunMaintenance(ctx_, /*ignore_leases=*/true));
  EXPECT_EQ(List(kTrashIno), hours);
  paddleop::testing::ManualClock later(std::chrono::system_clock::now() + std::chrono::hours(48));
  MetaOptions options;
  options.clock = &later;
  auto heir = OpenAnother(options);
  DeletedSlices deleted;
  heir->SetSliceDeleter(deleted.Deleter());
  ASSERT_OK(heir->RunMaintenance(ctx_, /*ignore_leases=*/true));
  ASSERT_OK(heir->DrainDeletions(ctx_));
  EXPECT_THAT(List(kTrashIno), IsEmpty());
  EXPECT_EQ(deleted.ids().size(), 2U);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, WhatIsDeletedAfterTheTrashWasEmptiedIsThereAgain) {
  Setting setting = TestSetting();
  setting.trash_days = 1;
  Reformat(setting);
  paddleop::testing::ManualClock clock(std::chrono::system_clock::now());
  MetaOptions options;
  options.clock = &clock;
  store_ = OpenAnother(options);
  MakeFile(kRootIno, "a", 10);
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  const std::string hour = List(kTrashIno).front();
  const Ino trash = store_->Lookup(ctx_, root_, kTrashIno, hour)->ino;

  // The hours stay, whoever asks; what is in them goes.
  ASSERT_OK(store_->RemoveTree(ctx_, root_, kTrashIno, hour, {.skip_trash = true}));
  EXPECT_THAT(List(trash), IsEmpty());
  EXPECT_CODE(store_->Rmdir(ctx_, root_, kTrashIno, hour), Code::kPermission);
  EXPECT_CODE(store_->Rename(ctx_, root_, kTrashIno, hour, kRootIno, "x", RenameMode::kReplace),
              Code::kPermission);
  EXPECT_THAT(List(kTrashIno), ElementsAre(hour));

  // Another client whose clock is ahead cleans the hour away: it is made again.
  paddleop::testing::ManualClock later(clock.WallNow() + std::chrono::hours(48));
  MetaOptions ahead;
  ahead.clock = &later;
  auto other = OpenAnother(ahead);
  MakeDir(kRootIno, "d");
  MakeFile(kRootIno, "new", 10);
  const std::function<Result<void>()> removals[] = {
      [&] { return store_->Unlink(ctx_, root_, kRootIno, "f"); },
      [&] { return store_->Rmdir(ctx_, root_, kRootIno, "d"); },
      [&]() -> Result<void> {
        const std::vector<std::string> names = {"f"};
        RETURN_IF_ERROR(store_->UnlinkMany(ctx_, root_, kRootIno, names, false));
        return {};
      },
      [&]() -> Result<void> {
        RETURN_IF_ERROR(
            store_->Rename(ctx_, root_, kRootIno, "new", kRootIno, "f", RenameMode::kReplace));
        return {};
      },
      [&]() -> Result<void> {
        const std::vector<NewFile> files = {{.parent = kRootIno, .name = "f"}};
        CommitOptions replace;
        replace.replace = true;
        RETURN_IF_ERROR(store_->CommitFiles(ctx_, files, replace)[0]);
        return {};
      },
  };
  for (const auto& remove : removals) {
    ASSERT_OK(other->RunMaintenance(ctx_, /*ignore_leases=*/true));
    ASSERT_THAT(List(kTrashIno), IsEmpty());
    if (!store_->Lookup(ctx_, root_, kRootIno, "f")) MakeFile(kRootIno, "f", 10);
    ASSERT_OK(remove());
    ASSERT_THAT(List(kTrashIno), ElementsAre(hour));
    const Ino again = store_->Lookup(ctx_, root_, kTrashIno, hour)->ino;
    EXPECT_EQ(List(again).size(), 1U);
  }
}

TEST_P(MetaStoreContract, HardLinksGoToTheTrashOnce) {
  Setting setting = TestSetting();
  setting.trash_days = 1;
  Reformat(setting);
  const Ino file = MakeFile(kRootIno, "a", 10);
  ASSERT_OK(store_->Link(ctx_, root_, file, kRootIno, "b"));
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  EXPECT_EQ(store_->GetAttr(ctx_, file)->nlink, 2U);
  ASSERT_OK(store_->Link(ctx_, root_, file, kRootIno, "a"));
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  EXPECT_EQ(store_->GetAttr(ctx_, file)->nlink, 2U) << "the like of it is in the trash already";
  EXPECT_OK(store_->Lookup(ctx_, root_, kRootIno, "b"));
}

}  // namespace paddleop::volume::testing
