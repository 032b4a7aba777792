// Whole trees from a Redis server while others rename in them.
#include <gtest/gtest.h>

#include <thread>

#include "base/testing/matchers.h"
#include "redis/connection.h"
#include "support/peer.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {
namespace {

class MetaRedisTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto peer = testing::Peer::Start("redis", {});
    ASSERT_OK(peer);
    peer_ = std::make_unique<testing::Peer>(*std::move(peer));
    store_ = Open();
    Setting setting;
    setting.name = "test";
    setting.uuid = "e267db92-051d-4214-b1aa-e97bf61bff1a";
    setting.bucket = "/nowhere/";
    setting.trash_days = 0;  // what is replaced is gone at once
    ASSERT_OK(store_->Format(ctx_, setting, false));
    ASSERT_OK(store_->Load(ctx_));
  }

  std::unique_ptr<MetaStore> Open() {
    auto store = OpenMetaStore(ctx_, peer_->Get("url"), {});
    EXPECT_OK(store);
    return *std::move(store);
  }

  Ino Mkdir(Ino parent, const std::string& name) {
    auto made = store_->Mkdir(ctx_, caller_, parent, name, 0755);
    EXPECT_OK(made);
    return made->ino;
  }
  Ino MakeFile(MetaStore& store, Ino parent, const std::string& name) {
    auto made = store.Mknod(ctx_, caller_, parent, name, FileType::kFile, 0644, 0);
    EXPECT_OK(made);
    return made ? made->ino : kNoIno;
  }
  static void Rename(MetaStore& store, Ino from, const std::string& old_name, Ino to,
                     const std::string& name) {
    EXPECT_OK(store.Rename(ctx_, caller_, from, old_name, to, name, RenameMode::kReplace));
  }

  static Tree::NodeIndex In(const Tree& tree, Ino directory, std::string_view name) {
    const auto node = tree.Find(directory);
    return node == Tree::kNone ? Tree::kNone : tree.Lookup(node, name);
  }

  // Commands of this kind that the server has served.
  std::uint64_t Calls(const std::string& command) {
    redis::ConnectionOptions options;
    options.port = static_cast<std::uint16_t>(std::stoi(peer_->Get("port")));
    auto raw = redis::Connection::Open(ctx_, options);
    EXPECT_OK(raw);
    auto reply = (*raw)->Call(ctx_, {"INFO", "commandstats"});
    EXPECT_OK(reply);
    const std::string key = "cmdstat_" + command + ":calls=";
    const auto at = reply->text().find(key);
    if (at == std::string_view::npos) return 0;
    return std::stoull(std::string(reply->text().substr(at + key.size(), 20)));
  }

  static inline const Context ctx_ = Context::Background().WithTimeout(std::chrono::minutes(4));
  static inline const Caller caller_ = {};
  std::unique_ptr<testing::Peer> peer_;
  std::unique_ptr<MetaStore> store_;
};

TEST_F(MetaRedisTreeTest, AFileThatIsReplacedMeanwhileIsThere) {
  constexpr int kFiles = 20;
  const auto name = [](int i) { return fmt::format("f{:02}", i); };
  for (int i = 0; i < kFiles; ++i) MakeFile(*store_, kRootIno, name(i));
  std::vector<std::jthread> writers;
  for (int w = 0; w < 2; ++w) {
    writers.emplace_back([&, w](const std::stop_token& stop) {
      auto other = Open();
      ASSERT_OK(other->Load(ctx_));
      const std::string temporary = fmt::format("tmp{}", w);
      for (int i = w; !stop.stop_requested(); i = (i + 2) % kFiles) {
        MakeFile(*other, kRootIno, temporary);
        Rename(*other, kRootIno, temporary, kRootIno, name(i));
      }
    });
  }
  for (int round = 0; round < 12; ++round) {
    auto tree = store_->LoadTree(ctx_, kRootIno, true);
    ASSERT_OK(tree);
    for (int i = 0; i < kFiles; ++i)
      ASSERT_NE(In(*tree, kRootIno, name(i)), Tree::kNone) << name(i) << " in round " << round;
  }
}

TEST_F(MetaRedisTreeTest, WhatMovesMeanwhileHasOnePlace) {
  // Enough of them for moves to come between the listings of two.
  std::vector<Ino> places;
  for (int i = 0; i < 150; ++i) {
    places.push_back(Mkdir(kRootIno, fmt::format("d{:03}", i)));
    MakeFile(*store_, places.back(), "stays");
  }
  const Ino moving = Mkdir(places[0], "x"), inner = MakeFile(*store_, moving, "inner");
  const Ino file = MakeFile(*store_, places[0], "y");
  auto other = Open();
  ASSERT_OK(other->Load(ctx_));
  std::size_t now = 0;
  for (int round = 0; round < 25; ++round) {
    std::jthread mover([&] {
      for (int i = 0; i < 6; ++i) {
        const std::size_t next = (now + 67) % places.size();
        for (const char* name : {"x", "y"}) Rename(*other, places[now], name, places[next], name);
        now = next;
      }
    });
    auto tree = store_->LoadTree(ctx_, kRootIno, true);
    mover.join();
    ASSERT_OK(tree);
    int directories = 0, files = 0;
    for (const Ino place : places) {
      ASSERT_NE(In(*tree, place, "stays"), Tree::kNone);
      if (In(*tree, place, "x") != Tree::kNone) ++directories;
      if (In(*tree, place, "y") != Tree::kNone) ++files;
    }
    ASSERT_EQ(directories, 1) << "in round " << round;
    ASSERT_EQ(files, 1) << "in round " << round;
    EXPECT_EQ(tree->ino(In(*tree, moving, "inner")), inner);
    EXPECT_NE(tree->Find(file), Tree::kNone);
    EXPECT_EQ(tree->node_count(), 1 + 2 * places.size() + 3);
    EXPECT_EQ(tree->entry_count(), tree->node_count() - 1);
  }
}

TEST_F(MetaRedisTreeTest, AQuietVolumeIsListedOnce) {
  for (int i = 0; i < 40; ++i) MakeFile(*store_, Mkdir(kRootIno, fmt::format("d{:02}", i)), "f");
  // Until a change must show in the directories' times.
  const auto settled = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  std::this_thread::sleep_until(settled);
  const std::uint64_t listings = Calls("hscan"), attributes = Calls("mget");
  ASSERT_OK(store_->LoadTree(ctx_, kRootIno, true));
  EXPECT_EQ(Calls("hscan") - listings, 41u);
  EXPECT_LE(Calls("mget") - attributes, 4u + 1) << "one more for all directories";
}

}  // namespace
}  // namespace paddleop::volume
