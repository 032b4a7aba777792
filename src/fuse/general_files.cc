// Open files of the general mode.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "fuse/internal/general_state.h"

namespace paddleop::fuse {
namespace {

using volume::Handle;
using State = GeneralFs::State;

Handle HandleOf(const fuse_file_info& file) { return Handle{file.fh}; }

volume::OpenFlags FlagsOf(const State& state, int flags) {
  volume::OpenFlags out;
  const int access = flags & O_ACCMODE;
  out.read = access != O_WRONLY;
  out.write = access != O_RDONLY;
  // The kernel gathers partial pages, for which it reads through whichever handle it has.
  if (state.options.writeback_cache && out.write) out.read = true;
  // O_APPEND is a matter of each write: pages of a mapping have offsets all the same.
  out.truncate = (flags & O_TRUNC) != 0;
  return out;
}

// Whether a file would become larger than any may be.
bool TooLarge(off_t offset, std::uint64_t size) {
  return static_cast<std::uint64_t>(offset) > volume::kMaxFileSize ||
         size > volume::kMaxFileSize - static_cast<std::uint64_t>(offset);
}

void ReplyOpened(State& state, Call& call, const volume::OpenedFile& opened, fuse_file_info file) {
  file.fh = static_cast<std::uint64_t>(opened.handle);
  const auto& [ino, attr] = opened.entry;
  file.keep_cache = state.versions.Unchanged(ino, attr, state.vfs.losses(), file.fh) ? 1 : 0;
  if (state.forget_attributes && state.told.Doubts(ino, attr.length)) state.forget_attributes(ino);
  // Nothing to flush when a file that was only read is closed.
  file.noflush = (file.flags & O_ACCMODE) == O_RDONLY ? 1 : 0;
  call.ReplyOpen(file);
}

// A file that is open already may have been come to by a descriptor in /proc.
volume::Vfs::AcceptFn NameChecked(State& state, const Call& call, volume::Ino ino, bool writes) {
  return
      [&state, &call, ino, writes, was_open = state.vfs.HasHandle(ino)](const volume::Attr& attr) {
        return state.CheckName(call, ino, attr, was_open, writes);
      };
}

void OnOpen(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kOpen, ino);
  call->Detail(",0x{:x}", file->flags);
  state.RunIo([&state, file = *file, call = std::move(call)] {
    const auto flags = FlagsOf(state, file.flags);
    auto opened = state.vfs.Open(call->ctx(), call->caller(), call->ino(), flags,
                                 NameChecked(state, *call, call->ino(), flags.write));
    if (!opened) return call->Error(state.WhyRefused(*call, std::move(opened).error()));
    ReplyOpened(state, *call, *opened, file);
  });
}

// The name was new to the kernel and is not: others were faster, or it remembered too long that it
// does not exist. It takes what a CREATE opens for a new file and checks nothing, so only a file of
// the caller's own is opened here. For everything else ESTALE makes it look the name up and open
// what is there by its own rules.
Result<volume::OpenedFile> OpenExisting(State& state, Call& call, const char* name, int flags) {
  volume::Caller caller = call.caller();
  ASSIGN_OR_RETURN(const auto entry, state.vfs.Lookup(call.ctx(), caller, call.ino(), name));
  if (entry.attr.type != volume::FileType::kFile || entry.attr.uid != caller.uid)
    return Fail(Code::kExpired, "'{}' exists", name);
  caller.check_permissions = true;
  const auto open_flags = FlagsOf(state, flags);
  return state.vfs.Open(call.ctx(), caller, entry.ino, open_flags,
                        NameChecked(state, call, entry.ino, open_flags.write));
}

void OnCreate(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
              fuse_file_info* file) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kCreate, parent);
  call.Detail(",{},{:o}", name, mode);
  auto opened = state.vfs.Create(call.ctx(), call.caller((mode & S_ISGID) != 0), call.ino(), name,
                                 static_cast<std::uint16_t>(mode & 07777),
                                 FlagsOf(state, file->flags), /*exclusive=*/true);
  if (!opened && IsAlreadyExists(opened.error()) && (file->flags & O_EXCL) == 0) {
    opened = OpenExisting(state, call, name, file->flags);
    // Gone again, or refused: the kernel finds out why.
    if (!opened && (IsNotFound(opened.error()) || opened.error().code() == Code::kPermission))
      return call.Error(ESTALE);
  }
  if (!opened) return call.Error(state.WhyNotMade(call.ino(), std::move(opened).error()));
  fuse_file_info out = *file;
  out.fh = static_cast<std::uint64_t>(opened->handle);
  out.keep_cache = 0;
  call.ReplyCreated(opened->entry, out);
}

void OnRead(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
            fuse_file_info* file) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kRead, ino);
  call->Detail(",{},{}", size, offset);
  state.RunIo([&state, size, offset, handle = HandleOf(*file), call = std::move(call)] {
    thread_local std::vector<std::byte> buffer;
    if (buffer.size() < size) buffer.resize(size);
    const auto out = std::span(buffer).first(size);
    auto got = state.vfs.Read(call->ctx(), handle, static_cast<std::uint64_t>(offset), out);
    if (!got) return call->Error(got.error());
    state.stats.AddBytesRead(*got);
    call->ReplyData(AsText(out.first(*got)));
  });
}

