// Open directories of the general mode.
#include <sys/stat.h>

#include <vector>

#include "fuse/internal/general_state.h"

namespace paddleop::fuse {
namespace {

using volume::DirEntry;
using State = GeneralFs::State;

void OnOpenDir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kOpenDir, ino);
  // Whoever opens a directory that others have replaced must not find it empty.
  auto attr = state.vfs.meta().GetAttr(call.ctx(), call.ino());
  if (!attr) return call.Error(attr.error());
  // It need not have come by a name: it may be somebody's working directory.
  if (auto named = state.CheckName(call, call.ino(), *attr, /*other_ways=*/true, /*writes=*/false);
      !named)
    return call.Error(named.error());
  fuse_file_info out = *file;
  out.fh = state.AddDirectory(std::make_shared<volume::DirStream>(state.vfs.meta(), call.caller(),
                                                                  call.ino(), state.changes));
  state.mark.Opened(fuse_req_ctx(request)->pid, out.fh);
  call.ReplyOpen(out);
}

void OnReleaseDir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kReleaseDir, ino);
  state.RemoveDirectory(file->fh);
  state.mark.Released(file->fh);
  call.Ok();
}

void OnFsyncDir(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
  // Names are durable when the call that made them returns.
  State& state = State::Of(request);
  Call call(state.env, request, Op::kFsync, ino);
  call.Ok();
}

// What a listing says of an entry besides its name.
fuse_entry_param ParamOf(State& state, const Call& call, const DirEntry& entry, bool plus) {
  fuse_entry_param param = {};
  volume::Attr attr;
  attr.type = entry.type;
  param.attr = ToStat(entry.ino, attr);
  if (!plus || !entry.attr || entry.name == "." || entry.name == "..") return param;
  // A file that is being written may be longer than the volume knows: then the kernel asks for it.
  if (state.vfs.IsOpen(entry.ino)) return param;
  return call.EntryParam({.ino = entry.ino, .attr = *entry.attr},
                         call.start() - volume::DirStream::kAttrsGood);
}

void ReadDir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
             fuse_file_info* file, bool plus) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kReadDir, ino);
  call.Detail(",{},{}", size, offset);
  const auto stream = state.Directory(file->fh);
  if (!stream) return call.Error(EBADF);
  std::vector<char> buffer(size);
  std::size_t used = 0;
  auto listed = stream->Read(
      call.ctx(), static_cast<std::uint64_t>(offset), plus,
      [&](const DirEntry& entry, std::uint64_t next) {
        const fuse_entry_param param = ParamOf(state, call, entry, plus);
        const std::size_t need =
            plus ? fuse_add_direntry_plus(request, buffer.data() + used, size - used,
                                          entry.name.c_str(), &param, static_cast<off_t>(next))
                 : fuse_add_direntry(request, buffer.data() + used, size - used, entry.name.c_str(),
                                     &param.attr, static_cast<off_t>(next));
        if (need > size - used) return false;
        used += need;
        return true;
      });
  if (!listed) return call.Error(listed.error());
  call.ReplyData({buffer.data(), used});
}

void OnReadDir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
               fuse_file_info* file) {
  ReadDir(request, ino, size, offset, file, /*plus=*/false);
}

void OnReadDirPlus(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
                   fuse_file_info* file) {
  ReadDir(request, ino, size, offset, file, /*plus=*/true);
}

}  // namespace

void AddDirectoryOperations(fuse_lowlevel_ops& ops) {
  ops.opendir = OnOpenDir;
  ops.releasedir = OnReleaseDir;
  ops.fsyncdir = OnFsyncDir;
  ops.readdir = OnReadDir;
  ops.readdirplus = OnReadDirPlus;
}

}  // namespace paddleop::fuse
