// Names and attributes of the general mode.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include "fuse/internal/general_state.h"

namespace paddleop::fuse {
namespace {

using volume::AttrChange;
using volume::FileType;
using volume::Timestamp;
using State = GeneralFs::State;

void OnLookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kLookup, parent);
  call.Detail(",{}", name);
  std::optional<volume::Attr> directory;
  auto entry = state.vfs.Lookup(call.ctx(), call.caller(), call.ino(), name, &directory);
  if (!entry && IsNotFound(entry.error())) {
    if (state.LostDirectory(call.ino(), directory) &&
        state.refusals.RefusesName(call.thread(), call.ino(), name))
      return call.Error(ESTALE);
    return call.ReplyNoEntry();
  }
  call.Reply(entry);
}

void OnForget(fuse_req_t request, fuse_ino_t, std::uint64_t) {
  // Nothing is held for inodes that the kernel knows.
  fuse_reply_none(request);
}

void OnForgetMulti(fuse_req_t request, std::size_t, fuse_forget_data*) { fuse_reply_none(request); }

void OnGetAttr(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kGetAttr, ino);
  if (file == nullptr) return call.Reply(state.vfs.GetAttr(call.ctx(), call.ino()));
  // Before a read, with its handle, the kernel asks whether it may keep its pages, which it drops
  // when the times are others. What was written through it is there already.
  auto found = state.vfs.GetCommittedAttr(call.ctx(), call.ino());
  if (!found) return call.Error(found.error());
  if (found->behind) return call.ReplyForNow(found->attr);
  call.Reply(Result<volume::Attr>(found->attr));
}

Timestamp FromTimespec(const timespec& time) {
  return {.seconds = time.tv_sec, .nanos = static_cast<std::uint32_t>(time.tv_nsec)};
}

AttrChange ToChange(const struct stat& attr, int set) {
  AttrChange change;
  if ((set & FUSE_SET_ATTR_MODE) != 0)
    change.mode = static_cast<std::uint16_t>(attr.st_mode & 07777);
  if ((set & FUSE_SET_ATTR_UID) != 0) change.uid = attr.st_uid;
  if ((set & FUSE_SET_ATTR_GID) != 0) change.gid = attr.st_gid;
  if ((set & FUSE_SET_ATTR_SIZE) != 0) change.length = static_cast<std::uint64_t>(attr.st_size);
  if ((set & FUSE_SET_ATTR_ATIME) != 0) {
    change.atime = FromTimespec(attr.st_atim);
    change.atime_now = (set & FUSE_SET_ATTR_ATIME_NOW) != 0;
  }
  if ((set & FUSE_SET_ATTR_MTIME) != 0) {
    change.mtime = FromTimespec(attr.st_mtim);
    change.mtime_now = (set & FUSE_SET_ATTR_MTIME_NOW) != 0;
  }
  return change;
}

void OnSetAttr(fuse_req_t request, fuse_ino_t ino, struct stat* attr, int set, fuse_file_info*) {
  State& state = State::Of(request);
  const AttrChange change = ToChange(*attr, set);
  auto call = std::make_unique<Call>(state.env, request, Op::kSetAttr, ino);
  call->Detail(",0x{:x}", set);
  if (change.length && *change.length > volume::kMaxFileSize) return call->Error(EFBIG);
  state.RunIo([&state, change, call = std::move(call)] {
    const bool setgid = change.mode && (*change.mode & S_ISGID) != 0;
    // Truncation commits what was written before: that is not broken off.
    const Context ctx = change.length ? call->LastingContext() : call->ctx();
    auto changed = state.vfs.SetAttr(ctx, call->caller(setgid), call->ino(), change);
    if (!changed) return call->Error(state.WhyRefused(*call, std::move(changed).error()));
    call->Reply(changed);
  });
}

void OnReadLink(fuse_req_t request, fuse_ino_t ino) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kReadLink, ino);
  auto target = state.vfs.meta().ReadLink(call.ctx(), call.ino());
  if (!target) return call.Error(target.error());
  call.ReplyText(*target);
}

FileType TypeOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFIFO:
      return FileType::kFifo;
    case S_IFBLK:
      return FileType::kBlockDevice;
    case S_IFCHR:
      return FileType::kCharDevice;
    case S_IFSOCK:
      return FileType::kSocket;
    default:
      return FileType::kFile;
  }
}

void ReplyMade(State& state, Call& call, Result<volume::Entry> entry) {
  if (!entry) return call.Error(state.WhyNotMade(call.ino(), std::move(entry).error()));
  call.Reply(entry);
}

