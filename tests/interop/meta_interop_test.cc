// Metadata that we write and the official client reads, and the reverse, on each engine, with a
// directory as object store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "interop/juicefs.h"
#include "volume/format/chunk_view.h"
#include "volume/format/object_key.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {
namespace {

namespace fs = std::filesystem;
using paddleop::testing::Juicefs;
using paddleop::testing::Peer;
using ::testing::HasSubstr;

class MetaInterop : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_OK(dir);
    dir_.emplace(*std::move(dir));
    auto juicefs = Juicefs::Find(dir_->path());
    ASSERT_OK(juicefs);
    juicefs_.emplace(*std::move(juicefs));
    url_ = "sqlite3://" + dir_->File("meta.db");
    if (GetParam() == "redis") {
      auto redis = Peer::Start("redis", {"--appendonly"});
      ASSERT_OK(redis);
      redis_.emplace(*std::move(redis));
      url_ = redis_->Get("url");
    }
    bucket_ = dir_->File("store") + "/";
    ASSERT_OK(MakeDirectories(bucket_));
    auto store = OpenMetaStore(ctx_, url_, {});
    ASSERT_OK(store);
    store_ = *std::move(store);
  }

  void FormatByUs(int trash_days) {
    Setting setting;
    setting.name = "interop";
    setting.uuid = RandomUuid();
    setting.bucket = bucket_;
    setting.trash_days = trash_days;
    ASSERT_OK(store_->Format(ctx_, setting, false));
    Ready();
  }

  void FormatByThem(int trash_days) {
    ASSERT_OK(juicefs_->Run({"format", url_, "interop", "--storage", "file", "--bucket", bucket_,
                             "--trash-days", std::to_string(trash_days)}));
    ASSERT_OK(store_->Load(ctx_));
    Ready();
  }

  void Ready() {
    store_->SetSliceDeleter([this](const Context&, SliceKey slice) -> Result<void> {
      for (std::uint32_t i = 0; i < BlockCount({}, slice.size); ++i) {
        fs::remove(
            ObjectPath({.slice = slice.id, .index = i, .length = BlockLength({}, slice.size, i)}));
      }
      return {};
    });
  }

  std::string ObjectPath(const BlockId& block) const {
    return bucket_ + "interop/" + BlockKey({}, block);
  }

  // Stores a slice of up to one block.
  std::uint64_t PutSlice(const std::string& data) {
    const auto id = store_->NewSliceId(ctx_);
    EXPECT_OK(id);
    const std::string path =
        ObjectPath({.slice = *id, .index = 0, .length = static_cast<std::uint32_t>(data.size())});
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << data;
    return *id;
  }

  void Write(Ino ino, std::uint64_t offset, const std::string& data) {
    const auto size = static_cast<std::uint32_t>(data.size());
    EXPECT_OK(store_->WriteSlice(ctx_, ino, static_cast<std::uint32_t>(offset / kChunkSize),
                                 {.pos = static_cast<std::uint32_t>(offset % kChunkSize),
                                  .id = PutSlice(data),
                                  .size = size,
                                  .off = 0,
                                  .len = size},
                                 Timestamp::From(std::chrono::system_clock::now())));
  }

  Ino NewFile(Ino parent, const std::string& name, const std::string& data) {
    const auto made = store_->Mknod(ctx_, root_, parent, name, FileType::kFile, 0644, 0);
    EXPECT_OK(made);
    if (!data.empty()) Write(made->ino, 0, data);
    return made->ino;
  }

  // The first chunk of a file as its records and the objects say.
  std::string Read(Ino ino) {
    const auto attr = store_->GetAttr(ctx_, ino);
    const auto slices = store_->ReadSlices(ctx_, ino, 0);
    EXPECT_OK(attr);
    EXPECT_OK(slices);
    std::string data;
    for (const Slice& piece : BuildChunkView(*slices, static_cast<std::uint32_t>(attr->length))) {
      if (piece.id == 0) {
        data.append(piece.len, '\0');
        continue;
      }
      std::string slice;
      for (std::uint32_t i = 0; i < BlockCount({}, piece.size); ++i) {
        const auto block = ReadFile(
            ObjectPath({.slice = piece.id, .index = i, .length = BlockLength({}, piece.size, i)}));
        EXPECT_OK(block);
        slice += *block;
      }
      data += slice.substr(piece.off, piece.len);
    }
    return data;
  }

  Ino InoOf(const std::string& path) {
    const auto entry = store_->Resolve(ctx_, root_, kRootIno, path);
    EXPECT_OK(entry);
    return entry ? entry->ino : kNoIno;
  }

  static std::string Slurp(const fs::path& path) {
    const auto data = ReadFile(path.string());
    EXPECT_OK(data);
    return data ? *data : "";
  }

  // A tree with one of everything.
  void WriteTree() {
    const auto dir = store_->Mkdir(ctx_, root_, kRootIno, "dir", 0750);
    ASSERT_OK(dir);
    const Ino file = NewFile(dir->ino, "file", "hello, other client");
    ASSERT_OK(store_->SetAttr(
        ctx_, root_, file,
        {.mode = 0604, .uid = 12, .gid = 34, .mtime = Timestamp{1600000000, 123456789}}));
    ASSERT_OK(store_->SetXattr(ctx_, file, "user.color", "blue", XattrMode::kAny));
    ASSERT_OK(store_->Link(ctx_, root_, file, kRootIno, "link"));
    ASSERT_OK(store_->Symlink(ctx_, root_, dir->ino, "symlink", "file"));
    const Ino holes = NewFile(kRootIno, "holes", std::string(10000, 'x'));
    ASSERT_OK(store_->Fallocate(ctx_, root_, holes, FallocateMode::kPunchHole, 1000, 2000));
    ASSERT_OK(store_->Truncate(ctx_, root_, holes, 5000));
    ASSERT_OK(store_->Truncate(ctx_, root_, holes, 8000));
    Write(holes, 7000, "overlay");
    const std::string pack(3000, 'p');
    const std::uint64_t id = PutSlice(pack);
    std::vector<volume::NewFile> files;
    for (std::uint32_t i = 0; i < 3; ++i) {
      volume::NewFile& packed = files.emplace_back();
      packed.parent = dir->ino;
      packed.name = "packed" + std::to_string(i);
      packed.length = 1000;
      packed.mtime = {.seconds = 1500000000, .nanos = 0};
      packed.chunks = {
          {.index = 0,
           .slices = {{.pos = 0, .id = id, .size = 3000, .off = i * 1000, .len = 1000}}}};
    }
    for (const auto& answer : store_->CommitFiles(ctx_, files, {})) ASSERT_OK(answer);
    // Things that come and go.
    NewFile(dir->ino, "gone", std::string(5000, 'g'));
    ASSERT_OK(store_->Unlink(ctx_, root_, dir->ino, "gone"));
    NewFile(dir->ino, "over", std::string(6000, 'o'));
    NewFile(dir->ino, "under", std::string(100, 'u'));
    ASSERT_OK(
        store_->Rename(ctx_, root_, dir->ino, "under", dir->ino, "over", RenameMode::kReplace));
    const auto sub = store_->Mkdir(ctx_, root_, dir->ino, "sub", 0755);
    ASSERT_OK(sub);
    NewFile(sub->ino, "x", "x");
    ASSERT_OK(
        store_->Rename(ctx_, root_, dir->ino, "sub", kRootIno, "moved", RenameMode::kReplace));
    ASSERT_OK(
        store_->Rename(ctx_, root_, kRootIno, "moved", dir->ino, "packed2", RenameMode::kExchange));
    ASSERT_OK(store_->Mkdir(ctx_, root_, kRootIno, "empty", 0755));
    ASSERT_OK(store_->Rmdir(ctx_, root_, kRootIno, "empty"));
    ASSERT_OK(store_->DrainDeletions(ctx_));
  }

  void CompareTreeInMount(const std::string& mount) {
    EXPECT_EQ(Slurp(mount + "/dir/file"), "hello, other client");
    EXPECT_EQ(Slurp(mount + "/link"), "hello, other client");
    struct stat info{};
    ASSERT_EQ(::stat((mount + "/dir/file").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, 0604U);
    EXPECT_EQ(info.st_uid, 12U);
    EXPECT_EQ(info.st_gid, 34U);
    EXPECT_EQ(info.st_nlink, 2U);
    EXPECT_EQ(info.st_mtim.tv_sec, 1600000000);
    EXPECT_EQ(info.st_mtim.tv_nsec, 123456789);
    char value[16] = {};
    EXPECT_EQ(::getxattr((mount + "/dir/file").c_str(), "user.color", value, sizeof(value)), 4);
    EXPECT_STREQ(value, "blue");
    EXPECT_EQ(fs::read_symlink(mount + "/dir/symlink"), "file");
    std::string holes(10000, 'x');
    holes.replace(1000, 2000, 2000, '\0');
    holes.resize(5000);
    holes.resize(8000, '\0');
    holes.replace(7000, 7, "overlay");
    EXPECT_EQ(Slurp(mount + "/holes"), holes);
    EXPECT_EQ(Slurp(mount + "/dir/packed1"), std::string(1000, 'p'));
    EXPECT_EQ(Slurp(mount + "/moved"), std::string(1000, 'p'));
    EXPECT_EQ(Slurp(mount + "/dir/packed2/x"), "x");
    EXPECT_EQ(Slurp(mount + "/dir/over"), std::string(100, 'u'));
    EXPECT_FALSE(fs::exists(mount + "/dir/gone"));
    EXPECT_FALSE(fs::exists(mount + "/empty"));
  }

  // Statistics of every directory as stored.
  std::map<Ino, DirUsage> StoredUsage() {
    std::map<Ino, DirUsage> usage;
    const auto tree = store_->LoadTree(ctx_, kRootIno, /*with_slices=*/false);
    EXPECT_OK(tree);
    for (Tree::NodeIndex node = 0; tree && node < tree->node_count(); ++node) {
      if (tree->type(node) != FileType::kDirectory) continue;
      const auto stored = store_->GetDirUsage(ctx_, tree->ino(node));
      EXPECT_OK(stored);
      if (stored) usage[tree->ino(node)] = *stored;
    }
    return usage;
  }

  // Their own count of every directory, and of the quota, is what we kept.
  void CompareAccounts(const std::string& quota_path) {
    const auto before = StoredUsage();
    ASSERT_OK(
        juicefs_->Run({"fsck", url_, "--path", "/", "--recursive", "--sync-dir-stat", "--repair"}));
    const auto after = StoredUsage();
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [ino, usage] : after) {
      EXPECT_EQ(before.at(ino).length, usage.length) << "directory " << ToInt(ino);
      EXPECT_EQ(before.at(ino).space, usage.space) << "directory " << ToInt(ino);
      EXPECT_EQ(before.at(ino).inodes, usage.inodes) << "directory " << ToInt(ino);
    }
    EXPECT_OK(juicefs_->Run({"quota", "check", url_, "--path", quota_path}));
    const auto stat = store_->GetStatFs(ctx_);
    ASSERT_OK(stat);
    const auto status = juicefs_->Run({"status", url_});
    ASSERT_OK(status);
    EXPECT_THAT(*status, HasSubstr(fmt::format("\"UsedSpace\": {},", stat->used_space)));
    EXPECT_THAT(*status, HasSubstr(fmt::format("\"UsedInodes\": {},", stat->used_inodes)));
  }

  void TheyRead(int trash_days) {
    FormatByUs(trash_days);
    ASSERT_FALSE(HasFatalFailure());
    WriteTree();
    ASSERT_FALSE(HasFatalFailure());
    const auto status = juicefs_->Run({"status", url_});
    ASSERT_OK(status);
    EXPECT_THAT(*status, HasSubstr("\"Name\": \"interop\""));
    EXPECT_OK(juicefs_->CheckClean(url_));
    {
      const auto mount = juicefs_->MountAt(url_, dir_->File("mnt"));
      ASSERT_OK(mount);
      CompareTreeInMount((*mount)->path());
      // And they go on where we stopped, while we watch.
      std::ofstream((*mount)->path() + "/dir/theirs") << "written by them";
      fs::remove((*mount)->path() + "/dir/packed0");
      const auto theirs = store_->Resolve(ctx_, root_, kRootIno, "dir/theirs");
      ASSERT_OK(theirs);
      EXPECT_EQ(Read(theirs->ino), "written by them");
      EXPECT_CODE(store_->Resolve(ctx_, root_, kRootIno, "dir/packed0"), Code::kNotFound);
    }
    EXPECT_OK(juicefs_->CheckClean(url_));
  }

  const Context ctx_ = Context::Background();
  const Caller root_;
  std::optional<TempDir> dir_;
  std::optional<Peer> redis_;
  std::optional<Juicefs> juicefs_;
  std::string url_;
  std::string bucket_;
  std::unique_ptr<MetaStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Engines, MetaInterop, ::testing::Values("sqlite", "redis"),
                         [](const auto& engine) { return engine.param; });

