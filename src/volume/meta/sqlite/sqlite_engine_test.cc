#include "volume/meta/sqlite/sqlite_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {
namespace {

class SqliteEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_OK(dir);
    dir_.emplace(*std::move(dir));
  }
  std::string path() const { return dir_->File("meta.db"); }

  const Context ctx_ = Context::Background();
  std::optional<TempDir> dir_;
};

TEST_F(SqliteEngineTest, ReadsUrls) {
  EXPECT_EQ(*SqliteEngine::PathOf("sqlite3:///a/b.db"), "/a/b.db");
  EXPECT_EQ(*SqliteEngine::PathOf("sqlite3://b.db?cache=shared"), "b.db");
  EXPECT_CODE(SqliteEngine::PathOf("sqlite3://"), Code::kInvalid);
  EXPECT_CODE(SqliteEngine::PathOf("redis://x"), Code::kInvalid);
  EXPECT_CODE(SqliteEngine::PathOf("sqlite3://b.db?table_prefix=x"), Code::kNotSupported);
}

TEST_F(SqliteEngineTest, AFileThatIsNoDatabaseIsRefused) {
  ASSERT_OK(WriteFileAtomic(path(), std::string(8192, 'x')));
  SqliteEngine engine(path(), false);
  EXPECT_CODE(engine.LoadSetting(ctx_), Code::kCorrupt);
}

// What fails after it has written takes back its own writes and nobody else's.
TEST_F(SqliteEngineTest, AFailedTransactionLeavesOthersAlone) {
  SqliteEngine engine(path(), false);
  ASSERT_OK(engine.StoreSetting(ctx_, "{}", /*new_volume=*/true, {}));
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 20; ++i) {
        const Ino ino{100 + t * 100 + i};
        auto done = engine.WithTxn(ctx_, [&](MetaTxn& txn) -> Result<void> {
          txn.InsertNode(ino, Attr{});
          if (i % 4 == 1) return Fail(Code::kQuota, "changed its mind");
          if (i % 4 == 2) txn.InsertNode(ino, Attr{});  // fails in the database
          return {};
        });
        if (i % 4 == 1) {
          EXPECT_CODE(done, Code::kQuota);
        } else if (i % 4 == 2) {
          EXPECT_CODE(done, Code::kCorrupt);
        } else {
          EXPECT_OK(done);
        }
      }
    });
  }
  threads.clear();
  for (std::uint64_t t = 0; t < 8; ++t) {
    for (std::uint64_t i = 0; i < 20; ++i) {
      std::optional<Attr> attr;
      ASSERT_OK(engine.ReadOnce(ctx_, ReadSet().Attr(Ino{100 + t * 100 + i}, &attr)));
      EXPECT_EQ(attr.has_value(), i % 4 == 0 || i % 4 == 3) << t << " " << i;
    }
  }
}

