#include "volume/vfs/vfs.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "volume/vfs/internal/background_flusher.h"
#include "volume/vfs/internal/open_files.h"

namespace paddleop::volume {
namespace {

constexpr std::size_t kFlushThreads = 16;

}  // namespace

class Vfs::State {
 public:
  State(MetaStore& meta, BlockStore& blocks, const Logger& log, VfsOptions options)
      : meta_(meta),
        blocks_(blocks),
        log_(log),
        options_(options),
        shares_(options.ahead_limit),
        flusher_(files_, log, options) {}

  Context Bounded(const Context& ctx) const {
    return ctx.has_deadline() ? ctx : ctx.WithTimeout(options_.io_timeout);
  }

  Result<std::shared_ptr<OpenHandle>> Get(Handle handle) const {
    auto open = files_.Find(handle);
    if (!open)
      return Fail(Code::kInvalid, "handle {} is not open", static_cast<std::uint64_t>(handle));
    return open;
  }

  // For a handle on the file; to be forgotten if there will be none.
  std::shared_ptr<FileState> Retain(Ino ino) {
    return files_.Retain(
        ino, [&] { return std::make_shared<FileState>(meta_, blocks_, log_, losses_, ino); });
  }

  // What could not be stored until now is lost with the last handle, and whoever opens the file
  // from now on must not meet it later.
  void Forget(FileState& file) {
    if (files_.Forget(file.ino)) file.writer.Abandon();
  }

  // Adds a handle on a file that meta has opened with these attributes. `file` is retained already.
  OpenedFile Register(const std::shared_ptr<FileState>& file, const Attr& attr, OpenFlags flags) {
    const Ino ino = file->ino;
    auto open = std::make_shared<OpenHandle>(
        file, flags,
        std::make_unique<FileReader>(meta_, blocks_, file->views, shares_, ino,
                                     ReadAheadOptions{.max_bytes = options_.max_readahead}));
    Entry entry{.ino = ino, .attr = attr};
    entry.attr.length = std::max(entry.attr.length, file->writer.length());
    return {.handle = files_.Add(std::move(open)), .entry = std::move(entry)};
  }

  // Takes over what the volume says of the file. False if it has to be asked again.
  static bool Learn(FileState& file, const Attr& attr, const FileWriter::Question& question) {
    const bool learned = file.writer.LearnLength(attr.length, question);
    LearnTimes(file, attr);
    return learned;
  }

  static void LearnTimes(FileState& file, const Attr& attr) {
    MutexLock lock(file.mutex);
    file.attr_read = std::chrono::steady_clock::now();
    if (file.mtime == attr.mtime && file.ctime == attr.ctime) return;
    file.mtime = attr.mtime;
    file.ctime = attr.ctime;
    file.views.Clear();
  }

  // Asks the volume until its answer is not crossed by a commit of this process; if that happens
  // again and again, others write to the file at the same time as we do.
  Result<Attr> AskAndLearn(const Context& ctx, FileState& file) {
    constexpr int kAttempts = 5;
    for (int attempt = 1;; ++attempt) {
      const auto question = file.writer.Ask();
      ASSIGN_OR_RETURN(Attr attr, meta_.GetAttr(ctx, file.ino));
      if (Learn(file, attr, question) || attempt == kAttempts) return attr;
    }
  }

  // Changes the file in the volume, with its length, while nobody writes. Retained for that time,
  // so that whoever opens it meanwhile learns of the new length, too.
  Result<void> Change(const Context& ctx, Ino ino,
                      const std::function<Result<std::uint64_t>()>& change) {
    const auto file = Retain(ino);
    auto changed = file->writer.ChangeInVolume(ctx, change);
    Forget(*file);
    return changed;
  }

