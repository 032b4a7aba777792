// A MetaStore that hands every call to another one: the base of tests that change a few of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "volume/meta/meta_store.h"

namespace paddleop::volume::testing {

class ForwardingMetaStore : public MetaStore {
 public:
  explicit ForwardingMetaStore(std::unique_ptr<MetaStore> inner) : inner_(std::move(inner)) {}

  Result<void> Format(const Context& ctx, const Setting& setting, bool force) override {
    return inner_->Format(ctx, setting, force);
  }
  Result<Setting> Load(const Context& ctx) override { return inner_->Load(ctx); }
  Result<void> UpdateSetting(const Context& ctx, const Setting& setting) override {
    return inner_->UpdateSetting(ctx, setting);
  }
  Result<StatFs> GetStatFs(const Context& ctx) override { return inner_->GetStatFs(ctx); }
  Result<Entry> Lookup(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                       std::optional<Attr>* directory) override {
    return inner_->Lookup(ctx, caller, parent, name, directory);
  }
  Result<std::vector<std::optional<Entry>>> LookupMany(
      const Context& ctx, std::span<const ChildName> children) override {
    return inner_->LookupMany(ctx, children);
  }
  Result<Entry> Resolve(const Context& ctx, const Caller& caller, Ino base,
                        std::string_view path) override {
    return inner_->Resolve(ctx, caller, base, path);
  }
  Result<Attr> GetAttr(const Context& ctx, Ino ino) override { return inner_->GetAttr(ctx, ino); }
  Result<std::vector<std::optional<Attr>>> GetAttrs(const Context& ctx,
                                                    std::span<const Ino> inodes) override {
    return inner_->GetAttrs(ctx, inodes);
  }
  Result<Attr> SetAttr(const Context& ctx, const Caller& caller, Ino ino,
                       const AttrChange& change) override {
    return inner_->SetAttr(ctx, caller, ino, change);
  }
  Result<Entry> Mkdir(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                      std::uint16_t mode) override {
    return inner_->Mkdir(ctx, caller, parent, name, mode);
  }
  Result<Entry> Mknod(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                      FileType type, std::uint16_t mode, std::uint32_t rdev) override {
    return inner_->Mknod(ctx, caller, parent, name, type, mode, rdev);
  }
  Result<Entry> Create(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                       std::uint16_t mode, bool exclusive) override {
    return inner_->Create(ctx, caller, parent, name, mode, exclusive);
  }
  Result<Entry> Symlink(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                        std::string_view target) override {
    return inner_->Symlink(ctx, caller, parent, name, target);
  }
  Result<std::string> ReadLink(const Context& ctx, Ino ino) override {
    return inner_->ReadLink(ctx, ino);
  }
  Result<Entry> Link(const Context& ctx, const Caller& caller, Ino ino, Ino parent,
                     std::string_view name) override {
    return inner_->Link(ctx, caller, ino, parent, name);
  }
  Result<void> Unlink(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                      bool skip_trash) override {
    return inner_->Unlink(ctx, caller, parent, name, skip_trash);
  }
  Result<std::uint64_t> UnlinkMany(const Context& ctx, const Caller& caller, Ino parent,
                                   std::span<const std::string> names, bool skip_trash) override {
    return inner_->UnlinkMany(ctx, caller, parent, names, skip_trash);
  }
  Result<void> Rmdir(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                     bool skip_trash) override {
    return inner_->Rmdir(ctx, caller, parent, name, skip_trash);
  }
  Result<Entry> Rename(const Context& ctx, const Caller& caller, Ino old_parent,
                       std::string_view old_name, Ino new_parent, std::string_view new_name,
                       RenameMode mode) override {
    return inner_->Rename(ctx, caller, old_parent, old_name, new_parent, new_name, mode);
  }
  Result<DirPage> ReadDir(const Context& ctx, const Caller& caller, Ino ino,
                          std::string_view cursor, std::size_t limit, bool with_attrs) override {
    return inner_->ReadDir(ctx, caller, ino, cursor, limit, with_attrs);
  }
  Result<std::string> GetXattr(const Context& ctx, Ino ino, std::string_view name) override {
    return inner_->GetXattr(ctx, ino, name);
  }
  Result<std::vector<std::string>> ListXattr(const Context& ctx, Ino ino) override {
    return inner_->ListXattr(ctx, ino);
  }
  Result<void> SetXattr(const Context& ctx, Ino ino, std::string_view name, std::string_view value,
                        XattrMode mode) override {
    return inner_->SetXattr(ctx, ino, name, value, mode);
  }
  Result<void> RemoveXattr(const Context& ctx, Ino ino, std::string_view name) override {
    return inner_->RemoveXattr(ctx, ino, name);
  }
  Result<Attr> Open(const Context& ctx, const Caller& caller, Ino ino, unsigned mask) override {
    return inner_->Open(ctx, caller, ino, mask);
  }
  Result<void> Close(const Context& ctx, Ino ino) override { return inner_->Close(ctx, ino); }
  Result<std::vector<Slice>> ReadSlices(const Context& ctx, Ino ino, std::uint32_t index) override {
    return inner_->ReadSlices(ctx, ino, index);
  }
  Result<std::uint64_t> NewSliceId(const Context& ctx) override { return inner_->NewSliceId(ctx); }
  Result<Attr> WriteSlice(const Context& ctx, Ino ino, std::uint32_t index, const Slice& slice,
                          Timestamp mtime) override {
    return inner_->WriteSlice(ctx, ino, index, slice, mtime);
  }
  Result<Attr> Truncate(const Context& ctx, const Caller& caller, Ino ino,
                        std::uint64_t length) override {
    return inner_->Truncate(ctx, caller, ino, length);
  }
  Result<Attr> Fallocate(const Context& ctx, const Caller& caller, Ino ino, FallocateMode mode,
                         std::uint64_t offset, std::uint64_t length) override {
    return inner_->Fallocate(ctx, caller, ino, mode, offset, length);
  }
  Result<std::uint64_t> CopyRange(const Context& ctx, Ino from, std::uint64_t from_offset, Ino to,
                                  std::uint64_t to_offset, std::uint64_t length) override {
    return inner_->CopyRange(ctx, from, from_offset, to, to_offset, length);
  }
  Result<Tree> LoadTree(const Context& ctx, Ino root, bool with_slices) override {
    return inner_->LoadTree(ctx, root, with_slices);
  }
  std::vector<Result<Ino>> CommitFiles(const Context& ctx, std::span<const NewFile> files,
                                       const CommitOptions& options) override {
    return inner_->CommitFiles(ctx, files, options);
  }
  Result<RemoveTreeDone> RemoveTree(const Context& ctx, const Caller& caller, Ino parent,
                                    std::string_view name,
                                    const RemoveTreeOptions& options) override {
    return inner_->RemoveTree(ctx, caller, parent, name, options);
  }
  Result<void> ScanChunks(const Context& ctx, const ChunkFn& fn) override {
    return inner_->ScanChunks(ctx, fn);
  }
  Result<void> ScanSliceRefs(const Context& ctx, const SliceRefFn& fn) override {
    return inner_->ScanSliceRefs(ctx, fn);
  }
  Result<void> ScanDelayedSlices(const Context& ctx, const SliceRefFn& fn) override {
    return inner_->ScanDelayedSlices(ctx, fn);
  }
  Result<DirUsage> GetDirUsage(const Context& ctx, Ino ino) override {
    return inner_->GetDirUsage(ctx, ino);
  }
  Result<DirUsage> SyncDirUsage(const Context& ctx, Ino ino) override {
    return inner_->SyncDirUsage(ctx, ino);
  }
  Result<TreeSummary> Summarize(const Context& ctx, Ino ino) override {
    return inner_->Summarize(ctx, ino);
  }
  Result<DirQuota> SetDirQuota(const Context& ctx, Ino ino, std::int64_t max_space,
                               std::int64_t max_inodes) override {
    return inner_->SetDirQuota(ctx, ino, max_space, max_inodes);
  }
  Result<DirQuota> GetDirQuota(const Context& ctx, Ino ino) override {
    return inner_->GetDirQuota(ctx, ino);
  }
  Result<void> RemoveDirQuota(const Context& ctx, Ino ino) override {
    return inner_->RemoveDirQuota(ctx, ino);
  }
  Result<std::uint64_t> OpenSession(const Context& ctx, const SessionInfo& info) override {
    return inner_->OpenSession(ctx, info);
  }
  Result<void> CloseSession(const Context& ctx) override { return inner_->CloseSession(ctx); }
  Result<std::vector<SessionRecord>> ListSessions(const Context& ctx) override {
    return inner_->ListSessions(ctx);
  }
  void SetSliceDeleter(SliceDeleter deleter) override {
    return inner_->SetSliceDeleter(std::move(deleter));
  }
  void SetBulkSliceDeleter(BulkSliceDeleter deleter) override {
    return inner_->SetBulkSliceDeleter(std::move(deleter));
  }
  Result<void> DrainDeletions(const Context& ctx) override { return inner_->DrainDeletions(ctx); }
  Result<std::vector<DeletedFile>> ListDeletedFiles(const Context& ctx,
                                                    std::size_t limit) override {
    return inner_->ListDeletedFiles(ctx, limit);
  }
  Result<void> RunMaintenance(const Context& ctx, bool ignore_leases) override {
    return inner_->RunMaintenance(ctx, ignore_leases);
  }

 private:
  const std::unique_ptr<MetaStore> inner_;
};

}  // namespace paddleop::volume::testing