TEST_P(MetaInterop, TheyReadWhatWeWrote) { TheyRead(0); }
TEST_P(MetaInterop, TheyReadWhatWeWroteWithTrash) { TheyRead(1); }

TEST_P(MetaInterop, AccountsAgree) {
  FormatByThem(1);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_OK(store_->Mkdir(ctx_, root_, kRootIno, "dir0", 0755));
  ASSERT_OK(store_->Rename(ctx_, root_, kRootIno, "dir0", kRootIno, "q", RenameMode::kReplace));
  ASSERT_OK(
      juicefs_->Run({"quota", "set", url_, "--path", "/q", "--capacity", "1", "--inodes", "6"}));
  ASSERT_OK(store_->Load(ctx_));  // reads limits and quotas afresh
  const Ino quota = InoOf("q");
  WriteTree();
  ASSERT_FALSE(HasFatalFailure());
  // A tree moves in and counts; what does not fit is refused.
  ASSERT_OK(
      store_->Rename(ctx_, root_, InoOf("dir"), "packed2", quota, "sub", RenameMode::kReplace));
  for (int i = 0; i < 4; ++i) NewFile(quota, "f" + std::to_string(i), std::string(5000, 'f'));
  EXPECT_CODE(store_->Mkdir(ctx_, root_, quota, "one-too-many", 0755), Code::kQuota);
  ASSERT_OK(store_->Unlink(ctx_, root_, quota, "f0"));
  ASSERT_OK(store_->Truncate(ctx_, root_, InoOf("q/f1"), 100000));
  CompareAccounts("/q");
  EXPECT_OK(juicefs_->CheckClean(url_));
}