void ReplyRemoved(State& state, Call& call, const char* name, const Result<void>& removed) {
  if (!removed && IsNotFound(removed.error()) && state.RefusesLost(call, call.ino(), name))
    return call.Error(ESTALE);
  call.Reply(removed);
}

void OnMknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kMknod, parent);
  call.Detail(",{},{:o}", name, mode);
  ReplyMade(state, call,
            state.vfs.meta().Mknod(call.ctx(), call.caller((mode & S_ISGID) != 0), call.ino(), name,
                                   TypeOf(mode), static_cast<std::uint16_t>(mode & 07777),
                                   static_cast<std::uint32_t>(rdev)));
}

void OnMkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kMkdir, parent);
  call.Detail(",{},{:o}", name, mode);
  ReplyMade(state, call,
            state.vfs.meta().Mkdir(call.ctx(), call.caller(), call.ino(), name,
                                   static_cast<std::uint16_t>(mode & 07777)));
}

void OnUnlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kUnlink, parent);
  call.Detail(",{}", name);
  ReplyRemoved(state, call, name,
               state.vfs.meta().Unlink(call.ctx(), call.caller(), call.ino(), name));
}

void OnRmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kRmdir, parent);
  call.Detail(",{}", name);
  ReplyRemoved(state, call, name,
               state.vfs.meta().Rmdir(call.ctx(), call.caller(), call.ino(), name));
}

void OnSymlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kSymlink, parent);
  call.Detail(",{},{}", name, target);
  ReplyMade(state, call,
            state.vfs.meta().Symlink(call.ctx(), call.caller(), call.ino(), name, target));
}

void OnRename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
              const char* new_name, unsigned flags) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kRename, parent);
  call.Detail(",{},{},{}", name, new_parent, new_name);
  auto mode = volume::RenameMode::kReplace;
  if (flags == RENAME_NOREPLACE) {
    mode = volume::RenameMode::kNoReplace;
  } else if (flags == RENAME_EXCHANGE) {
    mode = volume::RenameMode::kExchange;
  } else if (flags != 0) {
    return call.Error(EINVAL);
  }
  auto renamed = state.vfs.meta().Rename(call.ctx(), call.caller(), call.ino(), name,
                                         call.FromKernel(new_parent), new_name, mode);
  if (!renamed && IsNotFound(renamed.error()) &&
      (state.RefusesLost(call, call.ino(), name) ||
       state.RefusesLost(call, call.FromKernel(new_parent), new_name)))
    return call.Error(ESTALE);
  if (!renamed) return call.Error(renamed.error());
  state.trashed.Forget(renamed->ino);
  call.Ok();
}

void OnLink(fuse_req_t request, fuse_ino_t ino, fuse_ino_t new_parent, const char* new_name) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kLink, ino);
  call.Detail(",{},{}", new_parent, new_name);
  auto entry = state.vfs.meta().Link(call.ctx(), call.caller(), call.ino(),
                                     call.FromKernel(new_parent), new_name);
  if (!entry) {
    auto status = state.WhyNotMade(call.FromKernel(new_parent), std::move(entry).error());
    return call.Error(state.WhyRefused(call, std::move(status)));
  }
  if (state.vfs.IsOpen(entry->ino)) {
    // The file may be longer than the volume knows.
    if (auto attr = state.vfs.GetAttr(call.ctx(), entry->ino)) entry->attr = *std::move(attr);
  }
  call.Reply(entry);
}

void OnStatFs(fuse_req_t request, fuse_ino_t ino) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kStatFs, ino);
  auto usage = state.vfs.meta().GetStatFs(call.ctx());
  if (!usage) return call.Error(usage.error());
  call.ReplyStatFs(*usage);
}

}  // namespace

void AddNameOperations(fuse_lowlevel_ops& ops) {
  ops.lookup = OnLookup;
  ops.forget = OnForget;
  ops.forget_multi = OnForgetMulti;
  ops.getattr = OnGetAttr;
  ops.setattr = OnSetAttr;
  ops.readlink = OnReadLink;
  ops.mknod = OnMknod;
  ops.mkdir = OnMkdir;
  ops.unlink = OnUnlink;
  ops.rmdir = OnRmdir;
  ops.symlink = OnSymlink;
  ops.rename = OnRename;
  ops.link = OnLink;
  ops.statfs = OnStatFs;
}

}  // namespace paddleop::fuse
