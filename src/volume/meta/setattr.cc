#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

bool Owns(const Caller& caller, const Attr& attr) {
  return caller.uid == 0 || !caller.check_permissions || caller.uid == attr.uid;
}

Result<void> Refuse(std::string_view what) {
  return Fail(Code::kPermission, "only the owner or user 0 changes the {}", what);
}

Result<void> ChangeOwner(const Caller& caller, const AttrChange& change, const Attr& before,
                         Attr& attr) {
  if (change.gid && *change.gid != before.gid) {
    if (!Owns(caller, before)) return Refuse("group");
    if (caller.uid != 0 && caller.check_permissions && !caller.InGroup(*change.gid)) {
      return Fail(Code::kPermission, "user {} is not in group {}", caller.uid, *change.gid);
    }
    attr.gid = *change.gid;
  }
  if (change.uid && *change.uid != before.uid) {
    if (caller.uid != 0 && caller.check_permissions) {
      return Fail(Code::kPermission, "only user 0 gives files away");
    }
    attr.uid = *change.uid;
  }
  return {};
}

// chown takes setuid and setgid away, except that user 0 keeps setgid without group execute (which
// once meant mandatory locking).
std::uint16_t ClearedByChown(const Caller& caller, const Attr& before, std::uint16_t mode) {
  if (before.type == FileType::kDirectory) return mode;
  const bool all = caller.uid != 0 || (before.mode & 00010) != 0;
  return mode & (all ? 01777 : 03777);
}

Result<void> ChangeMode(const Caller& caller, const AttrChange& change, const Attr& before,
                        Attr& attr) {
  if (change.mode) {
    std::uint16_t mode = *change.mode & 07777;
    if (caller.uid != 0 && (mode & 02000) != 0 && !caller.InGroup(attr.gid)) {
      mode &= static_cast<std::uint16_t>(~02000);
    }
    if (mode != before.mode && !Owns(caller, before)) return Refuse("mode");
    attr.mode = mode;
  }
  if (change.uid || change.gid) attr.mode = ClearedByChown(caller, before, attr.mode);
  return {};
}

Result<void> ChangeTimes(const Caller& caller, const AttrChange& change, const Attr& before,
                         const Timestamp& now, Attr& attr) {
  if ((change.atime && !change.atime_now) || (change.mtime && !change.mtime_now)) {
    if (!Owns(caller, before)) return Refuse("times");
  } else if ((change.atime_now || change.mtime_now) && !Owns(caller, before)) {
    RETURN_IF_ERROR(CheckAccess(caller, before, kMayWrite));
  }
  if (change.atime_now) {
    attr.atime = now;
  } else if (change.atime) {
    attr.atime = *change.atime;
  }
  if (change.mtime_now) {
    attr.mtime = now;
  } else if (change.mtime) {
    attr.mtime = *change.mtime;
  }
  return {};
}

}  // namespace

Result<Attr> EngineMetaStore::SetAttr(const Context& ctx, const Caller& caller, Ino ino,
                                      const AttrChange& change) {
  if (IsTrash(ino)) return Fail(Code::kPermission, "the trash cannot be changed");
  Attr result;
  const bool others = change.mode || change.uid || change.gid || change.flags || change.atime ||
                      change.mtime || change.atime_now || change.mtime_now;
  if (change.length) {
    ASSIGN_OR_RETURN(result, Truncate(ctx, caller, ino, *change.length));
    if (!others) return result;
  }
  RETURN_IF_ERROR(Run(ctx, [&](MetaTxn& txn, Changes&) -> Result<void> {
    const Timestamp now = Now();
    std::optional<Attr> before;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(ino, &before)));
    if (!before || IsNameless(ino, *before)) return NoInode(ino);
    if (IsThrownAway(ino, *before)) return Fail(Code::kPermission, "the file is in the trash");
    // An immutable file changes in one way only: it may become mutable again.
    if ((before->flags & kFlagImmutable) != 0 && !change.flags) {
      return Fail(Code::kPermission, "the file is immutable");
    }
    Attr attr = *before;
    RETURN_IF_ERROR(ChangeOwner(caller, change, *before, attr));
    RETURN_IF_ERROR(ChangeMode(caller, change, *before, attr));
    RETURN_IF_ERROR(ChangeTimes(caller, change, *before, now, attr));
    if (change.flags) {
      if (caller.uid != 0) return Fail(Code::kPermission, "only user 0 changes flags");
      attr.flags = *change.flags;
    }
    result = attr;
    if (attr == *before) return {};
    attr.ctime = now;
    txn.UpdateNode(ino, attr);
    result = attr;
    return {};
  }));
  return result;
}

}  // namespace paddleop::volume