  // Commits what is pending, for who may have written through this handle: it is told of everything
  // that was lost since it was opened, whoever's flush that was; once, if it `takes` the loss.
  Result<void> FlushHandle(const Context& ctx, OpenHandle& open, bool takes) {
    auto flushed = open.file->writer.Flush(ctx);
    if (!open.flags.write) return flushed;
    auto lost = takes ? open.file->writer.TakeLossSince(open.losses_seen)
                      : open.file->writer.LossSince(open.losses_seen);
    return flushed ? lost : flushed;
  }

  // How far the file goes by what was written and is not in the volume yet, and when that was.
  struct Uncommitted {
    explicit Uncommitted(const FileState* file) {
      if (file == nullptr || !file->writer.Dirty()) return;
      end = file->writer.length();
      time = file->writer.UncommittedTime();
    }

    // Makes attributes that the volume has told what they are with it.
    void AddTo(Attr& attr) const {
      attr.length = std::max(attr.length, end);
      if (!time) return;
      attr.mtime =
          MtimeAfterWrite(attr.mtime, *time, Timestamp::From(std::chrono::system_clock::now()));
      attr.ctime = std::max(attr.ctime, *time);
    }

    std::uint64_t end = 0;
    std::optional<Timestamp> time;
  };

  // The file's length for a read that wants bytes up to `end`.
  Result<std::uint64_t> LengthFor(const Context& ctx, FileState& file, std::uint64_t end) {
    if (end <= file.writer.length()) return file.writer.length();
    bool fresh = false;
    {
      MutexLock lock(file.mutex);
      fresh = std::chrono::steady_clock::now() - file.attr_read < std::chrono::seconds(1);
    }
    if (!fresh) {
      // Another client may have made it longer.
      RETURN_IF_ERROR(AskAndLearn(ctx, file));
    }
    return file.writer.length();
  }

