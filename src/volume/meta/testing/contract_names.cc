// Names and attributes.
#include <gmock/gmock.h>

#include "volume/meta/testing/meta_contract.h"

namespace paddleop::volume::testing {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_P(MetaStoreContract, FormatsOnce) {
  EXPECT_CODE(store_->Format(ctx_, TestSetting(), false), Code::kAlreadyExists);
  MakeFile(kRootIno, "a");
  EXPECT_OK(store_->Format(ctx_, TestSetting(), true));
  EXPECT_THAT(List(kRootIno), ElementsAre("a")) << "format with force keeps the tree";
  const auto root = store_->GetAttr(ctx_, kRootIno);
  ASSERT_OK(root);
  EXPECT_EQ(root->type, FileType::kDirectory);
  EXPECT_EQ(root->mode, 0777);
  EXPECT_EQ(root->nlink, 2U);
  EXPECT_EQ(root->length, 4096U);
}

TEST_P(MetaStoreContract, AnEmptyDatabaseHoldsNoVolume) {
  auto database = GetParam().make();
  ASSERT_OK(database);
  auto store = OpenMetaStore(ctx_, (*database)->url(), {});
  ASSERT_OK(store);
  EXPECT_CODE((*store)->Load(ctx_), Code::kNotFound);
}

TEST_P(MetaStoreContract, VolumesWeMayOnlyReadAreNotWritten) {
  MakeFile(kRootIno, "a");
  Setting setting = TestSetting();
  setting.enable_acl = true;
  ASSERT_OK(store_->UpdateSetting(ctx_, setting));
  EXPECT_OK(store_->Lookup(ctx_, root_, kRootIno, "a"));
  EXPECT_CODE(store_->Mkdir(ctx_, root_, kRootIno, "d", 0755), Code::kNotSupported);
  MetaOptions read_only;
  read_only.read_only = true;
  auto reader = OpenAnother(read_only);
  EXPECT_OK(reader->Lookup(ctx_, root_, kRootIno, "a"));
  EXPECT_CODE(reader->Unlink(ctx_, root_, kRootIno, "a"), Code::kPermission);
}

TEST_P(MetaStoreContract, MakesAndFindsNames) {
  const Ino dir = MakeDir(kRootIno, "dir");
  const auto file = store_->Mknod(ctx_, root_, dir, "file", FileType::kFile, 0640, 0);
  ASSERT_OK(file);
  EXPECT_EQ(file->attr.mode, 0640);
  EXPECT_EQ(file->attr.nlink, 1U);
  EXPECT_EQ(file->attr.parent, dir);
  const auto found = store_->Lookup(ctx_, root_, dir, "file");
  ASSERT_OK(found);
  EXPECT_EQ(found->ino, file->ino);
  EXPECT_EQ(found->attr, file->attr);
  const auto resolved = store_->Resolve(ctx_, root_, kRootIno, "/dir//file");
  ASSERT_OK(resolved);
  EXPECT_EQ(resolved->ino, file->ino);
  EXPECT_EQ(store_->Lookup(ctx_, root_, dir, "..")->ino, kRootIno);
  EXPECT_EQ(store_->Lookup(ctx_, root_, dir, ".")->ino, dir);
  std::optional<Attr> directory;
  EXPECT_CODE(store_->Lookup(ctx_, root_, dir, "none", &directory), Code::kNotFound);
  EXPECT_EQ(directory, *store_->GetAttr(ctx_, dir));
  EXPECT_CODE(store_->Lookup(ctx_, root_, Ino{999}, "none", &directory), Code::kNotFound);
  EXPECT_EQ(directory, std::nullopt);
  EXPECT_CODE(store_->Lookup(ctx_, root_, file->ino, "x"), Code::kNotDirectory);
  EXPECT_CODE(store_->Lookup(ctx_, root_, Ino{999}, "x"), Code::kNotFound);
  EXPECT_CODE(store_->Mkdir(ctx_, root_, kRootIno, "dir", 0755), Code::kAlreadyExists);
  EXPECT_CODE(store_->Mkdir(ctx_, root_, file->ino, "x", 0755), Code::kNotDirectory);
  EXPECT_CODE(store_->Mkdir(ctx_, root_, kRootIno, std::string(256, 'x'), 0755),
              Code::kNameTooLong);
  EXPECT_CODE(store_->Mkdir(ctx_, root_, kRootIno, ".trash", 0755), Code::kPermission);
  EXPECT_EQ(store_->GetAttr(ctx_, kRootIno)->nlink, 3U);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, NamesAreBytes) {
  const std::string odd = "\xff\xfe \n'\"%_*";
  MakeFile(kRootIno, odd);
  MakeFile(kRootIno, "abc");
  EXPECT_OK(store_->Lookup(ctx_, root_, kRootIno, odd));
  EXPECT_THAT(List(kRootIno), ElementsAre("abc", odd));
}

TEST_P(MetaStoreContract, AllTypesOfNodes) {
  for (const FileType type :
       {FileType::kFifo, FileType::kBlockDevice, FileType::kCharDevice, FileType::kSocket}) {
    const std::string name = std::to_string(static_cast<int>(type));
    ASSERT_OK(store_->Mknod(ctx_, root_, kRootIno, name, type, 0600, 0x0103));
    const auto found = store_->Lookup(ctx_, root_, kRootIno, name);
    ASSERT_OK(found);
    EXPECT_EQ(found->attr.type, type);
    EXPECT_EQ(found->attr.rdev, 0x0103U);
    EXPECT_OK(store_->Unlink(ctx_, root_, kRootIno, name));
  }
  EXPECT_CODE(store_->Mknod(ctx_, root_, kRootIno, "d", FileType::kDirectory, 0600, 0),
              Code::kInvalid);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, CreateOpensWhatExistsUnlessExclusive) {
  const auto first = store_->Create(ctx_, root_, kRootIno, "a", 0600, true);
  ASSERT_OK(first);
  const auto second = store_->Create(ctx_, root_, kRootIno, "a", 0644, false);
  ASSERT_OK(second);
  EXPECT_EQ(first->ino, second->ino);
  EXPECT_EQ(second->attr.mode, 0600);
  EXPECT_CODE(store_->Create(ctx_, root_, kRootIno, "a", 0644, true), Code::kAlreadyExists);
  MakeDir(kRootIno, "d");
  EXPECT_CODE(store_->Create(ctx_, root_, kRootIno, "d", 0644, false), Code::kIsDirectory);
  const Caller user{.uid = 100, .gid = 200, .groups = {}};
  EXPECT_CODE(store_->Create(ctx_, user, kRootIno, "a", 0644, false), Code::kPermission);
  ASSERT_OK(store_->Mknod(ctx_, root_, kRootIno, "p", FileType::kFifo, 0666, 0));
  EXPECT_CODE(store_->Create(ctx_, root_, kRootIno, "p", 0644, false), Code::kInvalid);
  ASSERT_OK(store_->SetAttr(ctx_, root_, first->ino, {.flags = kFlagImmutable}));
  EXPECT_CODE(store_->Create(ctx_, root_, kRootIno, "a", 0644, false), Code::kPermission);
  EXPECT_OK(store_->Close(ctx_, first->ino));
  EXPECT_OK(store_->Close(ctx_, first->ino));
  EXPECT_CODE(store_->Close(ctx_, first->ino), Code::kInvalid);
}

TEST_P(MetaStoreContract, GroupsAreInherited) {
  const Caller user{.uid = 100, .gid = 200, .groups = {}, .umask = 022};
  const Ino dir = MakeDir(kRootIno, "d");
  ASSERT_OK(store_->SetAttr(ctx_, root_, dir, {.mode = 02777, .gid = 7}));
  const auto file = store_->Mknod(ctx_, user, dir, "f", FileType::kFile, 0666, 0);
  ASSERT_OK(file);
  EXPECT_EQ(file->attr.uid, 100U);
  EXPECT_EQ(file->attr.gid, 7U);
  EXPECT_EQ(file->attr.mode, 0644);
  const auto sub = store_->Mkdir(ctx_, user, dir, "s", 0777);
  ASSERT_OK(sub);
  EXPECT_EQ(sub->attr.mode, 02755);
  EXPECT_EQ(sub->attr.gid, 7U);
}

TEST_P(MetaStoreContract, SymbolicLinks) {
  const std::string target("somewhere/else \xff", 16);
  const auto link = store_->Symlink(ctx_, root_, kRootIno, "l", target);
  ASSERT_OK(link);
  EXPECT_EQ(link->attr.length, target.size());
  EXPECT_EQ(*store_->ReadLink(ctx_, link->ino), target);
  EXPECT_CODE(store_->ReadLink(ctx_, kRootIno), Code::kInvalid);
  EXPECT_CODE(store_->Symlink(ctx_, root_, kRootIno, "m", std::string(4096, 'x')),
              Code::kNameTooLong);
  EXPECT_OK(store_->Unlink(ctx_, root_, kRootIno, "l"));
  EXPECT_CODE(store_->ReadLink(ctx_, link->ino), Code::kNotFound);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, HardLinks) {
  const Ino dir = MakeDir(kRootIno, "d");
  const Ino file = MakeFile(kRootIno, "a", 5000);
  const auto linked = store_->Link(ctx_, root_, file, dir, "b");
  ASSERT_OK(linked);
  EXPECT_EQ(linked->attr.nlink, 2U);
  ExpectConsistent();
  ASSERT_OK(store_->Link(ctx_, root_, file, dir, "c"));
  EXPECT_CODE(store_->Link(ctx_, root_, file, dir, "c"), Code::kAlreadyExists);
  EXPECT_CODE(store_->Link(ctx_, root_, dir, kRootIno, "e"), Code::kPermission);
  ASSERT_OK(store_->Truncate(ctx_, root_, file, 20000));
  ExpectConsistent();
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  EXPECT_EQ(store_->GetAttr(ctx_, file)->nlink, 2U);
  ASSERT_OK(store_->Unlink(ctx_, root_, dir, "b"));
  ASSERT_OK(store_->Rename(ctx_, root_, dir, "c", kRootIno, "z", RenameMode::kReplace));
  ExpectConsistent();
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "z"));
  EXPECT_CODE(store_->GetAttr(ctx_, file), Code::kNotFound);
}

