#include "volume/vfs/data_set.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "volume/format/chunk_view.h"
#include "volume/vfs/internal/async_blocks.h"
#include "volume/vfs/internal/stream_table.h"
#include "volume/vfs/metrics.h"

namespace paddleop::volume {
namespace {

// A part of a read: bytes of one block, or zeros.
struct Piece {
  BlockId block;  // length 0: zeros
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

// The hint of who reads what the view does not have: nothing follows it.
constexpr std::uint64_t kNoNode = Tree::kNone;

// A read of several pieces: filled from any thread, answered by the last.
struct Gather {
  Gather(std::size_t size, std::size_t count, DataSet::ReadDone then)
      : bytes(size), left(count), done(std::move(then)) {}

  void Finish(std::size_t at, std::size_t size, Result<std::span<const std::byte>> piece) {
    if (piece) {
      if (size > 0) std::memcpy(bytes.data() + at, piece->data(), size);
    } else {
      MutexLock lock(mutex);
      if (!error) error = piece.error();
    }
    if (left.fetch_sub(1) != 1) return;
    if (error) return done(std::unexpected(*error));
    done(std::span<const std::byte>(bytes));
  }

  std::vector<std::byte> bytes;
  std::atomic<std::size_t> left;
  Mutex mutex;
  std::optional<Status> error;  // under the mutex until `left` is 0
  DataSet::ReadDone done;
};

// So that blocks on their way always find buffers.
std::uint64_t MostRecent(const BlockStoreOptions& options) {
  constexpr std::uint64_t kEnough = 96ULL << 20;
  return options.buffer_bytes - std::min(options.buffer_bytes / 4 * 3, kEnough);
}

Status Gone(Ino ino) {
  return Status(Code::kExpired, fmt::format("inode {} is no longer in the data set", ToInt(ino)));
}

}  // namespace

class DataSet::State {
 public:
  State(MetaStore& meta, BlockStore& blocks, DiskCache* disk, MetricsRegistry& metrics,
        const DataSetOptions& options)
      : meta_(meta),
        blocks_(blocks),
        options_(options),
        files_(metrics.AddGauge(kDataSetFiles, kDataSetFilesHelp)),
        memory_(metrics.AddGauge(kDataSetMemory, kDataSetMemoryHelp)),
        refreshes_(metrics.AddCounter(kRefreshes, kRefreshesHelp)),
        streams_(blocks.options().layout.block_size),
        async_(blocks, disk, metrics,
               {.fetch_threads = options.fetch_threads,
                .recent_bytes = std::min(options.recent_bytes, MostRecent(blocks.options())),
                .timeout = options.io_timeout,
                .retries = options.io_retries,
                .disk = {.patience = options.disk_patience}},
               [this](const BlockId& block, std::uint64_t hint) { OnMiss(block, hint); }) {}

  // Loads the tree and what tells whether it is still the newest.
  Result<View> Load(const Context& ctx) {
    // Read first: a change during the load makes the view stale, not wrong.
    ASSIGN_OR_RETURN(const StatFs usage, meta_.GetStatFs(ctx));
    ASSIGN_OR_RETURN(auto mark, ReadMark(ctx, usage));
    ASSIGN_OR_RETURN(Tree tree, meta_.LoadTree(ctx, options_.root, /*with_slices=*/true));
    auto view = std::make_shared<const Tree>(std::move(tree));
    MutexLock lock(mutex_);
    mark_ = std::move(mark);
    usage_ = usage;
    loaded_ = std::chrono::system_clock::now();
    files_.Set(static_cast<double>(view->node_count()));
    memory_.Set(static_cast<double>(view->MemoryBytes()));
    return view;
  }

  // Changes whenever an import or removal has finished, the root's own names have changed, or the
  // volume holds more or less than before.
  Result<std::string> ReadMark(const Context& ctx, const StatFs& usage) {
    ASSIGN_OR_RETURN(const Attr root, meta_.GetAttr(ctx, options_.root));
    std::string mark = fmt::format("{}.{} {} {}", root.mtime.seconds, root.mtime.nanos,
                                   usage.used_space, usage.used_inodes);
    auto generation = meta_.GetXattr(ctx, kRootIno, kTreeVersionXattr);
    if (generation) {
      mark += " " + *generation;
    } else if (!IsNotFound(generation.error())) {
      return std::unexpected(std::move(generation).error());
    }
    return mark;
  }

  View view() const {
    MutexLock lock(view_mutex_);
    return view_;
  }
  // Takes a state into use; the one that was.
  View Show(View fresh) {
    MutexLock lock(view_mutex_);
    return std::exchange(view_, std::move(fresh));
  }

