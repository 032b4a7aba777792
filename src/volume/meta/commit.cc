#include <algorithm>
#include <map>
#include <set>

#include "volume/format/trash.h"
#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

Result<void> ValidateFile(const NewFile& file) {
  RETURN_IF_ERROR(CheckNewName(file.parent, file.name));
  if (IsTrash(file.parent)) return Fail(Code::kNotFound, "nothing is made in the trash");
  if (file.type == FileType::kSymlink) {
    if (file.symlink_target.empty() || file.symlink_target.size() > kMaxSymlink) {
      return Fail(Code::kInvalid, "'{}': target of {} bytes: 1 to {}", file.name,
                  file.symlink_target.size(), kMaxSymlink);
    }
    return {};
  }
  if (file.type != FileType::kFile) {
    return Fail(Code::kInvalid, "'{}': only files and symbolic links are committed", file.name);
  }
  if (file.length > kMaxFileSize) {
    return Fail(Code::kInvalid, "'{}': {} bytes: at most {}", file.name, file.length, kMaxFileSize);
  }
  for (const ChunkSlices& chunk : file.chunks) {
    for (const Slice& slice : chunk.slices) {
      const std::uint64_t end = std::uint64_t{chunk.index} * kChunkSize + slice.pos + slice.len;
      const bool in_slice = slice.id == 0 || (slice.size <= kMaxSliceSize &&
                                              std::uint64_t{slice.off} + slice.len <= slice.size);
      if (!in_slice || std::uint64_t{slice.pos} + slice.len > kChunkSize || end > file.length) {
        return Fail(Code::kInvalid, "'{}': slice {} leaves its bounds", file.name, slice.id);
      }
    }
  }
  return {};
}

Attr ToAttr(const NewFile& file, const Timestamp& now) {
  Attr attr;
  attr.type = file.type;
  attr.mode = file.type == FileType::kSymlink ? 0777 : file.mode & 07777;
  attr.uid = file.uid;
  attr.gid = file.gid;
  attr.nlink = 1;
  attr.length = file.type == FileType::kSymlink ? file.symlink_target.size() : file.length;
  attr.atime = file.atime;
  attr.mtime = file.mtime;
  attr.ctime = now;
  attr.parent = file.parent;
  return attr;
}

// Where the next batch ends: at least `size` files, and never between two that share a slice. Files
// without data may lie between those.
std::size_t EndOfBatch(std::span<const NewFile> files, std::size_t begin, std::size_t size) {
  std::set<std::uint64_t> slices;
  const auto shares = [&](std::size_t next) {
    while (next < files.size() && files[next].chunks.empty()) ++next;
    if (next == files.size()) return false;
    for (const ChunkSlices& chunk : files[next].chunks) {
      for (const Slice& slice : chunk.slices) {
        if (slices.contains(slice.id)) return true;
      }
    }
    return false;
  };
  std::size_t end = begin;
  while (end < files.size() && (end - begin < size || shares(end))) {
    for (const ChunkSlices& chunk : files[end].chunks) {
      for (const Slice& slice : chunk.slices) {
        if (slice.id != 0) slices.insert(slice.id);
      }
    }
    ++end;
  }
  return end;
}

}  // namespace

std::vector<Result<Ino>> EngineMetaStore::CommitFiles(const Context& ctx,
                                                      std::span<const NewFile> files,
                                                      const CommitOptions& options) {
  std::vector<Result<Ino>> answers(files.size(), Result<Ino>(kNoIno));
  std::size_t begin = 0;
  while (begin < files.size()) {
    const std::size_t end = EndOfBatch(files, begin, engine_->BatchSize());
    auto done = CommitBatch(ctx, files.subspan(begin, end - begin), options,
                            std::span(answers).subspan(begin, end - begin));
    if (!done) {
      for (std::size_t i = begin; i < files.size(); ++i) answers[i] = std::unexpected(done.error());
      return answers;
    }
    begin = end;
  }
  return answers;
}