TEST_P(MetaStoreContract, UnlinkAndRmdir) {
  const Ino dir = MakeDir(kRootIno, "d");
  MakeFile(dir, "f", 10);
  EXPECT_CODE(store_->Rmdir(ctx_, root_, kRootIno, "d"), Code::kNotEmpty);
  EXPECT_CODE(store_->Unlink(ctx_, root_, kRootIno, "d"), Code::kIsDirectory);
  EXPECT_CODE(store_->Rmdir(ctx_, root_, dir, "f"), Code::kNotDirectory);
  EXPECT_CODE(store_->Unlink(ctx_, root_, dir, "x"), Code::kNotFound);
  EXPECT_OK(store_->Unlink(ctx_, root_, dir, "f"));
  EXPECT_OK(store_->Rmdir(ctx_, root_, kRootIno, "d"));
  EXPECT_CODE(store_->GetAttr(ctx_, dir), Code::kNotFound);
  EXPECT_EQ(store_->GetAttr(ctx_, kRootIno)->nlink, 2U);
  EXPECT_THAT(List(kRootIno), IsEmpty());
}

TEST_P(MetaStoreContract, RenameMovesAndReplaces) {
  const Ino one = MakeDir(kRootIno, "one");
  const Ino two = MakeDir(kRootIno, "two");
  const Ino file = MakeFile(one, "f", 100);
  const auto moved = store_->Rename(ctx_, root_, one, "f", two, "g", RenameMode::kReplace);
  ASSERT_OK(moved);
  EXPECT_EQ(moved->ino, file);
  EXPECT_EQ(moved->attr.parent, two);
  EXPECT_CODE(store_->Lookup(ctx_, root_, one, "f"), Code::kNotFound);
  ExpectConsistent();
  const Ino other = MakeFile(one, "h", 5);
  EXPECT_CODE(store_->Rename(ctx_, root_, two, "g", one, "h", RenameMode::kNoReplace),
              Code::kAlreadyExists);
  ASSERT_OK(store_->Rename(ctx_, root_, two, "g", one, "h", RenameMode::kReplace));
  EXPECT_CODE(store_->GetAttr(ctx_, other), Code::kNotFound);
  EXPECT_EQ(store_->Lookup(ctx_, root_, one, "h")->ino, file);
  EXPECT_CODE(store_->Rename(ctx_, root_, one, "x", two, "y", RenameMode::kReplace),
              Code::kNotFound);
  EXPECT_OK(store_->Rename(ctx_, root_, one, "h", one, "h", RenameMode::kReplace));
  EXPECT_THAT(List(one), ElementsAre("h"));
}

