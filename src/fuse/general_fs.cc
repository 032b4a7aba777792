#include "fuse/general_fs.h"

#include <algorithm>

#include "fuse/internal/general_state.h"

namespace paddleop::fuse {

using State = GeneralFs::State;

namespace {

// How many of the session's threads may wait for data; the others stay for metadata. Of one thread
// none may.
std::size_t InlineIo(std::size_t threads) {
  constexpr std::size_t kMost = 40;
  return std::min(kMost, threads * 5 / 8);
}

// In the trash, or there only because somebody has it open. The hours of the trash themselves are
// where they belong.
bool LostItsName(volume::Ino ino, const volume::Attr& attr) {
  return attr.nlink == 0 || (volume::IsTrash(attr.parent) && !volume::IsTrash(ino));
}

void OnInit(void* userdata, fuse_conn_info* connection) {
  auto& state = *static_cast<State*>(userdata);
  const auto want = [&](unsigned capability, bool on) {
    if (on && (connection->capable & capability) != 0) connection->want |= capability;
    if (!on) connection->want &= ~capability;
  };
  want(FUSE_CAP_WRITEBACK_CACHE, state.options.writeback_cache);
  want(FUSE_CAP_DONT_MASK, state.options.umask.has_value());
  // The kernel clears set-user-id bits on write with a SETATTR of its own.
  want(FUSE_CAP_HANDLE_KILLPRIV, false);
  // Splicing costs more than it saves, and moves pages out of the cache they come from.
  want(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE, false);
  want(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO, true);
  want(FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_READ, true);
  // The parts of one large direct write come one after the other: an append has no offset to tell
  // in which order they belong.
  want(FUSE_CAP_ASYNC_DIO, false);
  connection->max_write = 1U << 20;
  connection->max_read = state.options.max_read;
  connection->max_background = static_cast<unsigned>(state.options.max_background);
  connection->congestion_threshold = connection->max_background * 3 / 4;
  connection->time_gran = 1;
  if (state.ready) state.ready();
}

fuse_lowlevel_ops MakeOperations() {
  fuse_lowlevel_ops ops = {};
  ops.init = OnInit;
  AddNameOperations(ops);
  AddFileOperations(ops);
  AddDirectoryOperations(ops);
  AddXattrOperations(ops);
  return ops;
}

}  // namespace

State::State(volume::Vfs& the_vfs, OpStats& the_stats, const Logger& the_log,
             const GeneralOptions& the_options, std::function<void()> on_ready)
    : vfs(the_vfs),
      stats(the_stats),
      log(the_log),
      options(the_options),
      ready(std::move(on_ready)),
      inline_io(InlineIo(options.threads)),
      told(options.attr_timeout),
      env{.stats = the_stats,
          .interrupts = interrupts,
          .stop = stop.get_token(),
          .timeouts = {.attr = options.attr_timeout,
                       .entry = options.entry_timeout,
                       .dir_entry = options.dir_entry_timeout,
                       .negative = options.negative_timeout},
          .inos = {.root = options.root},
          .io_timeout = options.io_timeout,
          .umask = options.umask.value_or(0),
          .told = &told,
          .trashed = &trashed,
          .changes = &changes},
      pool({.name = "fuse-io", .threads = 32, .queue_limit = 4096}) {}

State::~State() = default;

IoTurn::IoTurn(State& state) : state_(state), here_(state.waiting.fetch_add(1) < state.inline_io) {}

void State::RunIo(std::move_only_function<void()> work) {
  if (const IoTurn turn(*this); turn.here()) return work();
  RunInPool(std::move(work));
}

void State::RunInPool(std::move_only_function<void()> work) {
  // At the end of the mount the pool takes nothing more; every request is answered all the same.
  auto shared = std::make_shared<std::move_only_function<void()>>(std::move(work));
  if (!pool.Submit(Context::Background(), [shared] { (*shared)(); })) (*shared)();
}

Result<void> State::CheckName(const Call& call, volume::Ino ino, const volume::Attr& attr,
                              bool other_ways, bool writes) {
  if (!LostItsName(ino, attr) || trashed.Knows(ino)) return {};
  // Threads of other containers have no number: one of them that is let in for another's refusal
  // must not write to what is thrown away.
  const bool may_pass = other_ways && !(writes && call.thread() == 0);
  if (may_pass && !refusals.Refuses(call.thread(), ino)) return {};
  return Fail(Code::kExpired, "inode {} has lost its name", ToInt(ino));
}

Status State::WhyRefused(Call& call, Status status) {
  if (status.code() != Code::kPermission || trashed.Knows(call.ino())) return status;
  const auto attr = vfs.meta().GetAttr(call.ctx(), call.ino());
  const bool lost = attr ? LostItsName(call.ino(), *attr) : IsNotFound(attr.error());
  return lost ? Status(Code::kExpired, status.message()) : status;
}

bool State::LostDirectory(volume::Ino ino, const std::optional<volume::Attr>& attr) const {
  // The root of the mount has no name that could stand for another one.
  if (ino == options.root || volume::IsTrash(ino) || trashed.Knows(ino)) return false;
  return !attr || LostItsName(ino, *attr);
}

bool State::LostDirectory(Call& call, volume::Ino ino) {
  auto attr = vfs.meta().GetAttr(call.ctx(), ino);
  if (attr) return LostDirectory(ino, *attr);
  return IsNotFound(attr.error()) && LostDirectory(ino, std::nullopt);
}

bool State::RefusesLost(Call& call, volume::Ino ino, std::string_view name) {
  return LostDirectory(call, ino) && refusals.RefusesName(call.thread(), ino, name);
}

Status State::WhyNotMade(volume::Ino directory, Status status) const {
  if (!IsNotFound(status) || !LostDirectory(directory, std::nullopt)) return status;
  return Status(Code::kExpired, status.message());
}

std::shared_ptr<volume::DirStream> State::Directory(std::uint64_t handle) {
  MutexLock lock(mutex_);
  const auto found = directories_.find(handle);
  return found == directories_.end() ? nullptr : found->second;
}

std::uint64_t State::AddDirectory(std::shared_ptr<volume::DirStream> stream) {
  MutexLock lock(mutex_);
  directories_.emplace(++last_directory_, std::move(stream));
  return last_directory_;
}

void State::RemoveDirectory(std::uint64_t handle) {
  MutexLock lock(mutex_);
  directories_.erase(handle);
}

GeneralFs::GeneralFs(volume::Vfs& vfs, OpStats& stats, const Logger& log,
                     const GeneralOptions& options, std::function<void()> ready)
    : state_(std::make_unique<State>(vfs, stats, log, options, std::move(ready))) {}

GeneralFs::~GeneralFs() = default;

const fuse_lowlevel_ops& GeneralFs::Operations() {
  static const fuse_lowlevel_ops ops = MakeOperations();
  return ops;
}

void* GeneralFs::userdata() { return state_.get(); }

void GeneralFs::OnStaleAttributes(std::function<void(volume::Ino)> forget) {
  state_->forget_attributes = std::move(forget);
}

ArrivalMark& GeneralFs::mark() { return state_->mark; }

void GeneralFs::Cancel() { state_->stop.request_stop(); }
void GeneralFs::Drain() { state_->pool.Stop(); }

}  // namespace paddleop::fuse
