#include "fuse/session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <list>
#include <optional>
#include <system_error>
#include <thread>

#include "base/mutex.h"
#include "base/posix.h"
#include "base/thread_pool.h"
#include "fuse/internal/fuse_api.h"
#include "fuse/internal/kernel_mount.h"
#include "fuse/mount_table.h"

namespace paddleop::fuse {
namespace {

// libfuse tells what went wrong only through its log; the last line of this thread is kept.
thread_local std::string last_complaint;

void KeepComplaint(fuse_log_level, const char* format, va_list arguments) {
  char line[512];
  vsnprintf(line, sizeof line, format, arguments);
  last_complaint = line;
  while (last_complaint.ends_with('\n')) last_complaint.pop_back();
}

// How often somebody looks whether there are too many threads.
constexpr std::chrono::seconds kLookInterval{1};

// Interrupts a thread that waits for the kernel; does nothing else.
constexpr int kWakeSignal = SIGUSR2;
void OnWake(int) {}

// Takes what is written to standard error while it lives.
class CaughtErrors {
 public:
  CaughtErrors()
      : saved_(::fcntl(2, F_DUPFD_CLOEXEC, 3)), file_(::memfd_create("errors", MFD_CLOEXEC)) {
    if (saved_.valid() && file_.valid()) ::dup2(file_.get(), 2);
  }
  ~CaughtErrors() { End(); }
  CaughtErrors(const CaughtErrors&) = delete;
  CaughtErrors& operator=(const CaughtErrors&) = delete;

  // In one line, without the program's name.
  std::string End() {
    if (!saved_.valid() || !file_.valid()) return "";
    ::dup2(saved_.get(), 2);
    saved_.Reset();
    char text[1024];
    const ssize_t size = ::pread(file_.get(), text, sizeof text, 0);
    std::string line(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    while (!line.empty() && line.back() == '\n') line.pop_back();
    std::ranges::replace(line, '\n', ';');
    constexpr std::string_view kName = "fusermount3: ";
    if (line.starts_with(kName)) line.erase(0, kName.size());
    return line;
  }

 private:
  UniqueFd saved_;
  UniqueFd file_;
};

Result<void> MountFailed(const std::string& mount_point) {
  const std::string& why = last_complaint;
  if (why.find("Operation not permitted") != std::string::npos ||
      why.find("Permission denied") != std::string::npos ||
      why.find("no write access") != std::string::npos) {
    return Fail(
        Code::kPermission,
        "not permitted to mount at {} ({}): run as root (in a container with the capability "
        "SYS_ADMIN), or install fusermount3 and own the directory",
        mount_point, why);
  }
  return Fail(Code::kUnavailable, "cannot mount at {}: {}", mount_point, why);
}

}  // namespace

class Session::State {
 public:
  State(SessionOptions options, const Logger& log) : options_(std::move(options)), log_(log) {}
  ~State() {
    Stop();
    JoinAll();
    if (session_ == nullptr) return;
    if (::geteuid() != 0) fuse_session_unmount(session_);  // only frees: it is gone
    fuse_session_destroy(session_);
  }

  Result<void> Mount(const fuse_lowlevel_ops& operations, void* userdata) {
    RETURN_IF_ERROR(CheckMountPoint(options_.mount_point));
    ASSIGN_OR_RETURN(UniqueFd device, OpenDevice());
    fuse_set_log_func(KeepComplaint);
    const bool by_ourselves = ::geteuid() == 0;
    std::vector<std::string> words =
        by_ourselves ? std::vector<std::string>{"samplefs"} : LibraryArguments(options_);
    std::vector<char*> argv;
    argv.reserve(words.size());
    for (std::string& word : words) argv.push_back(word.data());
    fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(argv.size()), argv.data());
    last_complaint.clear();
    session_ = fuse_session_new(&arguments, &operations, sizeof operations, userdata);
    fuse_opt_free_args(&arguments);
    if (session_ == nullptr)
      return Fail(Code::kInvalid, "mount options were refused: {}", last_complaint);
    if (by_ourselves) {
      RETURN_IF_ERROR(MountDevice(device, options_));
      // The name that libfuse knows for a connection that somebody else has mounted.
      const std::string path = fmt::format("/dev/fd/{}", device.Release());
      if (fuse_session_mount(session_, path.c_str()) != 0) return MountFailed(options_.mount_point);
    } else {
      device.Reset();
      CaughtErrors errors;  // fusermount3 says there what is wrong
      const int mounted = fuse_session_mount(session_, options_.mount_point.c_str());
      const std::string said = errors.End();
      if (mounted != 0) {
        if (!said.empty()) last_complaint = said;
        return MountFailed(options_.mount_point);
      }
      // What others logged meanwhile, or fusermount3 warned of.
      if (!said.empty()) log_.Warn(Context::Background(), "said while mounting", {{"text", said}});
    }
    auto mount = FindMount(options_.mount_point);
    if (mount && *mount) minor_ = (*mount)->minor;
    struct sigaction action = {};
    action.sa_handler = OnWake;
    sigaction(kWakeSignal, &action, nullptr);
    return {};
  }