TEST_P(MetaInterop, WeReadWhatTheyWrote) {
  FormatByThem(1);
  ASSERT_FALSE(HasFatalFailure());
  {
    const auto mount = juicefs_->MountAt(url_, dir_->File("mnt"));
    ASSERT_OK(mount);
    const std::string path = (*mount)->path();
    fs::create_directories(path + "/a/b/c");
    std::ofstream(path + "/a/file") << std::string(5 << 20, 'z') << "end";
    fs::create_hard_link(path + "/a/file", path + "/a/b/link");
    fs::create_symlink("../file", path + "/a/b/symlink");
    fs::resize_file(path + "/a/file", 3 << 20);
    fs::resize_file(path + "/a/file", 4 << 20);
    fs::permissions(path + "/a/b", fs::perms::owner_all);
    ASSERT_EQ(::setxattr((path + "/a").c_str(), "user.k", "v", 1, 0), 0);

    const Ino file = InoOf("a/file");
    std::string expected(3 << 20, 'z');
    expected.resize(4 << 20, '\0');
    EXPECT_EQ(Read(file), expected);
    const auto attr = store_->GetAttr(ctx_, file);
    ASSERT_OK(attr);
    EXPECT_EQ(attr->nlink, 2U);
    EXPECT_EQ(InoOf("a/b/link"), file);
    EXPECT_EQ(*store_->ReadLink(ctx_, InoOf("a/b/symlink")), "../file");
    EXPECT_EQ(store_->GetAttr(ctx_, InoOf("a/b"))->mode, 0700);
    EXPECT_EQ(*store_->GetXattr(ctx_, InoOf("a"), "user.k"), "v");

    // We change their files while they have the volume mounted.
    ASSERT_OK(store_->Rename(ctx_, root_, InoOf("a/b"), "link", InoOf("a/b/c"), "l2",
                             RenameMode::kReplace));
    ASSERT_OK(store_->Unlink(ctx_, root_, InoOf("a"), "file"));
    NewFile(InoOf("a/b/c"), "ours", std::string(20000, 'o'));
    EXPECT_TRUE(paddleop::testing::WaitFor([&] { return fs::exists(path + "/a/b/c/ours"); }));
    EXPECT_EQ(Slurp(path + "/a/b/c/ours"), std::string(20000, 'o'));
    EXPECT_EQ(Slurp(path + "/a/b/c/l2"), expected);
  }
  EXPECT_OK(juicefs_->CheckClean(url_));
  ASSERT_OK(store_->RemoveTree(ctx_, root_, kRootIno, "a", {.skip_trash = true}));
  ASSERT_OK(store_->DrainDeletions(ctx_));
  EXPECT_OK(juicefs_->CheckClean(url_));
}

