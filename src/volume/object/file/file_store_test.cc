#include "volume/object/file/file_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/posix.h"
#include "volume/object/prefix_store.h"
#include "volume/object/testing/mem_object.h"
#include "volume/object/testing/object_store_contract.h"
#include "volume/object/threaded_store.h"

namespace paddleop::volume::object::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Keeps its directory as long as itself.
class TemporaryFileStore final : public ForwardingStore {
 public:
  TemporaryFileStore(TempDir directory, std::unique_ptr<ObjectStore> store)
      : ForwardingStore(std::move(store)), directory_(std::move(directory)) {}

  static std::unique_ptr<ObjectStore> Open() {
    auto directory = TempDir::Create("object_test");
    EXPECT_OK(directory);
    auto store = OpenFileStore(directory->File("store"));
    EXPECT_OK(store);
    return std::make_unique<TemporaryFileStore>(std::move(*directory), std::move(*store));
  }

 private:
  TempDir directory_;
};

INSTANTIATE_TEST_SUITE_P(
    Stores, ObjectStoreContract,
    ::testing::Values(
        StoreCase{.name = "Mem", .open = [] { return std::make_unique<MemObjectStore>(); }},
        StoreCase{.name = "File", .open = TemporaryFileStore::Open, .flat_keys = false},
        StoreCase{.name = "PrefixOfMem",
                  .open =
                      [] {
                        auto whole = std::make_unique<MemObjectStore>();
                        const Context ctx = Context::Background();
                        EXPECT_OK(PutString(*whole, ctx, "vol", "neighbour"));
                        EXPECT_OK(PutString(*whole, ctx, "volx/a", "neighbour"));
                        return WithPrefix(std::move(whole), "vol/");
                      },
                  .empty_key = true},
        StoreCase{.name = "ThreadedFile",
                  .open = [] { return WithThreads(TemporaryFileStore::Open(), {.threads = 3}); },
                  .flat_keys = false}),
    NameOfCase);

class FileStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto directory = TempDir::Create("object_test");
    ASSERT_OK(directory);
    directory_.emplace(std::move(*directory));
    root_ = directory_->File("root");
    auto store = OpenFileStore(root_ + "/");
    ASSERT_OK(store);
    store_ = std::move(*store);
    ASSERT_OK(store_->Create(ctx_));
  }

  std::vector<std::string> Keys(const ListOptions& options = {}) {
    std::vector<std::string> keys;
    EXPECT_OK(store_->List(ctx_, options, [&](ObjectInfo& entry) -> Result<bool> {
      keys.push_back(entry.key);
      return true;
    }));
    return keys;
  }

  const Context ctx_ = Context::Background();
  std::optional<TempDir> directory_;
  std::string root_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(FileStoreTest, AKeyIsAPathBelowTheRoot) {
  ASSERT_OK(PutString(*store_, ctx_, "vol/chunks/0/0/1_0_5", "hello"));
  auto content = ReadFile(root_ + "/vol/chunks/0/0/1_0_5");
  ASSERT_OK(content);
  EXPECT_EQ(*content, "hello");
  EXPECT_EQ(store_->name(), "file://" + root_ + "/");
}

