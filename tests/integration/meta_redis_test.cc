// The Redis engine of the metadata on a real server: what it stores, byte for byte, and what
// happens when several clients, or the server's end, come in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "redis/connection.h"
#include "support/peer.h"
#include "volume/format/codec.h"
#include "volume/format/trash.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Setting TestSetting() {
  Setting setting;
  setting.name = "test";
  setting.uuid = "e267db92-051d-4214-b1aa-e97bf61bff1a";
  setting.bucket = "/nowhere/";
  return setting;
}

// Runs `hook` once, when somebody asks for the time after it was set.
class HookedClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override { return Clock::System().Now(); }
  std::chrono::system_clock::time_point WallNow() const override {
    if (hook) std::exchange(hook, nullptr)();
    return Clock::System().WallNow();
  }
  bool SleepFor(const Context& ctx, Duration duration) override {
    return Clock::System().SleepFor(ctx, duration);
  }

  mutable std::function<void()> hook;
};

class MetaRedisTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto peer = testing::Peer::Start("redis", {"--appendonly"});
    ASSERT_OK(peer);
    peer_ = std::make_unique<testing::Peer>(*std::move(peer));
  }
  static void TearDownTestSuite() { peer_.reset(); }

  void SetUp() override {
    ASSERT_NE(peer_, nullptr);
    Connect();
    ASSERT_OK(raw_->Call(ctx_, {"FLUSHALL"}));
    store_ = Open();
    ASSERT_NE(store_, nullptr);
    ASSERT_OK(store_->Format(ctx_, TestSetting(), false));
    ASSERT_OK(store_->Load(ctx_));
  }

  void Connect() {
    redis::ConnectionOptions options;
    options.port = static_cast<std::uint16_t>(std::stoi(peer_->Get("port")));
    auto raw = redis::Connection::Open(ctx_, options);
    ASSERT_OK(raw);
    raw_ = *std::move(raw);
  }

  static std::string Url() { return peer_->Get("url"); }

  std::unique_ptr<MetaStore> Open(const MetaOptions& options = {}) {
    auto store = OpenMetaStore(ctx_, Url(), options);
    EXPECT_OK(store);
    return store ? *std::move(store) : nullptr;
  }
  std::unique_ptr<MetaStore> OpenLoaded(const MetaOptions& options = {}) {
    auto store = Open(options);
    if (store != nullptr) {
      EXPECT_OK(store->Load(ctx_));
    }
    return store;
  }

  // One reply as text: nil is "(nil)", integers in decimal.
  std::string Raw(std::initializer_list<redis::Arg> args) {
    auto reply = raw_->Call(ctx_, args);
    if (!reply) return reply.error().ToString();
    if (reply->is_nil()) return "(nil)";
    if (reply->type() == redis::Reply::Type::kInteger) return std::to_string(*reply->ToInteger());
    if (reply->is_array()) return fmt::format("({} elements)", reply->elements().size());
    return std::string(reply->text());
  }
  std::string RawHex(std::initializer_list<redis::Arg> args) { return HexEncode(Raw(args)); }

  NewFile FileOf(std::string name, std::vector<Slice> slices, std::uint64_t length) {
    NewFile file;
    file.parent = kRootIno;
    file.name = std::move(name);
    file.length = length;
    if (!slices.empty()) file.chunks.push_back({.index = 0, .slices = std::move(slices)});
    return file;
  }

  // All names of a directory, by pages of `limit`.
  std::multiset<std::string> List(MetaStore& store, Ino dir, std::size_t limit, bool with_attrs) {
    std::multiset<std::string> names;
    std::string cursor;
    do {
      auto page = store.ReadDir(ctx_, Caller{}, dir, cursor, limit, with_attrs);
      if (!page) {
        ADD_FAILURE() << page.error().ToString();
        return names;
      }
      for (const DirEntry& entry : page->entries) {
        EXPECT_EQ(entry.attr.has_value(), with_attrs) << entry.name;
        names.insert(entry.name);
      }
      cursor = page->next;
    } while (!cursor.empty());
    return names;
  }

  static std::unique_ptr<testing::Peer> peer_;
  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(100));
  const Caller root_;
  std::unique_ptr<redis::Connection> raw_;
  std::unique_ptr<MetaStore> store_;
};