TEST_P(MetaStoreContract, RenameOfDirectories) {
  const Ino one = MakeDir(kRootIno, "one");
  const Ino two = MakeDir(kRootIno, "two");
  const Ino sub = MakeDir(one, "sub");
  MakeFile(kRootIno, "f");
  EXPECT_CODE(store_->Rename(ctx_, root_, kRootIno, "one", sub, "x", RenameMode::kReplace),
              Code::kInvalid);
  EXPECT_CODE(store_->Rename(ctx_, root_, kRootIno, "two", kRootIno, "f", RenameMode::kReplace),
              Code::kNotDirectory);
  EXPECT_CODE(store_->Rename(ctx_, root_, kRootIno, "f", kRootIno, "two", RenameMode::kReplace),
              Code::kIsDirectory);
  EXPECT_CODE(store_->Rename(ctx_, root_, kRootIno, "two", kRootIno, "one", RenameMode::kReplace),
              Code::kNotEmpty);
  ASSERT_OK(store_->Rename(ctx_, root_, one, "sub", two, "sub", RenameMode::kReplace));
  EXPECT_EQ(store_->GetAttr(ctx_, one)->nlink, 2U);
  EXPECT_EQ(store_->GetAttr(ctx_, two)->nlink, 3U);
  ExpectConsistent();
  ASSERT_OK(store_->Rename(ctx_, root_, kRootIno, "two", kRootIno, "one", RenameMode::kReplace));
  EXPECT_CODE(store_->GetAttr(ctx_, one), Code::kNotFound);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, RenameExchanges) {
  const Ino dir = MakeDir(kRootIno, "d");
  const Ino sub = MakeDir(dir, "s");
  const Ino file = MakeFile(kRootIno, "f", 9000);
  EXPECT_CODE(store_->Rename(ctx_, root_, kRootIno, "f", dir, "x", RenameMode::kExchange),
              Code::kNotFound);
  ASSERT_OK(store_->Rename(ctx_, root_, kRootIno, "f", dir, "s", RenameMode::kExchange));
  EXPECT_EQ(store_->Lookup(ctx_, root_, kRootIno, "f")->ino, sub);
  EXPECT_EQ(store_->Lookup(ctx_, root_, dir, "s")->ino, file);
  EXPECT_EQ(store_->GetAttr(ctx_, sub)->parent, kRootIno);
  ExpectConsistent();
}