  // Calls fn(piece) for the parts of [offset, offset + size) of a file.
  template <class Fn>
  void ForEachPiece(const Tree& tree, Tree::NodeIndex node, std::uint64_t offset,
                    std::uint64_t size, Fn&& fn) const {
    ForEachChunk(offset, size, [&](std::uint32_t index, std::uint32_t pos, std::uint32_t len) {
      ForEachPieceOf(BuildChunkView(tree.Slices(node, index), pos + len), pos, fn);
    });
  }

  // The same from `pos` on to the end of what is seen of a chunk.
  template <class Fn>
  void ForEachPieceOf(std::span<const Slice> seen, std::uint32_t pos, Fn&& fn) const {
    const std::uint32_t block_size = blocks_.options().layout.block_size;
    for (const Slice& slice : seen) {
      const std::uint64_t begin = std::max(slice.pos, pos);
      const std::uint64_t end = std::uint64_t{slice.pos} + slice.len;
      if (end <= begin) continue;
      if (slice.id == 0) {
        fn(Piece{.block = {}, .offset = 0, .size = static_cast<std::uint32_t>(end - begin)});
        continue;
      }
      std::uint64_t at = slice.off + (begin - slice.pos);
      for (std::uint64_t left = end - begin; left > 0;) {
        const auto inside = static_cast<std::uint32_t>(at % block_size);
        const auto count =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(block_size - inside, left));
        fn(Piece{.block = blocks_.BlockOf({slice.id, slice.size},
                                          static_cast<std::uint32_t>(at / block_size)),
                 .offset = inside,
                 .size = count});
        at += count;
        left -= count;
      }
    }
  }

  void Read(Ino ino, std::uint64_t offset, std::size_t size, ReadDone done) {
    const View tree = view();
    const Tree::NodeIndex node = tree->Find(ino);
    if (node == Tree::kNone) return ReadRemoved(ino, offset, size, std::move(done));
    if (tree->type(node) != FileType::kFile)
      return done(Fail(Code::kIsDirectory, "inode {} is no file", ToInt(ino)));
    const std::uint64_t length = tree->length(node);
    if (offset >= length || size == 0) return done(std::span<const std::byte>());
    const std::uint64_t count = std::min<std::uint64_t>(size, length - offset);
    ReadFrom(tree, node, ino, offset, count, std::move(done));
    // Afterwards: what is read now is not to be pushed out of memory by what comes next.
    if (length > blocks_.options().layout.block_size)
      ReadAhead(*tree, node, ino, offset, offset + count, length);
  }

  void ReadFrom(const View& tree, Tree::NodeIndex node, Ino ino, std::uint64_t offset,
                std::uint64_t count, ReadDone done) {
    std::vector<Piece> pieces;
    ForEachPiece(*tree, node, offset, count, [&](const Piece& p) { pieces.push_back(p); });
    // Holding the view until the answer is out lets a refresh know when nobody sees it any more.
    ReadPieces(pieces, node, count,
               [this, tree, ino, offset, count,
                done = std::move(done)](Result<std::span<const std::byte>> bytes) mutable {
                 if (bytes || bytes.error().code() != Code::kNotFound)
                   return done(std::move(bytes));
                 ReadAgain(ino, offset, count, std::move(done));
               });
  }

  // `count` bytes in all.
  void ReadPieces(std::span<const Piece> pieces, std::uint64_t hint, std::uint64_t count,
                  ReadDone done) {
    if (pieces.size() == 1 && pieces[0].block.length != 0) {
      const Piece& piece = pieces[0];
      return async_.Read(piece.block, piece.offset, piece.size, hint, std::move(done));
    }
    auto gather = std::make_shared<Gather>(count, pieces.size() + 1, std::move(done));
    std::size_t at = 0;
    for (const Piece& piece : pieces) {
      if (piece.block.length == 0) {
        gather->left.fetch_sub(1);  // the buffer is zeros already
      } else {
        async_.Read(piece.block, piece.offset, piece.size, hint,
                    [gather, at, n = piece.size](Result<std::span<const std::byte>> bytes) {
                      gather->Finish(at, n, std::move(bytes));
                    });
      }
      at += piece.size;
    }
    gather->Finish(0, 0, std::span<const std::byte>());
  }

  void GetAttr(Ino ino, AttrDone done) {
    const View tree = view();
    const Tree::NodeIndex node = tree->Find(ino);
    if (node != Tree::kNone) return done(tree->attr(node));
    async_.Run([this, ino, done = std::move(done)]() mutable {
      auto attr = meta_.GetAttr(async_.Bounded(), ino);
      if (!attr && IsNotFound(attr.error())) attr = std::unexpected(Gone(ino));
      done(std::move(attr));
    });
  }

