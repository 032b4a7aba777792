#include <algorithm>
#include <map>

#include "volume/format/chunk_view.h"
#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

// Pieces of the source's view that lie in [begin, end) of the file, moved by `shift` and cut at the
// target's chunks.
void Translate(const Slice& piece, std::uint64_t piece_at, std::uint64_t begin, std::uint64_t end,
               std::int64_t shift, std::map<std::uint32_t, std::vector<Slice>>& out) {
  const std::uint64_t from = std::max(piece_at, begin);
  const std::uint64_t to = std::min(piece_at + piece.len, end);
  if (from >= to) return;
  const auto skipped = static_cast<std::uint32_t>(from - piece_at);
  std::uint32_t done = 0;
  ForEachChunk(static_cast<std::uint64_t>(static_cast<std::int64_t>(from) + shift), to - from,
               [&](std::uint32_t index, std::uint32_t pos, std::uint32_t len) {
                 Slice slice = piece;
                 slice.pos = pos;
                 slice.len = len;
                 slice.off = piece.id == 0 ? 0 : piece.off + skipped + done;
                 out[index].push_back(slice);
                 done += len;
               });
}

}  // namespace

Result<std::uint64_t> EngineMetaStore::CopyRange(const Context& ctx, Ino from,
                                                 std::uint64_t from_offset, Ino to,
                                                 std::uint64_t to_offset, std::uint64_t length) {
  if (from == to && from_offset < to_offset + length && to_offset < from_offset + length) {
    return Fail(Code::kInvalid, "source and target overlap");
  }
  if (to_offset > kMaxFileSize || length > kMaxFileSize - to_offset) {
    return Fail(Code::kInvalid, "range ends beyond the largest file of {} bytes", kMaxFileSize);
  }
  std::uint64_t copied = 0;
  RETURN_IF_ERROR(Run(ctx, [&](MetaTxn& txn, Changes& changes) -> Result<void> {
    copied = 0;
    std::optional<Attr> source;
    std::optional<Attr> target;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(from, &source).Attr(to, &target)));
    if (!source) return NoInode(from);
    if (!target) return NoInode(to);
    if (source->type != FileType::kFile || target->type != FileType::kFile) {
      return Fail(Code::kInvalid, "only regular files are copied");
    }
    if ((target->flags & (kFlagImmutable | kFlagAppend)) != 0) {
      return Fail(Code::kPermission, "the target is immutable or append-only");
    }
    if (from_offset >= source->length || length == 0) return {};
    const std::uint64_t size = std::min(length, source->length - from_offset);
    const std::uint64_t end = from_offset + size;

    // The chunks of the source are read under protection: a compaction meanwhile starts this anew.
    const auto first = static_cast<std::uint32_t>(from_offset / kChunkSize);
    const auto last = static_cast<std::uint32_t>((end - 1) / kChunkSize);
    std::vector<std::optional<std::vector<Slice>>> chunks(last - first + 1);
    ReadSet reads;
    for (std::uint32_t index = first; index <= last; ++index) {
      reads.Chunk(from, index, &chunks[index - first]);
    }
    RETURN_IF_ERROR(txn.Read(reads));
    std::map<std::uint32_t, std::vector<Slice>> appended;
    const std::int64_t shift =
        static_cast<std::int64_t>(to_offset) - static_cast<std::int64_t>(from_offset);
    for (std::uint32_t index = first; index <= last; ++index) {
      const std::vector<Slice> records = chunks[index - first].value_or(std::vector<Slice>());
      const std::uint64_t base = std::uint64_t{index} * kChunkSize;
      for (const Slice& piece : BuildChunkView(records, static_cast<std::uint32_t>(kChunkSize))) {
        Translate(piece, base + piece.pos, from_offset, end, shift, appended);
      }
    }

    const DirUsage before = UsageOf(*target);
    target->length = std::max(target->length, to_offset + size);
    DirUsage delta = UsageOf(*target);
    delta += -before;
    RETURN_IF_ERROR(AccountFile(ctx, txn, changes, to, *target, delta));
    changes.usage.space = delta.space;
    std::map<SliceKey, std::int64_t> references;
    for (const auto& [index, slices] : appended) {
      for (const Slice& slice : slices) {
        if (slice.id != 0) ++references[{.id = slice.id, .size = slice.size}];
      }
    }
    for (const auto& [slice, count] : references) txn.RetainSlice(slice, count);
    for (const auto& [index, slices] : appended) txn.AppendSlices(to, index, slices);
    target->mtime = target->ctime = Now();
    txn.UpdateNode(to, *target);
    copied = size;
    return {};
  }));
  return copied;
}

}  // namespace paddleop::volume
