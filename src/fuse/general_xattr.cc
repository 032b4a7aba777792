// Extended attributes of the general mode.
#include <sys/xattr.h>

#include "fuse/internal/general_state.h"

namespace paddleop::fuse {
namespace {

using State = GeneralFs::State;

// The kernel asks for these on every write and every listing; they are never stored, so it costs
// no round trip to say so.
bool NeverStored(std::string_view name) {
  return name == "security.capability" || name == "security.selinux" || name == "security.ima" ||
         name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

// The volume did not find the attribute, or the file.
void ReplyNoAttribute(State& state, Call& call) {
  auto attr = state.vfs.meta().GetAttr(call.ctx(), call.ino());
  if (!attr) return call.Error(attr.error());
  // Without a name it is here only for those who have it open.
  const bool gone = attr->nlink == 0 && !state.vfs.IsOpen(call.ino());
  call.Error(gone ? ESTALE : ENODATA);
}

void OnGetXattr(fuse_req_t request, fuse_ino_t ino, const char* name, std::size_t size) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kGetXattr, ino);
  call.Detail(",{},{}", name, size);
  // The kernel does not ask again after this answer.
  if (!state.options.xattr) return call.Error(ENOSYS);
  if (NeverStored(name)) return call.Error(ENODATA);
  auto value = state.vfs.meta().GetXattr(call.ctx(), call.ino(), name);
  if (!value && IsNotFound(value.error())) return ReplyNoAttribute(state, call);
  if (!value) return call.Error(value.error());
  call.ReplyXattr(*value, size);
}

void OnListXattr(fuse_req_t request, fuse_ino_t ino, std::size_t size) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kListXattr, ino);
  if (!state.options.xattr) return call.Error(ENOSYS);
  auto names = state.vfs.meta().ListXattr(call.ctx(), call.ino());
  if (!names) return call.Error(names.error());
  std::string all;
  for (const std::string& name : *names) all.append(name).push_back('\0');
  call.ReplyXattr(all, size);
}

void OnSetXattr(fuse_req_t request, fuse_ino_t ino, const char* name, const char* value,
                std::size_t size, int flags) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kSetXattr, ino);
  call.Detail(",{},{}", name, size);
  if (!state.options.xattr) return call.Error(ENOSYS);
  if (NeverStored(name)) return call.Error(ENOTSUP);
  auto mode = volume::XattrMode::kAny;
  if (flags == XATTR_CREATE) mode = volume::XattrMode::kCreate;
  if (flags == XATTR_REPLACE) mode = volume::XattrMode::kReplace;
  auto set = state.vfs.meta().SetXattr(call.ctx(), call.ino(), name, {value, size}, mode);
  if (!set && IsNotFound(set.error()) && mode == volume::XattrMode::kReplace)
    return ReplyNoAttribute(state, call);
  if (!set) return call.Error(state.WhyRefused(call, std::move(set).error()));
  call.Ok();
}

void OnRemoveXattr(fuse_req_t request, fuse_ino_t ino, const char* name) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kRemoveXattr, ino);
  call.Detail(",{}", name);
  if (!state.options.xattr) return call.Error(ENOSYS);
  auto removed = state.vfs.meta().RemoveXattr(call.ctx(), call.ino(), name);
  if (!removed && IsNotFound(removed.error())) return ReplyNoAttribute(state, call);
  if (!removed) return call.Error(state.WhyRefused(call, std::move(removed).error()));
  call.Ok();
}

}  // namespace

void AddXattrOperations(fuse_lowlevel_ops& ops) {
  ops.getxattr = OnGetXattr;
  ops.listxattr = OnListXattr;
  ops.setxattr = OnSetXattr;
  ops.removexattr = OnRemoveXattr;
}

}  // namespace paddleop::fuse