TEST_P(MetaStoreContract, ReadsDirectoriesInPages) {
  std::vector<std::string> expected;
  for (int i = 0; i < 25; ++i) {
    expected.push_back("f" + std::to_string(100 + i));
    MakeFile(kRootIno, expected.back());
  }
  EXPECT_EQ(List(kRootIno), expected);
  EXPECT_CODE(store_->ReadDir(ctx_, root_, Ino{999}, "", 10, true), Code::kNotFound);
}

TEST_P(MetaStoreContract, SetsAttributes) {
  const Ino file = MakeFile(kRootIno, "a");
  const auto changed = store_->SetAttr(ctx_, root_, file,
                                       {.mode = 0600,
                                        .uid = 5,
                                        .gid = 6,
                                        .atime = Timestamp{1, 2},
                                        .mtime = Timestamp{-3, 999999999}});
  ASSERT_OK(changed);
  const auto read = store_->GetAttr(ctx_, file);
  ASSERT_OK(read);
  EXPECT_EQ(*read, *changed);
  EXPECT_EQ(read->mode, 0600);
  EXPECT_EQ(read->uid, 5U);
  EXPECT_EQ(read->gid, 6U);
  EXPECT_EQ(read->atime, (Timestamp{1, 2}));
  EXPECT_EQ(read->mtime, (Timestamp{-3, 999999999}));
  EXPECT_CODE(store_->SetAttr(ctx_, root_, Ino{999}, {.mode = 0600}), Code::kNotFound);
}

