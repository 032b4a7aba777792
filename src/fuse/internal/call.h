#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/context.h"
#include "fuse/internal/fuse_api.h"
#include "fuse/internal/interrupts.h"
#include "fuse/internal/told_lengths.h"
#include "fuse/internal/trashed_inodes.h"
#include "fuse/op_stats.h"
#include "volume/meta/meta_types.h"

namespace paddleop::fuse {

// How long the kernel may remember what we tell it, in seconds.
struct Timeouts {
  double attr = 1;
  double entry = 1;
  double dir_entry = 1;  // entries that are directories
  double negative = 0;   // names that do not exist
};

// The kernel knows the root of what we mount as inode 1, whichever directory that is.
struct InoMap {
  volume::Ino root = volume::kRootIno;

  volume::Ino FromKernel(fuse_ino_t ino) const {
    return ino == FUSE_ROOT_ID ? root : volume::Ino{ino};
  }
  fuse_ino_t ToKernel(volume::Ino ino) const { return ino == root ? FUSE_ROOT_ID : ToInt(ino); }
};

// What the calls of one mount share.
struct CallEnvironment {
  OpStats& stats;
  Interrupts& interrupts;
  std::stop_token stop;  // the mount ends: nobody waits for answers any more
  Timeouts timeouts;
  InoMap inos;
  std::chrono::milliseconds io_timeout{0};  // after which a request fails; 0: never
  std::uint16_t umask = 0;                  // for what is new, if the kernel applies none
  // Learn what the kernel is told; may be null.
  ToldLengths* told = nullptr;
  TrashedInodes* trashed = nullptr;
  std::atomic<std::uint64_t>* changes = nullptr;  // counts what may have changed; may be null
};

// The errno for the kernel. It has checked the permission bits itself, so what is refused here is
// refused for other reasons: EPERM; of data, by the store, which is EIO for programs. An inode that
// is gone is ESTALE: its name may stand for another file by now, and that is the answer for which
// the kernel looks the name up again.
int ErrnoOf(Op op, const Status& status);
struct stat ToStat(volume::Ino ino, const volume::Attr& attr);

// One request of the kernel, from its arrival to its answer: who asks, a context that ends when the
// asker was interrupted, the mount ends or it took too long, and the answer, given exactly once.
// Counted and logged.
//
// Used by one thread at a time; may move to another one with the work.
class Call {
 public:
  Call(CallEnvironment& env, fuse_req_t request, Op op, fuse_ino_t ino);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Adds to what the access log shows in brackets.
  template <class... Args>
  void Detail(fmt::format_string<Args...> format, Args&&... args) {
    if (logging_) fmt::format_to(std::back_inserter(detail_), format, std::forward<Args>(args)...);
  }

  // Ends when the asker is interrupted, and when the mount's time for a request is up.
  const Context& ctx();
  // The same time, but not broken off by an interrupt nor by the end of the mount: what was written
  // stays and is stored later, or the program is told.
  Context LastingContext() const { return WithDeadline(Context::Background()); }
  // For what loses data when it fails, with nobody left to tell: the volume's own time, which
  // begins when it is its turn.
  static Context LastResortContext() { return Context::Background(); }
  // With supplementary groups only if `with_groups`: the kernel is asked for them.
  volume::Caller caller(bool with_groups = false) const;
  // Who asks: the number of its thread, 0 if it has none where the mount was made.
  pid_t thread() const;
  volume::Ino ino() const { return env_.inos.FromKernel(ino_); }
  volume::Ino FromKernel(fuse_ino_t ino) const { return env_.inos.FromKernel(ino); }

  void Error(int error);
  void Error(const Status& status) { Error(ErrnoOf(op_, status)); }
  void Ok() { Error(0); }
  // A value, or its error.
  void Reply(const Result<void>& result);
  void Reply(const Result<volume::Entry>& entry);
  void Reply(const Result<volume::Attr>& attr);
  void ReplyForNow(const volume::Attr& attr);  // the next who wants to know has to ask again
  void ReplyNoEntry();                         // may be remembered, if the mount says so
  void ReplyCreated(const volume::Entry& entry, const fuse_file_info& file);
  void ReplyOpen(const fuse_file_info& file);
  void ReplyData(std::string_view bytes);
  void ReplyWritten(std::size_t bytes);
  void ReplyText(const std::string& text);  // of a symbolic link
  void ReplyStatFs(const volume::StatFs& usage);
  // Extended attributes: the size if the caller asked with size 0, ERANGE if it asked for too
  // little.
  void ReplyXattr(std::string_view value, std::size_t size);
  void ReplyNone();

  fuse_entry_param EntryParam(const volume::Entry& entry) const {
    return EntryParam(entry, start_);
  }
  // The volume was asked for it at that time or later.
  fuse_entry_param EntryParam(const volume::Entry& entry,
                              std::chrono::steady_clock::time_point asked) const;
  std::chrono::steady_clock::time_point start() const { return start_; }
  fuse_req_t request() const { return request_; }

 private:
  Context WithDeadline(const Context& ctx) const;
  // How long the kernel may believe in these attributes.
  double AttrTimeout(volume::Ino ino, const volume::Attr& attr,
                     std::chrono::steady_clock::time_point asked) const;
  // Nothing may reach us any more once the answer is out.
  void BeforeReply();

  CallEnvironment& env_;
  const fuse_req_t request_;
  const Op op_;
  const fuse_ino_t ino_;
  const std::chrono::steady_clock::time_point start_;
  const bool logging_;
  bool interruptible_ = false;
  int error_ = 0;
  OpDetail who_;
  std::string detail_;
  struct Cancel;
  std::shared_ptr<Cancel> cancel_;
  std::optional<Context> ctx_;
};

}  // namespace paddleop::fuse