  // Not in the view any more, but somebody has it open: the volume may still have it, in its trash
  // or because others have it open, too.
  void ReadRemoved(Ino ino, std::uint64_t offset, std::size_t size, ReadDone done) {
    GetAttr(ino, [this, ino, offset, size, done = std::move(done)](Result<Attr> attr) mutable {
      if (!attr) return done(std::unexpected(std::move(attr).error()));
      if (attr->type != FileType::kFile) return done(std::unexpected(Gone(ino)));
      if (offset >= attr->length || size == 0) return done(std::span<const std::byte>());
      ReadAgain(ino, offset, std::min<std::uint64_t>(size, attr->length - offset), std::move(done));
    });
  }

  // A block is gone: compaction or a writer may have replaced it. The volume knows.
  void ReadAgain(Ino ino, std::uint64_t offset, std::uint64_t count, ReadDone done) {
    async_.Run([this, ino, offset, count, done = std::move(done)]() mutable {
      // Only the volume is waited for here, neither the store nor a disk.
      const auto pieces = PiecesNow(ino, offset, count);
      if (!pieces) return AnswerAgain(std::unexpected(pieces.error()), done);
      ReadPieces(*pieces, kNoNode, count,
                 [done = std::move(done)](Result<std::span<const std::byte>> bytes) mutable {
                   AnswerAgain(std::move(bytes), done);
                 });
    });
  }

  static void AnswerAgain(Result<std::span<const std::byte>> bytes, ReadDone& done) {
    if (bytes || !IsNotFound(bytes.error())) return done(std::move(bytes));
    done(Fail(Code::kExpired, "the file has changed since the data set was loaded: {}",
              bytes.error().message()));
  }

  // The parts of [offset, offset + count) of a file as the volume has it now.
  Result<std::vector<Piece>> PiecesNow(Ino ino, std::uint64_t offset, std::uint64_t count) {
    const Context ctx = async_.Bounded();
    std::vector<Piece> pieces;
    Result<void> result;
    ForEachChunk(offset, count, [&](std::uint32_t index, std::uint32_t pos, std::uint32_t len) {
      if (result) result = AddPiecesNow(ctx, ino, index, pos, len, pieces);
    });
    RETURN_IF_ERROR(std::move(result));
    return pieces;
  }

  Result<void> AddPiecesNow(const Context& ctx, Ino ino, std::uint32_t index, std::uint32_t pos,
                            std::uint32_t len, std::vector<Piece>& pieces) {
    ASSIGN_OR_RETURN(const auto records, meta_.ReadSlices(ctx, ino, index));
    const std::vector<Slice> seen = BuildChunkView(records, pos + len);
    for (const Slice& slice : seen) {
      if (slice.id != 0 && std::uint64_t{slice.off} + slice.len > slice.size) {
        return Fail(Code::kCorrupt, "slice {} has {} bytes, read of {} at {}", slice.id, slice.size,
                    slice.len, slice.off);
      }
    }
    ForEachPieceOf(seen, pos, [&](const Piece& piece) { pieces.push_back(piece); });
    return {};
  }

  void ReadAhead(const Tree& tree, Tree::NodeIndex node, Ino ino, std::uint64_t offset,
                 std::uint64_t end, std::uint64_t length) {
    const std::uint64_t most = std::min(options_.max_readahead,
                                        async_.ahead_limit() * blocks_.options().layout.block_size);
    const auto ahead = streams_.Note(ino, offset, end, most);
    const std::uint64_t to = std::min(ahead.to, length);
    if (ahead.from >= to) return;
    BlockId last;
    ForEachPiece(tree, node, ahead.from, to - ahead.from, [&](const Piece& piece) {
      if (piece.block.length == 0 || piece.block == last) return;
      last = piece.block;
      async_.Prefetch(piece.block);
    });
  }

  // Small files lie in packs, in the order of their source: who reads one will want the neighbours
  // of its pack, which came with it, and then the packs that follow.
  void OnMiss(const BlockId& block, std::uint64_t hint) {
    const std::uint64_t window =
        options_.prefetch ? std::min<std::uint64_t>(async_.prefetch_window(), async_.ahead_limit())
                          : 0;
    if (window == 0) return;
    const View tree = view();
    const auto node = static_cast<Tree::NodeIndex>(hint);
    if (node >= tree->node_count()) return;  // the tree was loaded again meanwhile
    const std::uint32_t block_size = blocks_.options().layout.block_size;
    if (tree->length(node) > block_size) return;  // big files have read-ahead of their own
    for (const SliceKey& slice : tree->SlicesAfter(node, window)) {
      if (slice.id != block.slice && slice.size <= block_size)
        async_.Prefetch(blocks_.BlockOf(slice, 0));
    }
  }