TEST_P(MetaStoreContract, PermissionsAreChecked) {
  const Caller owner{.uid = 5, .gid = 5, .groups = {}};
  const Caller other{.uid = 6, .gid = 6, .groups = {}};
  const Ino dir = MakeDir(kRootIno, "d");
  EXPECT_CODE(store_->Mknod(ctx_, owner, dir, "x", FileType::kFile, 0644, 0), Code::kPermission);
  ASSERT_OK(store_->SetAttr(ctx_, root_, dir, {.mode = 01777}));
  const auto file = store_->Mknod(ctx_, owner, dir, "x", FileType::kFile, 0600, 0);
  ASSERT_OK(file);
  EXPECT_CODE(store_->Unlink(ctx_, other, dir, "x"), Code::kPermission) << "sticky";
  EXPECT_CODE(store_->Rename(ctx_, other, dir, "x", dir, "y", RenameMode::kReplace),
              Code::kPermission);
  EXPECT_CODE(store_->SetAttr(ctx_, other, file->ino, {.mode = 0777}), Code::kPermission);
  EXPECT_CODE(store_->SetAttr(ctx_, owner, file->ino, {.uid = 6}), Code::kPermission);
  EXPECT_CODE(store_->Truncate(ctx_, other, file->ino, 0), Code::kPermission);
  EXPECT_CODE(store_->Open(ctx_, other, file->ino, kMayRead), Code::kPermission);
  ASSERT_OK(store_->SetAttr(ctx_, root_, file->ino, {.flags = kFlagImmutable}));
  EXPECT_CODE(store_->Unlink(ctx_, root_, dir, "x"), Code::kPermission);
  EXPECT_CODE(store_->Truncate(ctx_, root_, file->ino, 5), Code::kPermission);
  ASSERT_OK(store_->SetAttr(ctx_, root_, file->ino, {.flags = 0}));
  EXPECT_OK(store_->Unlink(ctx_, owner, dir, "x"));
}

TEST_P(MetaStoreContract, ExtendedAttributes) {
  const Ino file = MakeFile(kRootIno, "a");
  const std::string value("v\0\xff", 3);
  EXPECT_CODE(store_->GetXattr(ctx_, file, "user.a"), Code::kNotFound);
  EXPECT_CODE(store_->SetXattr(ctx_, file, "user.a", value, XattrMode::kReplace), Code::kNotFound);
  ASSERT_OK(store_->SetXattr(ctx_, file, "user.a", value, XattrMode::kCreate));
  EXPECT_EQ(*store_->GetXattr(ctx_, file, "user.a"), value);
  EXPECT_CODE(store_->SetXattr(ctx_, file, "user.a", "x", XattrMode::kCreate),
              Code::kAlreadyExists);
  ASSERT_OK(store_->SetXattr(ctx_, file, "user.a", "", XattrMode::kReplace));
  EXPECT_EQ(*store_->GetXattr(ctx_, file, "user.a"), "");
  ASSERT_OK(store_->SetXattr(ctx_, file, "user.b", "2", XattrMode::kAny));
  EXPECT_THAT(*store_->ListXattr(ctx_, file), ::testing::UnorderedElementsAre("user.a", "user.b"));
  ASSERT_OK(store_->RemoveXattr(ctx_, file, "user.a"));
  EXPECT_CODE(store_->RemoveXattr(ctx_, file, "user.a"), Code::kNotFound);
  ASSERT_OK(store_->Unlink(ctx_, root_, kRootIno, "a"));
  EXPECT_THAT(*store_->ListXattr(ctx_, file), IsEmpty());
}

TEST_P(MetaStoreContract, WhatOneClientCommitsTheNextSees) {
  auto other = OpenAnother();
  const Ino file = MakeFile(kRootIno, "a", 10);
  EXPECT_EQ(other->Lookup(ctx_, root_, kRootIno, "a")->ino, file);
  ASSERT_OK(other->Unlink(ctx_, root_, kRootIno, "a"));
  EXPECT_CODE(store_->Lookup(ctx_, root_, kRootIno, "a"), Code::kNotFound);
  const auto theirs = other->Mkdir(ctx_, root_, kRootIno, "b", 0755);
  const auto ours = store_->Mkdir(ctx_, root_, kRootIno, "c", 0755);
  ASSERT_OK(theirs);
  ASSERT_OK(ours);
  EXPECT_NE(theirs->ino, ours->ino);
}

}  // namespace paddleop::volume::testing