std::unique_ptr<testing::Peer> MetaRedisTest::peer_;

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

TEST_F(MetaRedisTest, ClientsThatCreateInOneDirectoryDoNotLoseEntries) {
  constexpr int kClients = 2;
  constexpr int kThreads = 4;
  constexpr int kFiles = 25;
  std::vector<std::unique_ptr<MetaStore>> stores;
  for (int i = 0; i < kClients; ++i) stores.push_back(OpenLoaded());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kClients * kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kFiles; ++i) {
          EXPECT_OK(stores[static_cast<std::size_t>(t % kClients)]->Mknod(
              ctx_, root_, kRootIno, fmt::format("{}-{}", t, i), FileType::kFile, 0644, 0));
        }
      });
    }
  }
  constexpr int kAll = kClients * kThreads * kFiles;
  EXPECT_EQ(Raw({"HLEN", "d1"}), std::to_string(kAll));
  EXPECT_EQ(Raw({"GET", "totalInodes"}), std::to_string(kAll));
  EXPECT_EQ(Raw({"GET", "usedSpace"}), std::to_string(kAll * 4096));
  EXPECT_EQ(Raw({"HGET", "dirUsedInodes", "1"}), std::to_string(kAll));
}

TEST_F(MetaRedisTest, TheSameNameIsMadeOnce) {
  std::vector<std::unique_ptr<MetaStore>> stores;
  for (int i = 0; i < 4; ++i) stores.push_back(OpenLoaded());
  std::atomic<int> made = 0;
  {
    std::vector<std::jthread> threads;
    for (auto& store : stores) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          auto dir = store->Mkdir(ctx_, root_, kRootIno, std::to_string(i), 0755);
          if (dir) {
            ++made;
          } else {
            EXPECT_CODE(dir, Code::kAlreadyExists);
          }
        }
      });
    }
  }
  EXPECT_EQ(made, 20);
  auto root = store_->GetAttr(ctx_, kRootIno);
  ASSERT_OK(root);
  EXPECT_EQ(root->nlink, 22u);
}

// All of it goes to one directory of the trash, which nobody has to see unchanged for that.
TEST_F(MetaRedisTest, RemovalsInDifferentDirectoriesDoNotVoidEachOther) {
  constexpr int kRounds = 20;
  struct Client {
    std::unique_ptr<MetaStore> store;
    Ino dir;
  };
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    auto dir = store_->Mkdir(ctx_, root_, kRootIno, std::to_string(i), 0755);
    ASSERT_OK(dir);
    clients.push_back({.store = OpenLoaded(), .dir = dir->ino});
  }
  const auto make = [&](const Client& client, std::string name) {
    NewFile file = FileOf(std::move(name), {}, 0);
    file.parent = client.dir;
    const NewFile files[] = {std::move(file)};
    EXPECT_OK(client.store->CommitFiles(ctx_, files, {.replace = true})[0]);
  };
  // Everything that throws something away.
  const auto remove = [&](const Client& client) {
    MetaStore& store = *client.store;
    make(client, "a");
    make(client, "a");
    EXPECT_OK(store.Unlink(ctx_, root_, client.dir, "a"));
    make(client, "b");
    make(client, "c");
    EXPECT_OK(store.Rename(ctx_, root_, client.dir, "b", client.dir, "c", RenameMode::kReplace));
    const std::string names[] = {"c"};
    EXPECT_EQ(store.UnlinkMany(ctx_, root_, client.dir, names, false).value_or(0), 1u);
    EXPECT_OK(store.Mkdir(ctx_, root_, client.dir, "d", 0755));
    EXPECT_OK(store.Rmdir(ctx_, root_, client.dir, "d"));
  };
  const auto transactions = [&]() -> long {
    const std::string stats = Raw({"INFO", "commandstats"});
    constexpr std::string_view kCalls = "cmdstat_exec:calls=";
    const auto at = stats.find(kCalls);
    return at == std::string::npos ? 0 : std::stol(stats.substr(at + kCalls.size()));
  };

  for (const Client& client : clients) remove(client);  // the hour is made, and what is counted
  ASSERT_EQ(Raw({"CONFIG", "RESETSTAT"}), "OK");
  remove(clients[0]);
  const long alone = transactions();
  ASSERT_GT(alone, 0);
  ASSERT_EQ(Raw({"CONFIG", "RESETSTAT"}), "OK");
  {
    std::vector<std::jthread> threads;
    for (const Client& client : clients) {
      threads.emplace_back([&] {
        for (int i = 0; i < kRounds; ++i) remove(client);
      });
    }
  }
  const long needed = alone * kRounds * static_cast<long>(clients.size());
  EXPECT_LT(transactions() - needed, 10) << "of " << needed << " (a new hour costs a few)";
}