  Result<RefreshDone> Refresh(const Context& ctx, ChangeListener& listener) {
    MutexLock one_at_a_time(refresh_mutex_);
    ASSIGN_OR_RETURN(View fresh, Load(ctx));
    View old = Show(fresh);
    refreshes_.Increment();
    // An answer from the old state that comes after the kernel was told to forget would be
    // remembered for good. So everybody who looks at the old state answers first.
    const Context grace = ctx.WithTimeout(options_.refresh_grace);
    while (old.use_count() > 1) {
      if (!Clock::System().SleepFor(grace, std::chrono::milliseconds(1))) break;
    }
    return CompareTrees(*old, *fresh, listener);
  }

  MetaStore& meta_;
  BlockStore& blocks_;
  const DataSetOptions options_;
  MetricsRegistry::Gauge& files_;
  MetricsRegistry::Gauge& memory_;
  MetricsRegistry::Counter& refreshes_;
  // Not an atomic pointer: the library's spins while another thread has it, and on few processors
  // that thread may have to wait for the one that spins.
  mutable Mutex view_mutex_;
  View view_ GUARDED_BY(view_mutex_);
  StreamTable streams_;
  Mutex refresh_mutex_;  // taken before mutex_
  Mutex mutex_;
  std::string mark_ GUARDED_BY(mutex_);
  StatFs usage_ GUARDED_BY(mutex_);
  std::chrono::system_clock::time_point loaded_ GUARDED_BY(mutex_);
  AsyncBlocks async_;  // last: its threads use the others
};

DataSet::DataSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataSet::~DataSet() { Stop(); }

Result<std::unique_ptr<DataSet>> DataSet::Open(const Context& ctx, MetaStore& meta,
                                               BlockStore& blocks, DiskCache* disk,
                                               MetricsRegistry& metrics,
                                               const DataSetOptions& options) {
  auto state = std::make_unique<State>(meta, blocks, disk, metrics, options);
  ASSIGN_OR_RETURN(View view, state->Load(ctx));
  std::ignore = state->Show(std::move(view));
  return std::unique_ptr<DataSet>(new DataSet(std::move(state)));
}

DataSet::View DataSet::view() const { return state_->view(); }

void DataSet::Read(Ino ino, std::uint64_t offset, std::size_t size, ReadDone done) {
  state_->Read(ino, offset, size, std::move(done));
}

void DataSet::ReadLink(Ino ino, TextDone done) {
  const View tree = view();
  if (const Tree::NodeIndex node = tree->Find(ino); node != Tree::kNone) {
    if (const auto target = tree->Target(node)) return done(std::string(*target));
  }
  state_->async_.Run([state = state_.get(), ino, done = std::move(done)]() mutable {
    done(state->meta_.ReadLink(state->async_.Bounded(), ino));
  });
}

void DataSet::GetAttr(Ino ino, AttrDone done) { state_->GetAttr(ino, std::move(done)); }

StatFs DataSet::GetStatFs() const {
  MutexLock lock(state_->mutex_);
  return state_->usage_;
}

Result<RefreshDone> DataSet::Refresh(const Context& ctx, ChangeListener& listener) {
  return state_->Refresh(ctx, listener);
}

Result<bool> DataSet::IsStale(const Context& ctx) {
  ASSIGN_OR_RETURN(const StatFs usage, state_->meta_.GetStatFs(ctx));
  ASSIGN_OR_RETURN(const std::string now, state_->ReadMark(ctx, usage));
  MutexLock lock(state_->mutex_);
  return now != state_->mark_;
}

DataSetStatus DataSet::Status() const {
  const View tree = view();
  const PrefetchCounts prefetch = state_->async_.prefetch_counts();
  DataSetStatus status{.inodes = tree->node_count(),
                       .tree_bytes = tree->MemoryBytes(),
                       .prefetched = prefetch.started,
                       .prefetch_useful = prefetch.useful,
                       .prefetch_wasted = prefetch.wasted,
                       .prefetch_window = state_->async_.prefetch_window(),
                       .refreshes = static_cast<std::uint64_t>(state_->refreshes_.Value())};
  MutexLock lock(state_->mutex_);
  status.loaded = state_->loaded_;
  return status;
}

void DataSet::Stop() { state_->async_.Stop(); }

}  // namespace paddleop::volume
