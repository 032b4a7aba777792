// Several clients of the metadata in Redis that change the same names at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/testing/matchers.h"
#include "integration/meta_redis_fixture.h"
#include "volume/format/trash.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace paddleop::volume