Result<void> EngineMetaStore::CommitBatch(const Context& ctx, std::span<const NewFile> files,
                                          const CommitOptions& options,
                                          std::span<Result<Ino>> answers) {
  RETURN_IF_ERROR(CheckWritable());
  ASSIGN_OR_RETURN(const Ino first, NewInodes(ctx, files.size()));
  const std::set<SliceKey> known(options.existing_slices.begin(), options.existing_slices.end());
  const auto body = [&](MetaTxn& txn, Changes& changes, Ino trash) -> Result<void> {
    const Timestamp now = Now();
    std::map<Ino, std::optional<Attr>> dirs;
    std::vector<std::optional<Edge>> edges(files.size());
    ReadSet names;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto [dir, added] = dirs.try_emplace(files[i].parent);
      if (added) names.Attr(files[i].parent, &dir->second);
      names.Edge(files[i].parent, files[i].name, &edges[i]);
    }
    std::optional<Attr> trash_attr;
    if (trash != kNoIno) names.Attr(trash, &trash_attr);
    RETURN_IF_ERROR(txn.Read(names));

    std::vector<Removal> replaced(files.size());
    std::vector<std::optional<Edge>> twins(files.size());
    std::vector<std::string> trash_names(files.size());
    ReadSet details;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (!edges[i] || !options.replace) continue;
      replaced[i] = {.parent = files[i].parent,
                     .name = files[i].name,
                     .edge = *edges[i],
                     .attr = {},
                     .trash = trash};
      details.Attr(edges[i]->ino, &replaced[i].attr);
      if (trash == kNoIno) continue;
      trash_names[i] = TrashEntryName(files[i].parent, edges[i]->ino, files[i].name);
      details.Edge(trash, trash_names[i], &twins[i]);
    }
    if (!details.empty()) {
      RETURN_IF_ERROR(txn.Read(details));
      RETURN_IF_ERROR(CheckTrashDirectory(trash, trash_attr));
    }

    std::set<std::pair<Ino, std::string_view>> seen;
    std::set<Ino> replaced_inodes;
    std::set<Ino> touched;
    std::map<SliceKey, std::int64_t> references;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const NewFile& file = files[i];
      const auto admit = [&]() -> Result<void> {
        RETURN_IF_ERROR(ValidateFile(file));
        const std::optional<Attr>& dir = dirs.at(file.parent);
        if (!dir) return NoInode(file.parent);
        if (dir->type != FileType::kDirectory) {
          return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(file.parent));
        }
        if (IsTrash(dir->parent)) return Fail(Code::kNotFound, "the directory is in the trash");
        if ((dir->flags & kFlagImmutable) != 0) {
          return Fail(Code::kPermission, "the directory is immutable");
        }
        if (seen.contains({file.parent, file.name}) || (edges[i] && !options.replace)) {
          return Fail(Code::kAlreadyExists, "'{}' exists in directory {}", file.name,
                      ToInt(file.parent));
        }
        if (edges[i] && edges[i]->type == FileType::kDirectory) {
          return Fail(Code::kIsDirectory, "'{}' is a directory", file.name);
        }
        if (replaced[i].attr && (replaced[i].attr->flags & (kFlagImmutable | kFlagAppend)) != 0) {
          return Fail(Code::kPermission, "'{}' is immutable or append-only", file.name);
        }
        // Two names of one file, both replaced at once: their counts would be written over each
        // other.
        if (edges[i] && replaced_inodes.contains(edges[i]->ino)) {
          return Fail(Code::kConflict,
                      "'{}' shares its inode with another replaced file: try again", file.name);
        }
        const auto space = static_cast<std::int64_t>(
            file.type == FileType::kFile ? ChargedSpace(file.length) : 4096);
        return CheckRoom(ctx, file.parent, changes.usage.space + space, changes.usage.inodes + 1);
      };
      if (auto admitted = admit(); !admitted) {
        answers[i] = std::unexpected(std::move(admitted).error());
        continue;
      }
      seen.insert({file.parent, file.name});
      if (edges[i]) {
        replaced[i].in_trash_already = twins[i].has_value();
        replaced_inodes.insert(edges[i]->ino);
        RETURN_IF_ERROR(RemoveFile(ctx, txn, changes, replaced[i], now, /*keep_edge=*/true));
      }
      const Ino ino{ToInt(first) + i};
      const Attr attr = ToAttr(file, now);
      txn.InsertNode(ino, attr);
      txn.PutEdge(file.parent, file.name, {.ino = ino, .type = file.type});
      if (file.type == FileType::kSymlink) txn.PutSymlink(ino, file.symlink_target);
      for (const ChunkSlices& chunk : file.chunks) {
        if (chunk.slices.empty()) continue;
        txn.AppendSlices(ino, chunk.index, chunk.slices);
        for (const Slice& slice : chunk.slices) {
          if (slice.id != 0) ++references[{.id = slice.id, .size = slice.size}];
        }
      }
      changes.usage.space += static_cast<std::int64_t>(ChargedSpace(attr));
      changes.usage.inodes += 1;
      RETURN_IF_ERROR(Account(ctx, changes, file.parent, UsageOf(attr)));
      touched.insert(file.parent);
      answers[i] = ino;
    }
    for (const auto& [slice, count] : references) {
      if (known.contains(slice)) {
        txn.RetainSlice(slice, count);
      } else {
        txn.NewSlice(slice, count);
      }
    }
    for (const Ino dir : touched) {
      Attr& attr = *dirs.at(dir);
      if (TouchDirectory(attr, now)) txn.UpdateNode(dir, attr);
    }
    return {};
  };
  return RunWithTrash(ctx, kRootIno, /*skip_trash=*/!options.replace || files.empty(), body);
}

}  // namespace paddleop::volume