// Two clients in one directory void each other's transactions; nothing may get lost by that.
TEST_P(MetaInterop, BothCreateInOneDirectory) {
  constexpr int kFiles = 100;
  FormatByThem(1);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_OK(store_->Mkdir(ctx_, root_, kRootIno, "d", 0777));
  const Ino dir = InoOf("d");
  {
    const auto mount = juicefs_->MountAt(url_, dir_->File("mnt"));
    ASSERT_OK(mount);
    std::jthread theirs([&] {
      for (int i = 0; i < kFiles; ++i) {
        std::ofstream((*mount)->path() + "/d/theirs" + std::to_string(i)) << "t";
      }
      for (int i = 0; i < kFiles; i += 2)
        fs::remove((*mount)->path() + "/d/theirs" + std::to_string(i));
    });
    for (int i = 0; i < kFiles; ++i) NewFile(dir, "ours" + std::to_string(i), "o");
    for (int i = 0; i < kFiles; i += 2) {
      EXPECT_OK(store_->Unlink(ctx_, root_, dir, "ours" + std::to_string(i)));
    }
    theirs.join();
    for (int i = 0; i < kFiles; ++i) {
      EXPECT_EQ(fs::exists((*mount)->path() + "/d/ours" + std::to_string(i)), i % 2 == 1) << i;
      const auto found = store_->Lookup(ctx_, root_, dir, "theirs" + std::to_string(i));
      EXPECT_EQ(found.has_value(), i % 2 == 1) << i;
    }
  }
  EXPECT_OK(juicefs_->CheckClean(url_));
  const auto usage = store_->GetDirUsage(ctx_, dir);
  ASSERT_OK(usage);
  EXPECT_EQ(*usage, (DirUsage{.length = kFiles, .space = kFiles * 4096, .inodes = kFiles}));
  const auto stat = store_->GetStatFs(ctx_);
  ASSERT_OK(stat);
  // All files (half of them in the trash), their directory, and this hour's (or two hours').
  EXPECT_GE(stat->used_inodes, 2U * kFiles + 2);
  EXPECT_LE(stat->used_inodes, 2U * kFiles + 3);
}

}  // namespace
}  // namespace paddleop::volume