// A name and its inode are read one after the other: both may go in between.
TEST_F(MetaRedisTest, WhatIsRemovedWhileItIsRenamedIsNotFound) {
  ASSERT_OK(store_->Mknod(ctx_, root_, kRootIno, "moved", FileType::kFile, 0644, 0));
  const auto other = OpenLoaded();
  const auto done_or = [](Code code, const auto& result) {
    return result.has_value() || result.error().code() == code;
  };
  std::jthread remover([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto made = other->Mknod(ctx_, root_, kRootIno, "goes", FileType::kFile, 0644, 0);
      EXPECT_TRUE(done_or(Code::kAlreadyExists, made));  // after an exchange
      const auto gone = other->Unlink(ctx_, root_, kRootIno, "goes", /*skip_trash=*/true);
      EXPECT_TRUE(done_or(Code::kNotFound, gone));
    }
  });
  for (int i = 0; i < 200; ++i) {
    const auto moved =
        store_->Rename(ctx_, root_, kRootIno, "goes", kRootIno, "moved", RenameMode::kReplace);
    ASSERT_TRUE(done_or(Code::kNotFound, moved)) << moved.error().message();
    const auto exchanged =
        store_->Rename(ctx_, root_, kRootIno, "moved", kRootIno, "goes", RenameMode::kExchange);
    ASSERT_TRUE(done_or(Code::kNotFound, exchanged)) << exchanged.error().message();
  }
}

TEST_F(MetaRedisTest, WhatIsRemovedWhileItIsOpenedForCreationIsMade) {
  const auto other = OpenLoaded();
  std::jthread remover([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      (void)other->Mknod(ctx_, root_, kRootIno, "goes", FileType::kFile, 0644, 0).has_value();
      (void)other->Unlink(ctx_, root_, kRootIno, "goes", /*skip_trash=*/true).has_value();
    }
  });
  for (int i = 0; i < 300; ++i) {
    const auto file = store_->Create(ctx_, root_, kRootIno, "goes", 0644, /*exclusive=*/false);
    ASSERT_OK(file);
    ASSERT_OK(store_->Close(ctx_, file->ino));
  }
}

// Whether anything is replaced, and so whether the trash is needed, is asked before the
// transaction.
TEST_F(MetaRedisTest, WhatAppearsUnderTheNewNameGoesToTheTrash) {
  HookedClock clock;
  const auto store = OpenLoaded({.clock = &clock});
  ASSERT_OK(store_->Mknod(ctx_, root_, kRootIno, "from", FileType::kFile, 0644, 0));
  std::optional<Entry> appeared;
  // The transaction begins with the time, and there is no trash that would need it before.
  clock.hook = [&] {
    auto made = store_->Mknod(ctx_, root_, kRootIno, "to", FileType::kFile, 0644, 0);
    ASSERT_OK(made);
    appeared = *made;
  };
  ASSERT_OK(store->Rename(ctx_, root_, kRootIno, "from", kRootIno, "to", RenameMode::kReplace));
  ASSERT_TRUE(appeared.has_value());
  const Ino hour{ToInt(kTrashIno) + 1};
  EXPECT_THAT(List(*store_, kRootIno, 10, false), ElementsAre("to"));
  EXPECT_THAT(List(*store_, hour, 10, false),
              ElementsAre(TrashEntryName(kRootIno, appeared->ino, "to")));
  auto kept = store_->GetAttr(ctx_, appeared->ino);
  ASSERT_OK(kept);
  EXPECT_EQ(kept->parent, hour);
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