  Result<void> Run() {
    RETURN_IF_ERROR(Spawn());
    MutexLock lock(mutex_);
    ended_.wait(lock, [&]() REQUIRES(mutex_) { return running_ == 0; });
    const int error = error_;
    lock.unlock();
    JoinAll();
    if (error != 0)
      return std::unexpected(ErrnoStatus(error, "the connection to the kernel failed"));
    return {};
  }

  void Detach() {
    if (!detached_.exchange(true)) DetachOurs();
  }

  void Stop() {
    if (stopped_.exchange(true)) return;
    Detach();
    if (session_ != nullptr) fuse_session_exit(session_);
    // Detached but still in use, the connection lives on: the threads must not wait for its end. A
    // thread that is about to wait misses one signal, so it is sent until all have left.
    MutexLock lock(mutex_);
    while (running_ > 0) {
      for (auto& worker : workers_) {
        if (!worker.ended) pthread_kill(worker.thread.native_handle(), kWakeSignal);
      }
      ended_.wait_for(lock, std::chrono::milliseconds(10));
    }
  }

  fuse_session* session() { return session_; }
  std::optional<unsigned> minor() const { return minor_; }

 private:
  struct Worker {
    std::jthread thread;
    // Guarded by mutex_.
    bool ended = false;
    bool superfluous = false;
  };

  // Somebody else may have unmounted us and mounted something in our place.
  void DetachOurs() {
    if (!minor_) return;
    auto mount = FindMount(options_.mount_point);
    if (mount && (!*mount || (*mount)->minor != *minor_)) return;
    if (auto gone = DetachMount(options_.mount_point); !gone) {
      log_.Warn(Context::Background(), "cannot unmount",
                {{"path", options_.mount_point}, {"error", gone.error().message()}});
    }
  }

  void SetReadAhead() {
    if (options_.readahead_kib == 0 || !minor_) return;
    const std::string path = fmt::format("/sys/class/bdi/0:{}/read_ahead_kb", *minor_);
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const std::string value = std::to_string(options_.readahead_kib);
    if (!file.valid() || ::write(file.get(), value.data(), value.size()) < 0) {
      log_.Debug(Context::Background(), "the kernel's read-ahead stays as it is",
                 {{"path", path}, {"error", std::system_category().message(errno)}});
    }
  }

  Result<void> Spawn() {
    MutexLock lock(mutex_);
    if (running_ >= options_.max_threads) return {};
    // Those that ended before have nothing left to do but return.
    workers_.remove_if([](const Worker& worker) { return worker.ended; });
    workers_.emplace_back();
    Worker* self = &workers_.back();
    ++running_;
    ++idle_;
    try {
      self->thread = std::jthread([this, self] {
        SetThreadName("fuse");
        Serve(self);
      });
    } catch (const std::system_error& error) {
      --running_;
      --idle_;
      workers_.pop_back();
      return std::unexpected(ErrnoStatus(error.code().value(), "start a thread"));
    }
    return {};
  }

  // There are too few, but those that there are go on.
  void SpawnAnother() {
    auto spawned = Spawn();
    if (spawned || few_threads_.exchange(true)) return;
    log_.Warn(Context::Background(), "requests share fewer threads than they should",
              {{"error", spawned.error().message()}});
  }