TEST_F(FileStoreTest, FilesAndDirectoriesAreOpenToAllButForTheUmask) {
  const mode_t before = ::umask(002);
  ASSERT_OK(PutString(*store_, ctx_, "a/b/c", "x"));
  ::umask(before);
  struct stat info{};
  ASSERT_EQ(::stat((root_ + "/a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0775u);
  ASSERT_EQ(::stat((root_ + "/a/b/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0664u);
}

TEST_F(FileStoreTest, NoKeyLeadsOutside) {
  const std::vector<std::string> keys = {"../x", "a/../../x", "/etc/passwd",         "a//b",
                                         "./a",  "..",        std::string("a\0b", 3)};
  for (const std::string& key : keys) {
    EXPECT_CODE(PutString(*store_, ctx_, key, "x"), Code::kInvalid) << key;
    EXPECT_CODE(store_->Head(ctx_, key), Code::kInvalid) << key;
    EXPECT_CODE(store_->Delete(ctx_, key), Code::kInvalid) << key;
  }
  ASSERT_OK(WriteFileAtomic(directory_->File("outside"), "x"));
  EXPECT_THAT(Keys({.prefix = "../"}), IsEmpty());
  EXPECT_THAT(Keys({.prefix = "/"}), IsEmpty());
}

TEST_F(FileStoreTest, HalfWrittenFilesAreNoObjects) {
  ASSERT_OK(PutString(*store_, ctx_, "a", "x"));
  ASSERT_OK(WriteFileAtomic(root_ + "/.jfs.b.tmp.123", "half"));
  ASSERT_OK(WriteFileAtomic(root_ + "/.jfs.mine", "whole"));
  EXPECT_THAT(Keys(), ElementsAre(".jfs.mine", "a"));
  // They can be found, to be cleaned up.
  EXPECT_THAT(Keys({.unfinished = true}), ElementsAre(".jfs.b.tmp.123", ".jfs.mine", "a"));
  ASSERT_OK(store_->Delete(ctx_, ".jfs.b.tmp.123"));
  EXPECT_THAT(Keys({.unfinished = true}), ElementsAre(".jfs.mine", "a"));
}

TEST_F(FileStoreTest, AFailedPutLeavesNothingBehind) {
  ASSERT_OK(PutString(*store_, ctx_, "a/b", "x"));
  EXPECT_CODE(PutString(*store_, ctx_, "a", "x"), Code::kIsDirectory);
  EXPECT_CODE(PutString(*store_, ctx_, "a/b/c", "x"), Code::kNotDirectory);
  EXPECT_CODE(PutString(*store_, ctx_, "a/" + std::string(256, 'n'), "x"), Code::kNameTooLong);
  EXPECT_CODE(PutString(*store_, ctx_, "dir/", "content"), Code::kInvalid);
  EXPECT_THAT(Keys({.directories = true}), ElementsAre("a/", "a/b"));
}

TEST_F(FileStoreTest, FollowsLinksButNotInCircles) {
  ASSERT_OK(PutString(*store_, ctx_, "dir/file", "x"));
  ASSERT_OK(WriteFileAtomic(directory_->File("elsewhere"), "content"));
  ASSERT_EQ(::symlink(directory_->File("elsewhere").c_str(), (root_ + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("dir", (root_ + "/again").c_str()), 0);
  ASSERT_EQ(::symlink("..", (root_ + "/dir/up").c_str()), 0);
  ASSERT_EQ(::symlink("missing", (root_ + "/dead").c_str()), 0);
  EXPECT_THAT(Keys(), ElementsAre("again/file", "dir/file", "link"));
  auto read = GetString(*store_, ctx_, "link", 100);
  ASSERT_OK(read);
  EXPECT_EQ(*read, "content");
}

TEST_F(FileStoreTest, ListsDirectoriesWhenAsked) {
  ASSERT_OK(PutString(*store_, ctx_, "a/b/c", "x"));
  ASSERT_OK(PutString(*store_, ctx_, "empty/", ""));
  EXPECT_THAT(Keys(), ElementsAre("a/b/c"));
  EXPECT_THAT(Keys({.directories = true}), ElementsAre("a/", "a/b/", "a/b/c", "empty/"));
  EXPECT_THAT(Keys({.prefix = "a/", .directories = true}), ElementsAre("a/b/", "a/b/c"));
  EXPECT_OK(store_->Delete(ctx_, "a/"));  // still holds something: stays
  EXPECT_THAT(Keys(), ElementsAre("a/b/c"));
}

TEST_F(FileStoreTest, AMissingRootIsAMistakeToTellAbout) {
  auto store = OpenFileStore(directory_->File("nowhere"));
  ASSERT_OK(store);
  auto listed = ListEntries(**store, ctx_, {});
  ASSERT_CODE(listed, Code::kInvalid);
  EXPECT_THAT(listed.error().message(), HasSubstr("nowhere"));
  EXPECT_CODE(OpenFileStore("relative/path"), Code::kInvalid);
}

TEST_F(FileStoreTest, APipeDoesNotBlockAReader) {
  ASSERT_EQ(::mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_CODE(GetString(*store_, ctx_, "pipe", 10), Code::kInvalid);
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(FileStoreTest, SyncedPutsWorkToo) {
  auto store = OpenFileStore(root_, {.sync = true});
  ASSERT_OK(store);
  ASSERT_OK(PutString(**store, ctx_, "a/b", "x"));
  EXPECT_THAT(Keys(), ElementsAre("a/b"));
}

}  // namespace
}  // namespace paddleop::volume::object::testing
