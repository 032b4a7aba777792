#include "fuse/internal/call.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstring>

#include "base/posix.h"

namespace paddleop::fuse {

using volume::FileType;

namespace {

mode_t TypeBits(FileType type) {
  switch (type) {
    case FileType::kFile:
      return S_IFREG;
    case FileType::kDirectory:
      return S_IFDIR;
    case FileType::kSymlink:
      return S_IFLNK;
    case FileType::kFifo:
      return S_IFIFO;
    case FileType::kBlockDevice:
      return S_IFBLK;
    case FileType::kCharDevice:
      return S_IFCHR;
    case FileType::kSocket:
      return S_IFSOCK;
  }
  return S_IFREG;
}

timespec ToTimespec(const volume::Timestamp& time) {
  return {.tv_sec = time.seconds, .tv_nsec = static_cast<long>(time.nanos)};
}

// A release may, too, but only of a file that was written.
bool MayChange(Op op) {
  switch (op) {
    case Op::kLookup:
    case Op::kGetAttr:
    case Op::kReadLink:
    case Op::kRead:
    case Op::kOpen:
    case Op::kRelease:
    case Op::kOpenDir:
    case Op::kReadDir:
    case Op::kReleaseDir:
    case Op::kStatFs:
    case Op::kGetXattr:
    case Op::kListXattr:
      return false;
    default:
      return true;
  }
}

// The kernel came to the inode by a name that it remembers.
bool NamesAnInode(Op op) {
  switch (op) {
    case Op::kGetAttr:
    case Op::kSetAttr:
    case Op::kReadLink:
    case Op::kOpen:
    case Op::kOpenDir:
    case Op::kSetXattr:
    case Op::kGetXattr:
    case Op::kListXattr:
    case Op::kRemoveXattr:
      return true;
    default:
      return false;
  }
}

// The program has the file open, and whether it may was settled then. What is refused or not found
// now is about where its bytes are.
bool MovesData(Op op) {
  switch (op) {
    case Op::kRead:
    case Op::kWrite:
    case Op::kFlush:
    case Op::kFsync:
    case Op::kRelease:
      return true;
    default:
      return false;
  }
}

}  // namespace

int ErrnoOf(Op op, const Status& status) {
  if (status.code() == Code::kPermission) return MovesData(op) ? EIO : EPERM;
  if (status.code() == Code::kExpired) return ESTALE;
  if (status.code() == Code::kNotFound) {
    if (NamesAnInode(op) || op == Op::kRead) return ESTALE;
    if (MovesData(op)) return EIO;
  }
  return ToErrno(status.code());
}

struct stat ToStat(volume::Ino ino, const volume::Attr& attr) {
  struct stat out = {};
  out.st_ino = ToInt(ino);
  out.st_mode = TypeBits(attr.type) | attr.mode;
  out.st_nlink = attr.nlink;
  out.st_uid = attr.uid;
  out.st_gid = attr.gid;
  out.st_rdev = attr.rdev;
  out.st_size = static_cast<off_t>(attr.length);
  out.st_blksize = 64 << 10;
  out.st_blocks = static_cast<blkcnt_t>((attr.length + 511) / 512);
  out.st_atim = ToTimespec(attr.atime);
  out.st_mtim = ToTimespec(attr.mtime);
  out.st_ctim = ToTimespec(attr.ctime);
  return out;
}

// Stopped by an interrupt (after its grace) or by the end of the mount, whichever is first.
struct Call::Cancel {
  explicit Cancel(const std::stop_token& mount)
      : source(std::make_shared<std::stop_source>()), on_mount_end(mount, Stop{source.get()}) {}

  struct Stop {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };

  Interrupts* interrupts = nullptr;
  std::shared_ptr<std::stop_source> source;
  std::stop_callback<Stop> on_mount_end;
};

Call::Call(CallEnvironment& env, fuse_req_t request, Op op, fuse_ino_t ino)
    : env_(env),
      request_(request),
      op_(op),
      ino_(ino),
      start_(std::chrono::steady_clock::now()),
      logging_(env.stats.logging()) {
  if (!logging_) return;
  const fuse_ctx* who = fuse_req_ctx(request);
  who_ = {.uid = who->uid, .gid = who->gid, .pid = who->pid, .arguments = {}};
  detail_ = std::to_string(ToInt(env.inos.FromKernel(ino)));
}

Call::~Call() {
  const auto took = std::chrono::steady_clock::now() - start_;
  env_.stats.Record(op_, took, error_);
  if (!logging_) return;
  who_.arguments = std::move(detail_);
  env_.stats.Log(op_, who_, took, error_);
}

Context Call::WithDeadline(const Context& ctx) const {
  return env_.io_timeout.count() > 0 ? ctx.WithDeadline(start_ + env_.io_timeout) : ctx;
}

const Context& Call::ctx() {
  if (ctx_) return *ctx_;
  cancel_ = std::make_shared<Cancel>(env_.stop);
  cancel_->interrupts = &env_.interrupts;
  ctx_ = WithDeadline(Context::Background().WithStop(cancel_->source->get_token()));
  interruptible_ = true;
  fuse_req_interrupt_func(
      request_,
      [](fuse_req_t, void* data) {
        auto* cancel = static_cast<Cancel*>(data);
        cancel->interrupts->Add(cancel->source);
      },
      cancel_.get());
  return *ctx_;
}

volume::Caller Call::caller(bool with_groups) const {
  const fuse_ctx* who = fuse_req_ctx(request_);
  volume::Caller caller{.uid = who->uid,
                        .gid = who->gid,
                        .groups = {},
                        .umask = env_.umask,
                        .check_permissions = false};
  if (!with_groups || who->uid == 0) return caller;
  caller.groups.resize(64);
  int count = fuse_req_getgroups(request_, static_cast<int>(caller.groups.size()),
                                 reinterpret_cast<gid_t*>(caller.groups.data()));
  if (count > static_cast<int>(caller.groups.size())) {
    caller.groups.resize(static_cast<std::size_t>(count));
    count = fuse_req_getgroups(request_, count, reinterpret_cast<gid_t*>(caller.groups.data()));
  }
  caller.groups.resize(static_cast<std::size_t>(std::max(0, count)));
  return caller;
}

pid_t Call::thread() const { return fuse_req_ctx(request_)->pid; }

void Call::BeforeReply() {
  if (interruptible_) fuse_req_interrupt_func(request_, nullptr, nullptr);
  interruptible_ = false;
  if (env_.changes != nullptr && MayChange(op_)) env_.changes->fetch_add(1);
}

void Call::Error(int error) {
  BeforeReply();
  error_ = error;
  fuse_reply_err(request_, error);
}

void Call::Reply(const Result<void>& result) {
  if (result) return Ok();
  Error(result.error());
}

double Call::AttrTimeout(volume::Ino ino, const volume::Attr& attr,
                         std::chrono::steady_clock::time_point asked) const {
  const bool overtaken = env_.told != nullptr && attr.type == FileType::kFile &&
                         !env_.told->Note(ino, attr.length, asked);
  return overtaken ? 0 : env_.timeouts.attr;
}

fuse_entry_param Call::EntryParam(const volume::Entry& entry,
                                  std::chrono::steady_clock::time_point asked) const {
  fuse_entry_param out = {};
  out.ino = env_.inos.ToKernel(entry.ino);
  out.attr = ToStat(entry.ino, entry.attr);
  out.attr_timeout = AttrTimeout(entry.ino, entry.attr, asked);
  if (env_.trashed != nullptr) {
    // By the directory that was asked: one that gives a name away at this moment still has it.
    if (volume::IsTrash(ino())) {
      env_.trashed->Note(entry.ino);
    } else if (!volume::IsTrash(entry.attr.parent)) {
      env_.trashed->Forget(entry.ino);
    }
  }
  out.entry_timeout =
      entry.attr.type == FileType::kDirectory ? env_.timeouts.dir_entry : env_.timeouts.entry;
  return out;
}

void Call::Reply(const Result<volume::Entry>& entry) {
  if (!entry) return Error(entry.error());
  BeforeReply();
  const fuse_entry_param out = EntryParam(*entry);
  fuse_reply_entry(request_, &out);
}

void Call::ReplyNoEntry() {
  if (env_.timeouts.negative <= 0) return Error(ENOENT);
  BeforeReply();
  error_ = ENOENT;
  fuse_entry_param out = {};
  out.entry_timeout = env_.timeouts.negative;
  fuse_reply_entry(request_, &out);
}

void Call::Reply(const Result<volume::Attr>& attr) {
  if (!attr) return Error(attr.error());
  BeforeReply();
  const struct stat out = ToStat(ino(), *attr);
  fuse_reply_attr(request_, &out, AttrTimeout(ino(), *attr, start_));
}

void Call::ReplyForNow(const volume::Attr& attr) {
  BeforeReply();
  const struct stat out = ToStat(ino(), attr);
  AttrTimeout(ino(), attr, start_);  // notes what is told
  fuse_reply_attr(request_, &out, 0);
}

void Call::ReplyCreated(const volume::Entry& entry, const fuse_file_info& file) {
  BeforeReply();
  const fuse_entry_param out = EntryParam(entry);
  fuse_reply_create(request_, &out, &file);
}

void Call::ReplyOpen(const fuse_file_info& file) {
  BeforeReply();
  fuse_reply_open(request_, &file);
}

void Call::ReplyData(std::string_view bytes) {
  BeforeReply();
  fuse_reply_buf(request_, bytes.data(), bytes.size());
}

void Call::ReplyWritten(std::size_t bytes) {
  BeforeReply();
  fuse_reply_write(request_, bytes);
}

void Call::ReplyText(const std::string& text) {
  BeforeReply();
  fuse_reply_readlink(request_, text.c_str());
}

void Call::ReplyStatFs(const volume::StatFs& usage) {
  BeforeReply();
  constexpr std::uint64_t kBlock = 4096;
  struct statvfs out = {};
  out.f_bsize = kBlock;
  out.f_frsize = kBlock;
  out.f_blocks = usage.total_space / kBlock;
  out.f_bfree = usage.available_space / kBlock;
  out.f_bavail = out.f_bfree;
  out.f_files = usage.used_inodes + usage.available_inodes;
  out.f_ffree = usage.available_inodes;
  out.f_favail = out.f_ffree;
  out.f_namemax = volume::kMaxName;
  fuse_reply_statfs(request_, &out);
}

void Call::ReplyXattr(std::string_view value, std::size_t size) {
  if (size != 0 && size < value.size()) return Error(ERANGE);
  BeforeReply();
  if (size == 0) {
    fuse_reply_xattr(request_, value.size());
  } else {
    fuse_reply_buf(request_, value.data(), value.size());
  }
}

void Call::ReplyNone() {
  BeforeReply();
  fuse_reply_none(request_);
}

}  // namespace paddleop::fuse
