// The Redis engine of the metadata on a real server: what it stores, byte for byte, and what
// happens when the server's end comes in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "integration/meta_redis_fixture.h"
#include "volume/format/codec.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(MetaRedisTest, ANewVolumeHasASettingAndTwoDirectories) {
  EXPECT_THAT(Raw({"GET", "setting"}), HasSubstr("\"Name\": \"test\""));
  auto root = DecodeAttr(Raw({"GET", "i1"}));
  ASSERT_OK(root);
  EXPECT_EQ(root->mode, 0777);
  EXPECT_EQ(root->nlink, 2u);
  EXPECT_EQ(root->mtime.nanos, 0u);
  auto trash = DecodeAttr(Raw({"GET", "i9223372032828243968"}));
  ASSERT_OK(trash);
  EXPECT_EQ(trash->mode, 0555);
  EXPECT_EQ(Raw({"DBSIZE"}), "3");  // no counters, no statistics
  EXPECT_CODE(Open()->Format(ctx_, TestSetting(), false), Code::kAlreadyExists);
}

// The life of one file of five bytes, as the layout's worked example has it.
TEST_F(MetaRedisTest, StoresWhatTheLayoutSays) {
  std::vector<SliceKey> deleted;
  store_->SetSliceDeleter([&](const Context&, SliceKey slice) -> Result<void> {
    deleted.push_back(slice);
    return {};
  });
  auto file = store_->Create(ctx_, root_, kRootIno, "a", 0644, true);
  ASSERT_OK(file);
  EXPECT_EQ(file->ino, Ino{2});
  EXPECT_EQ(RawHex({"HGET", "d1", "a"}), "010000000000000002");
  const std::string created = Raw({"GET", "i2"});
  EXPECT_EQ(created.size(), 72u);
  auto attr = DecodeAttr(created);
  ASSERT_OK(attr);
  EXPECT_EQ(attr->parent, kRootIno);
  EXPECT_EQ(attr->nlink, 1u);
  EXPECT_EQ(Raw({"GET", "usedSpace"}), "4096");
  EXPECT_EQ(Raw({"GET", "totalInodes"}), "1");

  auto id = store_->NewSliceId(ctx_);
  ASSERT_OK(id);
  EXPECT_EQ(*id, 1u);
  const Slice slice{.pos = 0, .id = 1, .size = 5, .off = 0, .len = 5};
  ASSERT_OK(store_->WriteSlice(ctx_, file->ino, 0, slice, {.seconds = 1700000001, .nanos = 2}));
  EXPECT_EQ(RawHex({"LINDEX", "c2_0", 0}), "000000000000000000000001000000050000000000000005");
  EXPECT_EQ(Raw({"LLEN", "c2_0"}), "1");
  EXPECT_EQ(Raw({"GET", "usedSpace"}), "4096");
  EXPECT_EQ(Raw({"HGET", "dirDataLength", "1"}), "5");
  EXPECT_EQ(Raw({"HGET", "dirUsedSpace", "1"}), "4096");
  EXPECT_EQ(Raw({"HGET", "dirUsedInodes", "1"}), "1");
  EXPECT_EQ(Raw({"EXISTS", "sliceRef"}), "0");

  ASSERT_OK(store_->Close(ctx_, file->ino));
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  EXPECT_EQ(Raw({"EXISTS", "d1"}), "0");
  attr = DecodeAttr(Raw({"GET", "i2"}));
  ASSERT_OK(attr);
  const Ino hour{0x7FFFFFFF10000001};
  EXPECT_EQ(attr->parent, hour);
  EXPECT_EQ(RawHex({"HGET", "d9223372032828243969", "1-2-a"}), "010000000000000002");
  EXPECT_EQ(Raw({"HLEN", "d9223372032828243968"}), "1");
  EXPECT_EQ(Raw({"GET", "nextTrash"}), "1");
  EXPECT_EQ(Raw({"GET", "totalInodes"}), "2");  // the hourly directory counts

  ASSERT_OK(store_->Unlink(ctx_, root_, hour, "1-2-a"));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted, ElementsAre(SliceKey{.id = 1, .size = 5}));
  for (const char* key : {"i2", "c2_0", "x2", "delfiles", "sliceRef"}) {
    EXPECT_EQ(Raw({"EXISTS", key}), "0") << key;
  }
  EXPECT_EQ(Raw({"GET", "usedSpace"}), "4096");
  EXPECT_EQ(Raw({"GET", "totalInodes"}), "1");
}