  // Takes requests until the session ends or there are too many idle threads.
  void Serve(Worker* self) {
    fuse_buf buffer = {};
    int error = 0;
    while (fuse_session_exited(session_) == 0) {
      const int got = fuse_session_receive_buf(session_, &buffer);
      if (got == -EINTR || got == -EAGAIN) continue;
      if (got <= 0) {
        error = got < 0 ? -got : 0;
        break;
      }
      if (NoteIdle(--idle_) == 0) SpawnAnother();
      fuse_session_process_buf(session_, &buffer);
      // The answer to the first request, which is INIT, sets the kernel's default once more.
      if (!greeted_.exchange(true)) SetReadAhead();
      if (++idle_ > options_.idle_threads && Superfluous(self)) break;
    }
    ::free(buffer.mem);
    MutexLock lock(mutex_);
    if (!self->superfluous) {
      // The connection has ended, for all of us.
      fuse_session_exit(session_);
      --running_;
    }
    --idle_;
    if (error != 0) error_ = error;
    self->ended = true;
    ended_.notify_all();
  }

  std::size_t NoteIdle(std::size_t idle) {
    std::size_t least = least_idle_.load(std::memory_order_relaxed);
    while (idle < least && !least_idle_.compare_exchange_weak(least, idle)) {
    }
    return idle;
  }

  // True if the calling thread should end: over a whole second more than enough others waited. A
  // look at the moment alone would end threads that are started again with the next request.
  bool Superfluous(Worker* self) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    auto look = next_look_.load(std::memory_order_relaxed);
    if (now < look || !next_look_.compare_exchange_strong(look, now + kLookInterval)) return false;
    if (least_idle_.exchange(idle_) <= options_.idle_threads) return false;
    MutexLock lock(mutex_);
    if (running_ <= options_.idle_threads) return false;
    --running_;
    self->superfluous = true;
    return true;
  }

  void JoinAll() {
    std::list<Worker> workers;
    {
      MutexLock lock(mutex_);
      workers.swap(workers_);
    }
    workers.clear();
  }

  const SessionOptions options_;
  const Logger& log_;
  fuse_session* session_ = nullptr;
  std::optional<unsigned> minor_;  // of the mounted device
  std::atomic<bool> detached_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> greeted_{false};
  std::atomic<bool> few_threads_{false};    // and it was said
  std::atomic<std::size_t> idle_{0};        // threads that wait for a request
  std::atomic<std::size_t> least_idle_{0};  // since the last look
  std::atomic<std::chrono::steady_clock::duration> next_look_{};
  Mutex mutex_;
  CondVar ended_;
  std::size_t running_ GUARDED_BY(mutex_) = 0;
  int error_ GUARDED_BY(mutex_) = 0;
  std::list<Worker> workers_ GUARDED_BY(mutex_);
};

Result<void> CheckFuse() {
  ASSIGN_OR_RETURN(const UniqueFd device, OpenDevice());
  return {};
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::Mount(const fuse_lowlevel_ops& operations, void* userdata,
                                                const SessionOptions& options, const Logger& log) {
  auto state = std::make_unique<State>(options, log);
  RETURN_IF_ERROR(state->Mount(operations, userdata));
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

Result<void> Session::Run() { return state_->Run(); }
void Session::Detach() { state_->Detach(); }
void Session::Stop() { state_->Stop(); }

std::optional<unsigned> Session::device_minor() const { return state_->minor(); }

void Session::InvalidateEntry(volume::Ino parent, std::string_view name) {
  // What the kernel does not know needs no invalidation: that answer is not an error.
  fuse_lowlevel_notify_inval_entry(state_->session(), ToInt(parent), name.data(), name.size());
}

void Session::InvalidateInode(volume::Ino ino) {
  fuse_lowlevel_notify_inval_inode(state_->session(), ToInt(ino), 0, 0);
}

void Session::InvalidateAttributes(volume::Ino ino) {
  fuse_lowlevel_notify_inval_inode(state_->session(), ToInt(ino), -1, 0);
}

}  // namespace paddleop::fuse
