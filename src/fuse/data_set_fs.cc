#include "fuse/data_set_fs.h"

#include <fcntl.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "fuse/internal/call.h"

namespace paddleop::fuse {

using volume::DataSet;
using volume::Ino;
using volume::Tree;

class DataSetFs::State {
 public:
  State(DataSet& set, OpStats& op_stats, const DataSetFsOptions& fs_options,
        std::function<void()> on_ready)
      : data(set),
        stats(op_stats),
        options(fs_options),
        ready(std::move(on_ready)),
        env{.stats = op_stats,
            .interrupts = interrupts,
            .stop = {},
            .timeouts = {.attr = options.timeout,
                         .entry = options.timeout,
                         .dir_entry = options.timeout,
                         .negative = options.timeout},
            .inos = {.root = set.view()->root()}} {}

  static State& Of(fuse_req_t request) { return *static_cast<State*>(fuse_req_userdata(request)); }

  DataSet& data;
  OpStats& stats;
  const DataSetFsOptions options;
  std::function<void()> ready;
  DataSetFs::OnLookup on_lookup;
  DataSetFs::OnRead on_read;
  Interrupts interrupts;
  CallEnvironment env;
};

namespace {

using State = DataSetFs::State;

void OnInit(void* userdata, fuse_conn_info* connection) {
  auto& state = *static_cast<State*>(userdata);
  const auto want = [&](unsigned capability, bool on) {
    if (on && (connection->capable & capability) != 0) connection->want |= capability;
    if (!on) connection->want &= ~capability;
  };
  // Listing brings attributes along, always: a walk is then one request for many files.
  want(FUSE_CAP_READDIRPLUS | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ |
           FUSE_CAP_CACHE_SYMLINKS,
       true);
  want(FUSE_CAP_READDIRPLUS_AUTO, false);
  // Pages are good until a refresh says otherwise.
  want(FUSE_CAP_AUTO_INVAL_DATA, false);
  want(FUSE_CAP_EXPLICIT_INVAL_DATA, true);
  want(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE, false);
  connection->max_write = 1U << 20;  // also bounds reads
  connection->max_read = state.options.max_read;
  connection->max_background = static_cast<unsigned>(state.options.max_background);
  connection->congestion_threshold = connection->max_background;
  if (state.ready) state.ready();
}

void OnLookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kLookup, parent);
  call.Detail(",{}", name);
  const DataSet::View tree = state.data.view();
  const Tree::NodeIndex directory = tree->Find(call.ino());
  if (directory == Tree::kNone) return call.Error(ESTALE);
  const Tree::NodeIndex node = tree->Lookup(directory, name);
  if (state.on_lookup) state.on_lookup(tree, directory);
  if (node == Tree::kNone) return call.ReplyNoEntry();
  call.Reply(volume::Entry{.ino = tree->ino(node), .attr = tree->attr(node)});
}

void OnForget(fuse_req_t request, fuse_ino_t, std::uint64_t) { fuse_reply_none(request); }
void OnForgetMulti(fuse_req_t request, std::size_t, fuse_forget_data*) { fuse_reply_none(request); }

void OnGetAttr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kGetAttr, ino);
  const Ino file = call->ino();
  state.data.GetAttr(
      file, [call = std::move(call)](const Result<volume::Attr>& attr) { call->Reply(attr); });
}

void OnReadLink(fuse_req_t request, fuse_ino_t ino) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kReadLink, ino);
  const Ino link = call->ino();
  state.data.ReadLink(link, [call = std::move(call)](Result<std::string> target) {
    if (!target) return call->Error(target.error());
    call->ReplyText(*target);
  });
}

// The kernel takes ENOSYS for "there is nothing to do" and does not ask again.
void OnOpen(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kOpen, ino);
  call.Error(ENOSYS);
}

void OnFlush(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kFlush, ino);
  call.Error(ENOSYS);
}

void OnOpenDir(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kOpenDir, ino);
  call.Error(ENOSYS);
}

void OnRead(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
            fuse_file_info* info) {
  State& state = State::Of(request);
  auto call = std::make_unique<Call>(state.env, request, Op::kRead, ino);
  call->Detail(",{},{}", size, offset);
  const Ino file = call->ino();
  // Who goes past the kernel's memory leaves nothing there.
  const bool kept = (info->flags & O_DIRECT) == 0;
  state.data.Read(file, static_cast<std::uint64_t>(offset), size,
                  [&state, call = std::move(call), file, offset,
                   kept](Result<std::span<const std::byte>> bytes) {
                    if (!bytes) return call->Error(bytes.error());
                    state.stats.AddBytesRead(bytes->size());
                    if (kept && state.on_read)
                      state.on_read(file, static_cast<std::uint64_t>(offset), bytes->size());
                    call->ReplyData(AsText(*bytes));
                  });
}

// Where a listing goes on: the number of the next entry ("." is 0, ".." is 1, the i-th child i + 2)
// and, because a refresh may give the children other numbers, a hash of the name before it.
constexpr int kNumberBits = 34;
constexpr std::size_t kNumberMask = (std::size_t{1} << kNumberBits) - 1;