TEST_F(MetaRedisTest, FilesThatShareASliceCountItsReferences) {
  constexpr SliceKey kPack{.id = 7, .size = 4096};
  std::vector<NewFile> files;
  for (std::uint32_t i = 0; i < 3; ++i) {
    files.push_back(FileOf(fmt::format("f{}", i),
                           {{.pos = 0, .id = 7, .size = 4096, .off = i * 100, .len = 100}}, 100));
  }
  for (const auto& ino : store_->CommitFiles(ctx_, files, {})) ASSERT_OK(ino);
  EXPECT_EQ(Raw({"HGET", "sliceRef", "k7_4096"}), "2");
  EXPECT_EQ(Raw({"HLEN", "d1"}), "3");
  EXPECT_EQ(RawHex({"LINDEX", "c3_0", 0}), "000000000000000000000007000010000000006400000064");
  EXPECT_EQ(Raw({"GET", "usedSpace"}), "12288");
  EXPECT_EQ(Raw({"GET", "totalInodes"}), "3");
  EXPECT_EQ(Raw({"HGET", "dirDataLength", "1"}), "300");

  std::vector<SliceKey> deleted;
  store_->SetSliceDeleter([&](const Context&, SliceKey slice) -> Result<void> {
    deleted.push_back(slice);
    return {};
  });
  for (const char* name : {"f0", "f1"}) {
    ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, name, /*skip_trash=*/true));
    ASSERT_OK(store_->DrainDeletions(ctx_));
  }
  EXPECT_EQ(Raw({"HGET", "sliceRef", "k7_4096"}), "0");
  EXPECT_THAT(deleted, IsEmpty());
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "f2", /*skip_trash=*/true));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_THAT(deleted, ElementsAre(kPack));
  EXPECT_EQ(Raw({"HEXISTS", "sliceRef", "k7_4096"}), "0");
}

TEST_F(MetaRedisTest, HardLinksKeepTheirParentsInAHash) {
  auto file = store_->Create(ctx_, root_, kRootIno, "a", 0644, true);
  ASSERT_OK(file);
  ASSERT_OK(store_->Close(ctx_, file->ino));
  auto dir = store_->Mkdir(ctx_, root_, kRootIno, "d", 0755);
  ASSERT_OK(dir);
  ASSERT_OK(store_->Link(ctx_, root_, file->ino, dir->ino, "b"));
  EXPECT_EQ(Raw({"HGET", "p2", "1"}), "1");
  EXPECT_EQ(Raw({"HGET", "p2", ToInt(dir->ino)}), "1");
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a", true));
  EXPECT_EQ(Raw({"HGET", "p2", "1"}), "0");
  ASSERT_OK(store_->Unlink(ctx_, root_, dir->ino, "b", true));
  EXPECT_EQ(Raw({"EXISTS", "p2"}), "0");
}

TEST_F(MetaRedisTest, StatisticsThatAreMissingAreCounted) {
  auto dir = store_->Mkdir(ctx_, root_, kRootIno, "d", 0755);
  ASSERT_OK(dir);
  ASSERT_OK(store_->Mkdir(ctx_, root_, dir->ino, "one", 0755));
  // As in a volume whose statistics were off for a time.
  for (const char* key : {"dirDataLength", "dirUsedSpace", "dirUsedInodes"}) {
    ASSERT_EQ(Raw({"HDEL", key, ToInt(dir->ino)}), "1");
  }
  auto other = OpenLoaded();
  ASSERT_OK(other->Mkdir(ctx_, root_, dir->ino, "two", 0755));
  auto usage = other->GetDirUsage(ctx_, dir->ino);
  ASSERT_OK(usage);
  EXPECT_EQ(*usage, (DirUsage{.length = 0, .space = 8192, .inodes = 2}));
}

TEST_F(MetaRedisTest, ANameThatPointsToNoInodeIsDamage) {
  ASSERT_EQ(Raw({"HSET", "d1", "a", EncodeEdge({.ino = Ino{77}, .type = FileType::kFile})}), "1");
  ASSERT_OK(store_->Mknod(ctx_, root_, kRootIno, "b", FileType::kFile, 0644, 0));
  const auto rename = [&](const char* from, const char* to, RenameMode mode) {
    return store_->Rename(ctx_, root_, kRootIno, from, kRootIno, to, mode);
  };
  EXPECT_CODE(rename("a", "c", RenameMode::kReplace), Code::kCorrupt);
  EXPECT_CODE(rename("b", "a", RenameMode::kExchange), Code::kCorrupt);
  EXPECT_CODE(store_->Create(ctx_, root_, kRootIno, "a", 0644, /*exclusive=*/false),
              Code::kCorrupt);
  EXPECT_OK(rename("b", "a", RenameMode::kReplace));
}