// After some errors (I/O, a full disk) SQLite takes back the whole transaction by itself, here by
// means of a trigger.
TEST_F(SqliteEngineTest, AnErrorThatEndsTheTransactionLeavesOthersAlone) {
  SqliteEngine engine(path(), false);
  ASSERT_OK(engine.StoreSetting(ctx_, "{}", /*new_volume=*/true, {}));
  {
    auto database = Database::Open(path(), Database::Mode::kReadWrite);
    ASSERT_OK(database);
    ASSERT_OK(
        (*database)->Execute("CREATE TRIGGER failing BEFORE INSERT ON jfs_xattr "
                             "BEGIN SELECT RAISE(ROLLBACK, 'on purpose'); END"));
  }
  constexpr std::uint64_t kWaiting = 6;
  for (std::uint64_t round = 0; round < 20; ++round) {
    // While the first commits, the others queue, and so they are committed together.
    std::atomic<bool> committing = false;
    std::atomic<std::uint64_t> queueing = 0;
    const auto insert = [&](std::uint64_t i) {
      EXPECT_OK(engine.WithTxn(ctx_, [&](MetaTxn& txn) -> Result<void> {
        txn.InsertNode(Ino{100 + round * 10 + i}, Attr{});
        committing = true;
        while (queueing < kWaiting) std::this_thread::yield();
        return {};
      }));
    };
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { insert(kWaiting); });
    for (std::uint64_t i = 0; i < kWaiting; ++i) {
      threads.emplace_back([&, i] {
        while (!committing) std::this_thread::yield();
        ++queueing;
        if (i % 3 != 1) return insert(i);
        EXPECT_CODE(engine.WithTxn(ctx_,
                                   [&](MetaTxn& txn) -> Result<void> {
                                     txn.PutXattr(Ino{1}, "name", "value");
                                     return {};
                                   }),
                    Code::kCorrupt);
      });
    }
    threads.clear();
    for (std::uint64_t i = 0; i <= kWaiting; ++i) {
      std::optional<Attr> attr;
      ASSERT_OK(engine.ReadOnce(ctx_, ReadSet().Attr(Ino{100 + round * 10 + i}, &attr)));
      EXPECT_EQ(attr.has_value(), i % 3 != 1) << round << " " << i;
    }
  }
}

TEST_F(SqliteEngineTest, WaitingForAnotherProcessEndsWithTheDeadline) {
  SqliteEngine engine(path(), false);
  ASSERT_OK(engine.StoreSetting(ctx_, "{}", /*new_volume=*/true, {}));
  auto other = Database::Open(path(), Database::Mode::kReadWrite);
  ASSERT_OK(other);
  ASSERT_OK((*other)->Execute("BEGIN IMMEDIATE"));
  const Context soon = ctx_.WithTimeout(std::chrono::milliseconds(50));
  const auto blocked = engine.WithTxn(soon, [](MetaTxn&) { return Result<void>(); });
  EXPECT_CODE(blocked, Code::kUnavailable);
  ASSERT_OK((*other)->Execute("ROLLBACK"));
  EXPECT_OK(engine.WithTxn(ctx_, [](MetaTxn&) { return Result<void>(); }));
}

// A volume of 1.0: no nanoseconds, no ACL columns, no statistics.
TEST_F(SqliteEngineTest, OldSchemasAreReadAndBroughtUpToDate) {
  {
    Setting setting;
    setting.name = "old";
    setting.uuid = "u";
    setting.bucket = "/nowhere/";
    setting.trash_days = 0;
    auto store = OpenMetaStore(ctx_, "sqlite3://" + path(), {});
    ASSERT_OK(store);
    ASSERT_OK((*store)->Format(ctx_, setting, false));
  }
  {
    auto database = Database::Open(path(), Database::Mode::kReadWrite);
    ASSERT_OK(database);
    for (const char* column :
         {"atimensec", "mtimensec", "ctimensec", "access_acl_id", "default_acl_id"}) {
      const std::string sql = fmt::format("ALTER TABLE jfs_node DROP COLUMN {}", column);
      ASSERT_OK((*database)->Execute(sql.c_str()));
    }
    ASSERT_OK((*database)->Execute("DROP TABLE jfs_dir_stats"));
  }
  auto store = OpenMetaStore(ctx_, "sqlite3://" + path(), {});
  ASSERT_OK(store);
  ASSERT_OK((*store)->Load(ctx_));
  const auto root = (*store)->GetAttr(ctx_, kRootIno);
  ASSERT_OK(root);
  EXPECT_EQ(root->nlink, 2U);
  const auto made = (*store)->Mkdir(ctx_, Caller{}, kRootIno, "d", 0755);
  ASSERT_OK(made);
  const auto found = (*store)->Lookup(ctx_, Caller{}, kRootIno, "d");
  ASSERT_OK(found);
  EXPECT_EQ(found->attr, made->attr) << "nanoseconds are kept again";
  EXPECT_EQ((*store)->GetDirUsage(ctx_, kRootIno)->inodes, 1);
}

}  // namespace
}  // namespace paddleop::volume
