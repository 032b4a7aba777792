// A store on a Redis of its own, for each test, beside a connection that sees what is stored.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "redis/connection.h"
#include "support/peer.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {

inline Setting TestSetting() {
  Setting setting;
  setting.name = "test";
  setting.uuid = "e267db92-051d-4214-b1aa-e97bf61bff1a";
  setting.bucket = "/nowhere/";
  return setting;
}

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

  static inline std::unique_ptr<testing::Peer> peer_;
  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(100));
  const Caller root_;
  std::unique_ptr<redis::Connection> raw_;
  std::unique_ptr<MetaStore> store_;
};

}  // namespace paddleop::volume