  MetaStore& meta_;
  BlockStore& blocks_;
  const Logger& log_;
  const VfsOptions options_;
  ReadAheadShares shares_;
  std::atomic<std::uint64_t> losses_{0};
  OpenFiles files_;
  BackgroundFlusher flusher_;
};

Vfs::Vfs(MetaStore& meta, BlockStore& blocks, const Logger& log, VfsOptions options)
    : state_(std::make_unique<State>(meta, blocks, log, options)) {}

Vfs::~Vfs() {
  const Context ctx = Context::Background().WithTimeout(std::chrono::seconds(30));
  if (auto flushed = FlushAll(ctx); !flushed) {
    state_->log_.Error(ctx, "written data was lost at exit",
                       {{"error", flushed.error().message()}});
  }
}

MetaStore& Vfs::meta() { return state_->meta_; }

// Looked at before and after: a commit in between would otherwise hide bytes that were written long
// ago, because the volume was asked before it and the writer after it.
Result<Attr> Vfs::GetAttr(const Context& ctx, Ino ino) {
  const auto file = state_->files_.FindFile(ino);
  const State::Uncommitted before(file.get());
  ASSIGN_OR_RETURN(Attr attr, state_->meta_.GetAttr(ctx, ino));
  before.AddTo(attr);
  State::Uncommitted(file.get()).AddTo(attr);
  return attr;
}

Result<Vfs::CommittedAttr> Vfs::GetCommittedAttr(const Context& ctx, Ino ino) {
  const auto file = state_->files_.FindFile(ino);
  const State::Uncommitted before(file.get());
  ASSIGN_OR_RETURN(Attr attr, state_->meta_.GetAttr(ctx, ino));
  const State::Uncommitted after(file.get());
  attr.length = std::max({attr.length, before.end, after.end});
  return CommittedAttr{.attr = attr, .behind = before.time || after.time};
}

Result<Entry> Vfs::Lookup(const Context& ctx, const Caller& caller, Ino parent,
                          std::string_view name, std::optional<Attr>* directory) {
  ASSIGN_OR_RETURN(Entry entry, state_->meta_.Lookup(ctx, caller, parent, name, directory));
  if (IsOpen(entry.ino)) {
    ASSIGN_OR_RETURN(entry.attr, GetAttr(ctx, entry.ino));
  }
  return entry;
}

bool Vfs::IsOpen(Ino ino) const { return state_->files_.FindFile(ino) != nullptr; }

bool Vfs::HasHandle(Ino ino) const { return state_->files_.HasHandle(ino); }

std::uint64_t Vfs::losses() const { return state_->losses_; }

bool Vfs::OpenForWriting() const {
  return std::ranges::any_of(state_->files_.Handles(),
                             [](const auto& open) { return open->flags.write; });
}

Result<Attr> Vfs::SetAttr(const Context& ctx, const Caller& caller, Ino ino,
                          const AttrChange& change) {
  const Context bounded = state_->Bounded(ctx);
  Attr attr;
  if (change.length) {
    RETURN_IF_ERROR(state_->Change(bounded, ino, [&]() -> Result<std::uint64_t> {
      ASSIGN_OR_RETURN(attr, state_->meta_.SetAttr(bounded, caller, ino, change));
      return attr.length;
    }));
    return attr;
  }
  const auto file = state_->files_.FindFile(ino);
  // Times set by the user must not be overtaken by the commit of an earlier write.
  if (file && change.mtime) RETURN_IF_ERROR(file->writer.Flush(bounded));
  const State::Uncommitted before(file.get());
  ASSIGN_OR_RETURN(attr, state_->meta_.SetAttr(bounded, caller, ino, change));
  // As in GetAttr: whoever is told a shorter length forgets the bytes behind it.
  before.AddTo(attr);
  State::Uncommitted(file.get()).AddTo(attr);
  return attr;
}

Result<Attr> Vfs::Fallocate(const Context& ctx, const Caller& caller, Ino ino, FallocateMode mode,
                            std::uint64_t offset, std::uint64_t length) {
  const Context bounded = state_->Bounded(ctx);
  Attr attr;
  RETURN_IF_ERROR(state_->Change(bounded, ino, [&]() -> Result<std::uint64_t> {
    ASSIGN_OR_RETURN(attr, state_->meta_.Fallocate(bounded, caller, ino, mode, offset, length));
    return attr.length;
  }));
  return attr;
}

Result<std::uint64_t> Vfs::CopyRange(const Context& ctx, Ino from, std::uint64_t from_offset,
                                     Ino to, std::uint64_t to_offset, std::uint64_t length) {
  const Context bounded = state_->Bounded(ctx);
  if (auto source = state_->files_.FindFile(from)) RETURN_IF_ERROR(source->writer.Flush(bounded));
  std::uint64_t copied = 0;
  RETURN_IF_ERROR(state_->Change(bounded, to, [&]() -> Result<std::uint64_t> {
    ASSIGN_OR_RETURN(copied,
                     state_->meta_.CopyRange(bounded, from, from_offset, to, to_offset, length));
    ASSIGN_OR_RETURN(const Attr attr, state_->meta_.GetAttr(bounded, to));
    return attr.length;
  }));
  return copied;
}

Result<Attr> Vfs::CutOpened(const Context& ctx, const Caller& caller, Ino ino, const Attr& attr) {
  AttrChange change;
  change.length = 0;  // also of an empty file: its times change
  // As a write does: who empties a program of another user does not inherit that user's rights.
  const auto group = static_cast<std::uint16_t>((attr.mode & 00010) != 0 ? 02000 : 0);
  const auto kept = static_cast<std::uint16_t>(attr.mode & ~(04000 | group));
  if (caller.uid != 0 && kept != attr.mode) change.mode = kept;
  Caller unchecked = caller;  // opening has checked what there is to check
  unchecked.check_permissions = false;
  auto cut = SetAttr(ctx, unchecked, ino, change);
  if (!cut) CloseUnused(ctx, ino);
  return cut;
}

void Vfs::CloseUnused(const Context& ctx, Ino ino) {
  if (auto closed = state_->meta_.Close(ctx, ino); !closed) {
    state_->log_.Warn(ctx, "handle of a failed open remains",
                      {{"error", closed.error().message()}});
  }
}

Result<OpenedFile> Vfs::Open(const Context& ctx, const Caller& caller, Ino ino, OpenFlags flags,
                             const AcceptFn& accept) {
  const Context bounded = state_->Bounded(ctx);
  // Retained before the volume is asked: from then on the writer knows better than an old answer.
  const auto file = state_->Retain(ino);
  auto attr = OpenRetained(bounded, caller, *file, flags, accept);
  if (attr) return state_->Register(file, *attr, flags);
  state_->Forget(*file);
  return std::unexpected(std::move(attr).error());
}

Result<Attr> Vfs::OpenRetained(const Context& ctx, const Caller& caller, FileState& file,
                               OpenFlags flags, const AcceptFn& accept) {
  const Ino ino = file.ino;
  // What this process wrote and has not committed must be seen by whoever opens the file now.
  RETURN_IF_ERROR(file.writer.Flush(ctx));
  const auto question = file.writer.Ask();
  const unsigned mask = (flags.read ? kMayRead : 0) | (flags.write ? kMayWrite : 0);
  ASSIGN_OR_RETURN(Attr attr, state_->meta_.Open(ctx, caller, ino, mask));
  if (attr.type != FileType::kFile) {
    auto closed = state_->meta_.Close(ctx, ino);
    return attr.type == FileType::kDirectory
               ? Fail(Code::kIsDirectory, "inode {} is a directory", ToInt(ino))
               : Fail(Code::kInvalid, "inode {} is not a regular file", ToInt(ino));
  }
  if (accept) {
    if (auto accepted = accept(attr); !accepted) {
      CloseUnused(ctx, ino);
      return std::unexpected(std::move(accepted).error());
    }
  }
  const bool learned = State::Learn(file, attr, question);
  if (flags.truncate && flags.write) return CutOpened(ctx, caller, ino, attr);
  if (learned) return attr;
  auto now = state_->AskAndLearn(ctx, file);
  if (!now) CloseUnused(ctx, ino);
  return now;
}

Result<OpenedFile> Vfs::Create(const Context& ctx, const Caller& caller, Ino parent,
                               std::string_view name, std::uint16_t mode, OpenFlags flags,
                               bool exclusive) {
  const Context bounded = state_->Bounded(ctx);
  ASSIGN_OR_RETURN(Entry entry,
                   state_->meta_.Create(bounded, caller, parent, name, mode, exclusive));
  const auto file = state_->Retain(entry.ino);
  State::LearnTimes(*file, entry.attr);
  if (!file->writer.LearnFirstLength(entry.attr.length)) {
    // Others have opened or changed it through this process, perhaps since it was made.
    if (auto now = state_->AskAndLearn(bounded, *file); !now) {
      state_->log_.Debug(bounded, "the length of a file is not known now",
                         {{"inode", ToInt(entry.ino)}, {"error", now.error().message()}});
    }
  }
  State::Uncommitted(file.get()).AddTo(entry.attr);
  if (flags.truncate && entry.attr.length > 0) {
    auto cut = CutOpened(bounded, caller, entry.ino, entry.attr);
    if (!cut) {
      state_->Forget(*file);
      return std::unexpected(std::move(cut).error());
    }
    entry.attr = *std::move(cut);
  }
  return state_->Register(file, entry.attr, flags);
}

Result<std::size_t> Vfs::Read(const Context& ctx, Handle handle, std::uint64_t offset,
                              std::span<std::byte> out) {
  const Context bounded = state_->Bounded(ctx);
  ASSIGN_OR_RETURN(const auto open, state_->Get(handle));
  if (!open->flags.read) return Fail(Code::kInvalid, "the file is not open for reading");
  // Before the flush: what is appended during it may not be in the volume afterwards.
  ASSIGN_OR_RETURN(const std::uint64_t length,
                   state_->LengthFor(bounded, *open->file, offset + out.size()));
  if (open->file->writer.Dirty()) RETURN_IF_ERROR(open->file->writer.Flush(bounded));
  if (offset >= length) return std::size_t{0};
  const std::size_t count = std::min<std::uint64_t>(out.size(), length - offset);
  RETURN_IF_ERROR(open->reader->Read(bounded, offset, out.first(count), length));
  return count;
}

Result<void> Vfs::Write(const Context& ctx, Handle handle, std::uint64_t offset,
                        std::span<const std::byte> data) {
  return WriteOrAppend(ctx, handle, offset, data);
}

Result<void> Vfs::Append(const Context& ctx, Handle handle, std::span<const std::byte> data) {
  return WriteOrAppend(ctx, handle, std::nullopt, data);
}

Result<void> Vfs::WriteOrAppend(const Context& ctx, Handle handle,
                                std::optional<std::uint64_t> offset,
                                std::span<const std::byte> data) {
  const Context bounded = state_->Bounded(ctx);
  ASSIGN_OR_RETURN(const auto open, state_->Get(handle));
  if (!open->flags.write) return Fail(Code::kInvalid, "the file is not open for writing");
  if (data.empty()) return {};
  FileWriter& writer = open->file->writer;
  auto written = offset && !open->flags.append ? writer.Write(bounded, *offset, data)
                                               : writer.Append(bounded, data);
  state_->flusher_.Wake();
  return written;
}

Result<void> Vfs::Flush(const Context& ctx, Handle handle) {
  ASSIGN_OR_RETURN(const auto open, state_->Get(handle));
  return state_->FlushHandle(state_->Bounded(ctx), *open, /*takes=*/true);
}

Result<void> Vfs::FlushOneClose(const Context& ctx, Handle handle) {
  ASSIGN_OR_RETURN(const auto open, state_->Get(handle));
  return state_->FlushHandle(state_->Bounded(ctx), *open, /*takes=*/false);
}

Result<void> Vfs::Release(const Context& ctx, Handle handle) {
  const Context bounded = state_->Bounded(ctx);
  const auto open = state_->files_.Remove(handle);
  if (!open)
    return Fail(Code::kInvalid, "handle {} is not open", static_cast<std::uint64_t>(handle));
  auto flushed = state_->FlushHandle(bounded, *open, /*takes=*/true);
  state_->Forget(*open->file);
  auto closed = state_->meta_.Close(bounded, open->file->ino);
  if (!flushed) return flushed;
  return closed;
}

Result<void> Vfs::FlushAll(const Context& ctx) {
  Result<void> first;
  const auto keep = [&](Result<void> result) {
    if (!result && first) first = std::move(result);
  };
  // All uploads are on their way before the first is waited for, and few that are stuck do not hold
  // up the commits of the others.
  std::vector<std::shared_ptr<FileState>> files = state_->files_.Files();
  std::erase_if(files, [](const auto& file) { return !file->writer.Dirty(); });
  for (const auto& file : files) file->writer.StartUploads(ctx);
  std::vector<Result<void>> flushed(files.size());
  std::atomic<std::size_t> next = 0;
  const auto flush = [&] {
    for (std::size_t at = next++; at < files.size(); at = next++)
      flushed[at] = files[at]->writer.Flush(ctx);
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 1; i < std::min(files.size(), kFlushThreads); ++i)
        threads.emplace_back(flush);
    } catch (const std::system_error& error) {
      state_->log_.Debug(ctx, "files are flushed by fewer threads", {{"error", error.what()}});
    }
    flush();
  }
  for (auto& result : flushed) keep(std::move(result));
  // Also what was lost before and nobody asked for yet.
  for (const auto& open : state_->files_.Handles()) {
    if (open->flags.write) keep(open->file->writer.TakeLossSince(open->losses_seen));
  }
  return first;
}

}  // namespace paddleop::volume