off_t OffsetAfter(std::size_t number, std::string_view name) {
  const std::size_t hash = std::hash<std::string_view>{}(name) >> (kNumberBits + 1);
  return static_cast<off_t>(hash << kNumberBits | (number + 1));
}

// The number of the next entry. The name before it is looked for outwards from where it was; if it
// is gone, its number is all that is left.
std::size_t NumberAt(const Tree& tree, Tree::NodeIndex directory, off_t offset) {
  const std::size_t number = static_cast<std::size_t>(offset) & kNumberMask;
  const std::size_t count = tree.child_count(directory) + 2;
  const auto follows = [&](std::size_t candidate) {
    return candidate > 2 && candidate <= count &&
           OffsetAfter(number - 1, tree.child(directory, candidate - 3).name) == offset;
  };
  if (number <= 2) return number;
  const std::size_t near = std::min(number, count);  // an offset may be anybody's invention
  for (std::size_t away = 0; away <= count; ++away) {
    if (follows(near + away)) return near + away;
    if (away < near && follows(near - away)) return near - away;
  }
  return near;
}

void ReadDir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, bool plus) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kReadDir, ino);
  call.Detail(",{},{}", size, offset);
  const DataSet::View tree = state.data.view();
  const Tree::NodeIndex directory = tree->Find(call.ino());
  if (directory == Tree::kNone) return call.Error(ESTALE);
  if (tree->type(directory) != volume::FileType::kDirectory) return call.Error(ENOTDIR);
  thread_local std::vector<char> buffer;
  if (buffer.size() < size) buffer.resize(size);
  std::size_t used = 0;
  std::string name;
  const auto add = [&](std::string_view text, Tree::NodeIndex node, bool dot, off_t next) {
    name.assign(text);
    fuse_entry_param param = {};
    const volume::Entry entry{.ino = tree->ino(node), .attr = tree->attr(node)};
    if (dot || !plus) {
      param.attr = ToStat(entry.ino, entry.attr);
    } else {
      param = call.EntryParam(entry);
    }
    char* const at = buffer.data() + used;
    const std::size_t room = size - used;
    const std::size_t need =
        plus ? fuse_add_direntry_plus(request, at, room, name.c_str(), &param, next)
             : fuse_add_direntry(request, at, room, name.c_str(), &param.attr, next);
    if (need > room) return false;
    used += need;
    return true;
  };
  const std::size_t count = tree->child_count(directory);
  for (std::size_t at = NumberAt(*tree, directory, offset); at < count + 2; ++at) {
    if (at < 2) {
      // The parent of the root is not in the tree; nobody outside the kernel sees this number.
      if (!add(at == 0 ? "." : "..", directory, true, static_cast<off_t>(at + 1))) break;
    } else {
      const Tree::Child child = tree->child(directory, at - 2);
      if (!add(child.name, child.node, false, OffsetAfter(at, child.name))) break;
    }
  }
  call.ReplyData({buffer.data(), used});
}

void OnReadDir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
               fuse_file_info*) {
  ReadDir(request, ino, size, offset, /*plus=*/false);
}

void OnReadDirPlus(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
                   fuse_file_info*) {
  ReadDir(request, ino, size, offset, /*plus=*/true);
}

void OnStatFs(fuse_req_t request, fuse_ino_t ino) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kStatFs, ino);
  call.ReplyStatFs(state.data.GetStatFs());
}

// A data set has no extended attributes; programs that look for them should not cost requests.
void OnGetXattr(fuse_req_t request, fuse_ino_t ino, const char*, std::size_t) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kGetXattr, ino);
  call.Error(ENOSYS);
}

void OnListXattr(fuse_req_t request, fuse_ino_t ino, std::size_t) {
  State& state = State::Of(request);
  Call call(state.env, request, Op::kListXattr, ino);
  call.Error(ENOSYS);
}

fuse_lowlevel_ops MakeOperations() {
  fuse_lowlevel_ops ops = {};
  ops.init = OnInit;
  ops.lookup = OnLookup;
  ops.forget = OnForget;
  ops.forget_multi = OnForgetMulti;
  ops.getattr = OnGetAttr;
  ops.readlink = OnReadLink;
  ops.open = OnOpen;
  ops.read = OnRead;
  ops.flush = OnFlush;
  ops.opendir = OnOpenDir;
  ops.readdir = OnReadDir;
  ops.readdirplus = OnReadDirPlus;
  ops.statfs = OnStatFs;
  ops.getxattr = OnGetXattr;
  ops.listxattr = OnListXattr;
  return ops;
}

}  // namespace

DataSetFs::DataSetFs(DataSet& data, OpStats& stats, const DataSetFsOptions& options,
                     std::function<void()> ready)
    : state_(std::make_unique<State>(data, stats, options, std::move(ready))) {}

DataSetFs::~DataSetFs() = default;

void DataSetFs::SetOnLookup(OnLookup on_lookup) { state_->on_lookup = std::move(on_lookup); }

void DataSetFs::SetOnRead(OnRead on_read) { state_->on_read = std::move(on_read); }

const fuse_lowlevel_ops& DataSetFs::Operations() {
  static const fuse_lowlevel_ops ops = MakeOperations();
  return ops;
}

void* DataSetFs::userdata() { return state_.get(); }

}  // namespace paddleop::fuse