TEST_F(MetaRedisTest, ListsLargeDirectories) {
  constexpr int kFiles = 9000;  // more than are listed in the order of names
  std::vector<NewFile> files;
  for (int i = 0; i < kFiles; ++i) {
    const auto id = static_cast<std::uint64_t>(i) + 1;
    files.push_back(FileOf(fmt::format("file-{:05}", i),
                           {{.pos = 0, .id = id, .size = 10, .off = 0, .len = 10}}, 10));
  }
  for (const auto& ino : store_->CommitFiles(ctx_, files, {})) ASSERT_OK(ino);
  for (const bool with_attrs : {false, true}) {
    const auto names = List(*store_, kRootIno, 500, with_attrs);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), kFiles);
  }
  auto tree = store_->LoadTree(ctx_, kRootIno, true);
  ASSERT_OK(tree);
  EXPECT_EQ(tree->node_count(), kFiles + 1);
  const auto node = tree->Lookup(tree->Find(kRootIno), "file-04711");
  ASSERT_NE(node, Tree::kNone);
  EXPECT_THAT(tree->Slices(node, 0),
              ElementsAre(Slice{.pos = 0, .id = 4712, .size = 10, .off = 0, .len = 10}));
  int chunks = 0;
  ASSERT_OK(
      store_->ScanChunks(ctx_, [&](Ino, std::uint32_t, std::vector<Slice> slices) -> Result<void> {
        EXPECT_THAT(slices, SizeIs(1));
        ++chunks;
        return {};
      }));
  EXPECT_EQ(chunks, kFiles);

  auto dir = store_->Mkdir(ctx_, root_, kRootIno, "sub", 0755);
  ASSERT_OK(dir);
  ASSERT_OK(
      store_->Rename(ctx_, root_, kRootIno, "file-00000", dir->ino, "moved", RenameMode::kReplace));
  auto removed = store_->RemoveTree(ctx_, root_, kRootIno, "sub", {.skip_trash = true});
  ASSERT_OK(removed);
  EXPECT_EQ(removed->removed, 2u);
}

TEST_F(MetaRedisTest, PagesOfSmallDirectoriesAreSortedAndBounded) {
  std::vector<NewFile> files;
  for (int i = 0; i < 100; ++i) files.push_back(FileOf(fmt::format("{:03}", 99 - i), {}, 0));
  for (const auto& ino : store_->CommitFiles(ctx_, files, {})) ASSERT_OK(ino);
  auto page = store_->ReadDir(ctx_, root_, kRootIno, "", 30, false);
  ASSERT_OK(page);
  ASSERT_EQ(page->entries.size(), 30u);
  EXPECT_EQ(page->entries.front().name, "000");
  // What goes away between two pages takes nothing else with it.
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "005", true));
  page = store_->ReadDir(ctx_, root_, kRootIno, page->next, 30, false);
  ASSERT_OK(page);
  ASSERT_EQ(page->entries.size(), 30u);
  EXPECT_EQ(page->entries.front().name, "030");
}