void Write(State& state, Call& call, const fuse_file_info& file, std::uint64_t offset,
           std::string_view data) {
  // The kernel's offset is the end of the file as it knows it, which others may have moved.
  const bool append = (file.flags & O_APPEND) != 0 && file.writepage == 0;
  // Who wrote a page back has been told long ago that it is written.
  const Context ctx = file.writepage != 0 ? Call::LastResortContext() : call.LastingContext();
  auto written = append ? state.vfs.Append(ctx, HandleOf(file), AsBytes(data))
                        : state.vfs.Write(ctx, HandleOf(file), offset, AsBytes(data));
  if (!written) return call.Error(written.error());
  state.stats.AddBytesWritten(data.size());
  call.ReplyWritten(data.size());
}

void OnWrite(fuse_req_t request, fuse_ino_t ino, const char* bytes, std::size_t size, off_t offset,
             fuse_file_info* file) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kWrite, ino);
  call->Detail(",{},{}", size, offset);
  if (TooLarge(offset, size)) return call->Error(EFBIG);
  const auto at = static_cast<std::uint64_t>(offset);
  // It waits when the buffers are full.
  if (const IoTurn turn(state); turn.here()) return Write(state, *call, *file, at, {bytes, size});
  // The bytes are ours only until we return. No more are copied than programs write at a time.
  state.RunInPool([&state, at, file = *file, copy = std::string(bytes, size),
                   call = std::move(call)] { Write(state, *call, file, at, copy); });
}

void OnFlush(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kFlush, ino);
  state.RunIo([&state, handle = HandleOf(*file), call = std::move(call)] {
    call->Reply(state.vfs.FlushOneClose(call->LastingContext(), handle));
  });
}

void OnFsync(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info* file) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kFsync, ino);
  state.RunIo([&state, handle = HandleOf(*file), call = std::move(call)] {
    call->Reply(state.vfs.Flush(call->LastingContext(), handle));
  });
}

void OnRelease(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kRelease, ino);
  const bool wrote = (file->flags & O_ACCMODE) != O_RDONLY;
  state.RunIo([&state, wrote, handle = HandleOf(*file), call = std::move(call)] {
    state.versions.Closed(call->ino(), static_cast<std::uint64_t>(handle));
    auto released = state.vfs.Release(Call::LastResortContext(), handle);
    if (wrote) ++state.changes;
    // Nobody sees this answer: close(2) was answered after the flush.
    if (!released) {
      state.log.Warn(Context::Background(), "closing a file failed",
                     {{"inode", ToInt(call->ino())}, {"error", released.error().message()}});
    }
    call->Reply(released);
  });
}

void OnFallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length,
                 fuse_file_info*) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kFallocate, ino);
  call->Detail(",{},{},{}", mode, offset, length);
  if (TooLarge(offset, static_cast<std::uint64_t>(length))) return call->Error(EFBIG);
  using volume::FallocateMode;
  FallocateMode kind;
  switch (mode) {
    case 0:
      kind = FallocateMode::kExtend;
      break;
    case FALLOC_FL_KEEP_SIZE:
      kind = FallocateMode::kKeepSize;
      break;
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
      kind = FallocateMode::kPunchHole;
      break;
    case FALLOC_FL_ZERO_RANGE:
      kind = FallocateMode::kZeroRange;
      break;
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
      kind = FallocateMode::kZeroRangeKeepSize;
      break;
    default:
      return call->Error(EOPNOTSUPP);
  }
  state.RunIo([&state, kind, offset, length, call = std::move(call)] {
    auto attr =
        state.vfs.Fallocate(call->LastingContext(), call->caller(), call->ino(), kind,
                            static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(length));
    if (!attr) return call->Error(attr.error());
    call->Ok();
  });
}

void OnCopyRange(fuse_req_t request, fuse_ino_t from, off_t from_offset, fuse_file_info*,
                 fuse_ino_t to, off_t to_offset, fuse_file_info*, std::size_t length, int flags) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kCopyRange, from);
  call->Detail(",{},{},{},{}", from_offset, to, to_offset, length);
  if (flags != 0) return call->Error(EINVAL);
  state.RunIo([&state, from_offset, to, to_offset, length, call = std::move(call)] {
    // The answer is a 32-bit number.
    const std::size_t most = std::min<std::size_t>(length, 1U << 30);
    auto copied = state.vfs.CopyRange(call->LastingContext(), call->ino(),
                                      static_cast<std::uint64_t>(from_offset), call->FromKernel(to),
                                      static_cast<std::uint64_t>(to_offset), most);
    if (!copied) return call->Error(copied.error());
    call->ReplyWritten(*copied);
  });
}

}  // namespace

void AddFileOperations(fuse_lowlevel_ops& ops) {
  ops.open = OnOpen;
  ops.create = OnCreate;
  ops.read = OnRead;
  ops.write = OnWrite;
  ops.flush = OnFlush;
  ops.fsync = OnFsync;
  ops.release = OnRelease;
  ops.fallocate = OnFallocate;
  ops.copy_file_range = OnCopyRange;
}

}  // namespace paddleop::fuse
