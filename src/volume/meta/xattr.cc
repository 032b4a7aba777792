#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

constexpr std::size_t kMaxXattrValue = 65536;

// Names the official client turns into ACLs instead of storing them.
bool IsAcl(std::string_view name) {
  return name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

}  // namespace

Result<std::string> EngineMetaStore::GetXattr(const Context& ctx, Ino ino, std::string_view name) {
  std::optional<std::string> value;
  RETURN_IF_ERROR(engine_->ReadOnce(ctx, ReadSet().Xattr(ino, name, &value)));
  if (!value) {
    return Fail(Code::kNotFound, "inode {} has no attribute '{}'", ToInt(ino), name);
  }
  return *std::move(value);
}

Result<std::vector<std::string>> EngineMetaStore::ListXattr(const Context& ctx, Ino ino) {
  return engine_->ListXattr(ctx, ino);
}

// As for other attributes: what others have removed or thrown away is not changed any more.
Result<void> EngineMetaStore::CheckXattr(Ino ino, const std::optional<Attr>& attr) {
  if (!attr || IsNameless(ino, *attr)) return NoInode(ino);
  if (IsThrownAway(ino, *attr)) return Fail(Code::kPermission, "the file is in the trash");
  return {};
}

Result<void> EngineMetaStore::SetXattr(const Context& ctx, Ino ino, std::string_view name,
                                       std::string_view value, XattrMode mode) {
  if (name.empty() || name.size() > kMaxName || name.find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalid, "attribute name of {} bytes: 1 to {} without NUL", name.size(),
                kMaxName);
  }
  if (IsAcl(name)) return Fail(Code::kNotSupported, "access control lists are not supported");
  if (value.size() > kMaxXattrValue) {
    return Fail(Code::kInvalid, "attribute of {} bytes: at most {}", value.size(), kMaxXattrValue);
  }
  if (IsTrash(ino)) return Fail(Code::kPermission, "the trash cannot be changed");
  return Run(ctx, [&](MetaTxn& txn, Changes&) -> Result<void> {
    std::optional<Attr> attr;
    std::optional<std::string> present;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(ino, &attr).Xattr(ino, name, &present)));
    RETURN_IF_ERROR(CheckXattr(ino, attr));
    if (present && mode == XattrMode::kCreate) {
      return Fail(Code::kAlreadyExists, "inode {} has an attribute '{}'", ToInt(ino), name);
    }
    if (!present && mode == XattrMode::kReplace) {
      return Fail(Code::kNotFound, "inode {} has no attribute '{}'", ToInt(ino), name);
    }
    txn.PutXattr(ino, name, value);
    return {};
  });
}

Result<void> EngineMetaStore::RemoveXattr(const Context& ctx, Ino ino, std::string_view name) {
  return Run(ctx, [&](MetaTxn& txn, Changes&) -> Result<void> {
    std::optional<Attr> attr;
    std::optional<std::string> present;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(ino, &attr).Xattr(ino, name, &present)));
    RETURN_IF_ERROR(CheckXattr(ino, attr));
    if (!present) return Fail(Code::kNotFound, "inode {} has no attribute '{}'", ToInt(ino), name);
    txn.DeleteXattr(ino, name);
    return {};
  });
}

}  // namespace paddleop::volume