TEST_F(MetaRedisTest, SparseFilesOfManyChunksAreTruncated) {
  auto file = store_->Create(ctx_, root_, kRootIno, "sparse", 0644, true);
  ASSERT_OK(file);
  const Slice slice{.pos = 0, .id = 1, .size = 5, .off = 0, .len = 5};
  // Found by asking for each, and by looking through the database.
  for (const std::uint64_t chunks : {20'000ULL, 600'000ULL}) {
    ASSERT_OK(store_->WriteSlice(ctx_, file->ino, 15'000, slice, {.seconds = 1, .nanos = 0}));
    ASSERT_OK(store_->Truncate(ctx_, root_, file->ino, chunks * kChunkSize));
    auto slices = store_->ReadSlices(ctx_, file->ino, 15'000);
    ASSERT_OK(slices);
    ASSERT_EQ(slices->size(), 2u);  // data, zeros when it grew
    EXPECT_EQ(slices->back().id, 0u);
    ASSERT_OK(store_->Truncate(ctx_, root_, file->ino, 1));
    slices = store_->ReadSlices(ctx_, file->ino, 15'000);
    ASSERT_OK(slices);
    EXPECT_TRUE(slices->empty()) << "what lies behind the end goes";
  }
  ASSERT_OK(store_->Close(ctx_, file->ino));
}

// What looking through it costs grows with the volume, and the file may be one of many.
TEST_F(MetaRedisTest, ChunksOfATerabyteAreFoundWithoutLookingThroughTheDatabase) {
  auto file = store_->Mknod(ctx_, root_, kRootIno, "sparse", FileType::kFile, 0644, 0);
  ASSERT_OK(file);
  const std::uint32_t indexes[] = {0, 9'999, 10'000, 16'383};
  for (const std::uint32_t index : indexes) {
    const Slice slice{.pos = 0, .id = index + 1, .size = 5, .off = 0, .len = 5};
    ASSERT_OK(store_->WriteSlice(ctx_, file->ino, index, slice, {.seconds = 1, .nanos = 0}));
  }
  ASSERT_OK(store_->Truncate(ctx_, root_, file->ino, 1ULL << 40));
  ASSERT_EQ(Raw({"CONFIG", "RESETSTAT"}), "OK");
  auto tree = store_->LoadTree(ctx_, kRootIno, true);
  ASSERT_OK(tree);
  const auto node = tree->Find(file->ino);
  ASSERT_NE(node, Tree::kNone);
  for (const std::uint32_t index : indexes) {
    const auto slices = tree->Slices(node, index);
    ASSERT_FALSE(slices.empty()) << index;
    EXPECT_EQ(slices.front().id, index + 1);
  }
  EXPECT_THAT(Raw({"INFO", "commandstats"}), Not(HasSubstr("cmdstat_scan:")));
}

TEST_F(MetaRedisTest, SessionsAreListedAndRemoved) {
  auto sid = store_->OpenSession(
      ctx_, {.version = "1.3.1", .host_name = "here", .mount_point = "/mnt", .process_id = 42});
  ASSERT_OK(sid);
  EXPECT_THAT(Raw({"HGET", "sessionInfos", *sid}), HasSubstr("\"ProcessID\":42"));
  auto file = store_->Create(ctx_, root_, kRootIno, "open", 0644, true);
  ASSERT_OK(file);
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "open", true));
  EXPECT_EQ(Raw({"SISMEMBER", fmt::format("session{}", *sid), ToInt(file->ino)}), "1");
  EXPECT_EQ(Raw({"EXISTS", fmt::format("i{}", ToInt(file->ino))}), "1");
  // Locks of ours go with the session; those of others stay.
  ASSERT_EQ(Raw({"HSET", "lockf9", fmt::format("{}_00000000000000AA", *sid), "W", "77_0", "R"}),
            "2");
  ASSERT_EQ(Raw({"SADD", fmt::format("locked{}", *sid), "lockf9"}), "1");
  auto sessions = store_->ListSessions(ctx_);
  ASSERT_OK(sessions);
  ASSERT_EQ(sessions->size(), 1u);
  EXPECT_EQ(sessions->front().sid, *sid);
  EXPECT_GT(sessions->front().expires, 1'700'000'000);

  ASSERT_OK(store_->CloseSession(ctx_));
  EXPECT_EQ(Raw({"EXISTS", "allSessions", "sessionInfos", fmt::format("session{}", *sid),
                 fmt::format("locked{}", *sid)}),
            "0");
  EXPECT_EQ(Raw({"HGET", "lockf9", "77_0"}), "R");
  EXPECT_EQ(Raw({"HLEN", "lockf9"}), "1");
  EXPECT_EQ(Raw({"EXISTS", fmt::format("i{}", ToInt(file->ino))}), "0");
}

TEST_F(MetaRedisTest, ADeadSessionThatCannotBeCleanedHoldsUpNothingElse) {
  auto file = store_->Mknod(ctx_, root_, kRootIno, "a", FileType::kFile, 0644, 0);
  ASSERT_OK(file);
  const Slice slice{.pos = 0, .id = 9, .size = 5, .off = 0, .len = 5};
  ASSERT_OK(store_->WriteSlice(ctx_, file->ino, 0, slice, {.seconds = 1, .nanos = 0}));
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a", /*skip_trash=*/true));
  ASSERT_EQ(Raw({"ZADD", "allSessions", 1, 41, 2, 42}), "2");
  ASSERT_EQ(Raw({"SET", "session41", "no set"}), "OK");

  const auto other = OpenLoaded();
  std::vector<SliceKey> deleted;
  other->SetSliceDeleter([&](const Context&, SliceKey key) -> Result<void> {
    deleted.push_back(key);
    return {};
  });
  EXPECT_CODE(other->RunMaintenance(ctx_, /*ignore_leases=*/true), Code::kCorrupt);
  EXPECT_EQ(Raw({"ZSCORE", "allSessions", 41}), "1");
  EXPECT_EQ(Raw({"ZSCORE", "allSessions", 42}), "(nil)");
  EXPECT_THAT(deleted, ElementsAre(SliceKey{.id = 9, .size = 5}));
}

TEST_F(MetaRedisTest, LookupWorksWhereScriptsAreForbidden) {
  ASSERT_OK(store_->Mkdir(ctx_, root_, kRootIno, "d", 0755));
  ASSERT_EQ(Raw({"ACL", "SETUSER", "plain", "on", ">pw", "~*", "+@all", "-@scripting"}), "OK");
  auto store =
      OpenMetaStore(ctx_, fmt::format("redis://plain:pw@127.0.0.1:{}/0", peer_->Get("port")), {});
  ASSERT_OK(store);
  ASSERT_OK((*store)->Load(ctx_));
  EXPECT_OK((*store)->Lookup(ctx_, root_, kRootIno, "d"));
  EXPECT_CODE((*store)->Lookup(ctx_, root_, kRootIno, "e"), Code::kNotFound);
  ASSERT_EQ(Raw({"ACL", "DELUSER", "plain"}), "1");
}

TEST_F(MetaRedisTest, TellsWhatIsWrongWithTheServer) {
  EXPECT_CODE(OpenMetaStore(ctx_, "redis://a:1,b:2/0", {}), Code::kNotSupported);
  auto stranger =
      OpenMetaStore(ctx_, fmt::format("redis://nobody:pw@127.0.0.1:{}/0", peer_->Get("port")), {});
  ASSERT_OK(stranger);
  EXPECT_CODE((*stranger)->Load(ctx_), Code::kPermission);
  auto empty = OpenMetaStore(ctx_, fmt::format("redis://127.0.0.1:{}/5", peer_->Get("port")), {});
  ASSERT_OK(empty);
  EXPECT_CODE((*empty)->Load(ctx_), Code::kNotFound);
}

TEST_F(MetaRedisTest, ReportsADamagedVolume) {
  ASSERT_EQ(Raw({"SET", "d1", "no hash"}), "OK");
  EXPECT_CODE(store_->Lookup(ctx_, root_, kRootIno, "a"), Code::kCorrupt);
  EXPECT_CODE(store_->Mkdir(ctx_, root_, kRootIno, "a", 0755), Code::kCorrupt);
  ASSERT_EQ(Raw({"SET", "i1", "short"}), "OK");
  EXPECT_CODE(store_->GetAttr(ctx_, kRootIno), Code::kCorrupt);
}

TEST_F(MetaRedisTest, AReadOnlyStoreWritesNothing) {
  MetaOptions options;
  options.read_only = true;
  auto store = OpenLoaded(options);
  EXPECT_CODE(store->Mkdir(ctx_, root_, kRootIno, "a", 0755), Code::kPermission);
  EXPECT_EQ(Raw({"DBSIZE"}), "3");
}

// Whatever was acknowledged is there afterwards, and nothing is there by half.
TEST_F(MetaRedisTest, SurvivesARestartOfTheServer) {
  std::atomic<bool> stop = false;
  std::vector<std::vector<std::string>> acknowledged(4);
  std::atomic<int> since_restart = 0;
  std::atomic<bool> restarted = false;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < acknowledged.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; !stop; ++i) {
          const std::string name = fmt::format("{}-{}", t, i);
          auto made = store_->Mknod(ctx_, root_, kRootIno, name, FileType::kFile, 0644, 0);
          if (made) {
            acknowledged[t].push_back(name);
            if (restarted) ++since_restart;
          } else {
            EXPECT_CODE(made, Code::kUnavailable);
          }
        }
      });
    }
    EXPECT_TRUE(paddleop::testing::WaitFor([&] { return std::stoi(Raw({"HLEN", "d1"})) > 20; }));
    for (int round = 0; round < 3; ++round) {
      EXPECT_OK(peer_->Command("kill redis"));
      EXPECT_OK(peer_->Command("start redis"));
    }
    restarted = true;
    EXPECT_TRUE(paddleop::testing::WaitFor([&] { return since_restart > 20; }));
    stop = true;
  }
  Connect();
  const auto names = List(*store_, kRootIno, 10'000, /*with_attrs=*/true);
  for (const auto& thread : acknowledged) {
    for (const std::string& name : thread) EXPECT_EQ(names.count(name), 1u) << name;
  }
  EXPECT_EQ(Raw({"GET", "totalInodes"}), std::to_string(names.size()));
  EXPECT_EQ(Raw({"HGET", "dirUsedInodes", "1"}), std::to_string(names.size()));
}

}  // namespace
}  // namespace paddleop::volume
