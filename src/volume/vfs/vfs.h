#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/log.h"
#include "volume/chunk/block_store.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {

struct FileState;

enum class Handle : std::uint64_t {};

struct OpenFlags {
  bool read = true;
  bool write = false;
  bool append = false;
  bool truncate = false;
};

struct OpenedFile {
  Handle handle{};
  Entry entry;
};

struct VfsOptions {
  std::uint64_t max_readahead = 32ULL << 20;  // per handle
  // For all handles together: how many bytes may be fetched ahead at the moment without pushing
  // each other out of the caches before they are read. Empty: any number.
  std::function<std::uint64_t()> ahead_limit = {};
  // Written data is committed when a file is closed or synced, and in the background when it has
  // been left alone for `flush_idle` or waits for `flush_age`.
  std::chrono::milliseconds flush_idle{1'000};
  std::chrono::milliseconds flush_age{5'000};
  // How long a read or write may take, retries included, when the caller set no deadline.
  std::chrono::milliseconds io_timeout{300'000};
};

// Files of a volume as programs see them: handles, reading and writing at offsets.
//
// Consistency is close-to-open: what was written before a file was closed (or synced) is seen by
// whoever opens it afterwards, in this process or another. Within one Vfs a read also sees earlier
// writes through other handles.
//
// Operations on names that need none of this (mkdir, rename, xattr, ...) are the MetaStore's:
// meta().
//
// Thread-safe. A handle stays valid until Release; the same handle may be used by several threads.
class Vfs {
 public:
  // All three outlive this object.
  Vfs(MetaStore& meta, BlockStore& blocks, const Logger& log, VfsOptions options = {});
  // Flushes what is still dirty, as well as it can; call Flush or Release to learn of errors.
  ~Vfs();

  MetaStore& meta();

  // With the length, and the times, of what this process has written but not yet committed.
  Result<Attr> GetAttr(const Context& ctx, Ino ino);
  // The same, but with the times that the volume has.
  struct CommittedAttr {
    Attr attr;
    bool behind = false;  // the times of what was written since are missing
  };
  Result<CommittedAttr> GetCommittedAttr(const Context& ctx, Ino ino);
  // `directory` as MetaStore::Lookup has it.
  Result<Entry> Lookup(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                       std::optional<Attr>* directory = nullptr);
  // True while a handle of this process is open on the file, or is on its way: what the volume says
  // of its length may be behind.
  bool IsOpen(Ino ino) const;
  // True while somebody has a handle on the file.
  bool HasHandle(Ino ino) const;
  // How many writes, in slices, could not be stored and are lost. Who keeps what was written for
  // later must not believe it any more when they become more.
  std::uint64_t losses() const;
  // True while any handle for writing is open.
  bool OpenForWriting() const;
  // A change of length first commits what was written before it. The answer has the length and the
  // times that GetAttr would tell.
  Result<Attr> SetAttr(const Context& ctx, const Caller& caller, Ino ino, const AttrChange& change);
  Result<Attr> Fallocate(const Context& ctx, const Caller& caller, Ino ino, FallocateMode mode,
                         std::uint64_t offset, std::uint64_t length);
  Result<std::uint64_t> CopyRange(const Context& ctx, Ino from, std::uint64_t from_offset, Ino to,
                                  std::uint64_t to_offset, std::uint64_t length);

  // `accept` may refuse what the volume says of the file, before it is cut.
  using AcceptFn = std::function<Result<void>(const Attr& attr)>;
  Result<OpenedFile> Open(const Context& ctx, const Caller& caller, Ino ino, OpenFlags flags,
                          const AcceptFn& accept = {});
  // Makes the file, or opens it if it is there and `exclusive` is false.
  Result<OpenedFile> Create(const Context& ctx, const Caller& caller, Ino parent,
                            std::string_view name, std::uint16_t mode, OpenFlags flags,
                            bool exclusive);

  // How many bytes were read: fewer than asked for only at the end of the file. kCorrupt if data
  // that should be there is not.
  Result<std::size_t> Read(const Context& ctx, Handle handle, std::uint64_t offset,
                           std::span<std::byte> out);
  // All of it or an error. With `append` the offset is ignored.
  Result<void> Write(const Context& ctx, Handle handle, std::uint64_t offset,
                     std::span<const std::byte> data);
  // At the end of the file, wherever that is when it is this write's turn.
  Result<void> Append(const Context& ctx, Handle handle, std::span<const std::byte> data);
  // Everything written to the file so far, through any handle, is in the volume when it returns.
  // A handle for writing is told, once, of everything that was lost since it was opened, also if
  // another one or the background noticed.
  Result<void> Flush(const Context& ctx, Handle handle);
  // The same for the close of one of perhaps several descriptors that share the handle: a loss is
  // told to each of them, since nobody knows which of them asks what became of its data.
  Result<void> FlushOneClose(const Context& ctx, Handle handle);
  // Flushes and ends the handle, also when flushing fails.
  Result<void> Release(const Context& ctx, Handle handle);
  // Flushes every file.
  Result<void> FlushAll(const Context& ctx);

 private:
  Result<void> WriteOrAppend(const Context& ctx, Handle handle, std::optional<std::uint64_t> offset,
                             std::span<const std::byte> data);
  Result<Attr> OpenRetained(const Context& ctx, const Caller& caller, FileState& file,
                            OpenFlags flags, const AcceptFn& accept);
  // Empties a file that was just opened for it; closes it if that fails.
  Result<Attr> CutOpened(const Context& ctx, const Caller& caller, Ino ino, const Attr& attr);
  // What the volume has opened and nobody will use.
  void CloseUnused(const Context& ctx, Ino ino);

  class State;
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::volume
