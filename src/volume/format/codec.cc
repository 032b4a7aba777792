#include "volume/format/codec.h"

#include "base/bytes.h"

namespace paddleop::volume {
namespace {

constexpr std::size_t kAttrWithoutParent = 63;
constexpr std::size_t kAclPair = 8;

void PutTime(ByteWriter& out, const Timestamp& time) {
  out.U64(static_cast<std::uint64_t>(time.seconds));
  out.U32(time.nanos);
}

Timestamp TakeTime(ByteReader& in) {
  Timestamp time;
  time.seconds = static_cast<std::int64_t>(in.U64());
  time.nanos = in.U32();
  return time;
}

bool FitsChunk(const Slice& slice) {
  if (std::uint64_t{slice.pos} + slice.len > kChunkSize) return false;
  return slice.id == 0 || std::uint64_t{slice.off} + slice.len <= slice.size;
}

}  // namespace

std::string EncodeAttr(const Attr& attr) {
  std::string bytes;
  bytes.reserve(81 + attr.tail.size());
  ByteWriter out(bytes);
  out.U8(attr.flags);
  out.U16(
      static_cast<std::uint16_t>((static_cast<unsigned>(attr.type) << 12) | (attr.mode & 0xFFFU)));
  out.U32(attr.uid);
  out.U32(attr.gid);
  PutTime(out, attr.atime);
  PutTime(out, attr.mtime);
  PutTime(out, attr.ctime);
  out.U32(attr.nlink);
  out.U64(attr.length);
  out.U32(attr.rdev);
  out.U64(ToInt(attr.parent));
  // A tail is only unambiguous behind the full set of optional fields.
  if (attr.access_acl != 0 || attr.default_acl != 0 || !attr.tail.empty()) {
    out.U32(attr.access_acl);
    out.U32(attr.default_acl);
  }
  if (attr.tier != 0 || !attr.tail.empty()) out.U8(attr.tier);
  if (attr.tail.empty()) {
    out.U8(0);
  } else {
    out.Bytes(attr.tail);
  }
  return bytes;
}

Result<Attr> DecodeAttr(std::string_view bytes) {
  if (bytes.size() < kAttrWithoutParent) {
    return Fail(Code::kCorrupt, "attribute of {} bytes: at least {} are needed", bytes.size(),
                kAttrWithoutParent);
  }
  ByteReader in(bytes);
  Attr attr;
  attr.flags = in.U8();
  const std::uint16_t type_and_mode = in.U16();
  const auto type = static_cast<std::uint8_t>(type_and_mode >> 12);
  if (!IsValidType(type)) return Fail(Code::kCorrupt, "attribute has unknown file type {}", type);
  attr.type = static_cast<FileType>(type);
  attr.mode = type_and_mode & 0xFFFU;
  attr.uid = in.U32();
  attr.gid = in.U32();
  attr.atime = TakeTime(in);
  attr.mtime = TakeTime(in);
  attr.ctime = TakeTime(in);
  attr.nlink = in.U32();
  attr.length = in.U64();
  attr.rdev = in.U32();
  if (in.left() >= 8) attr.parent = Ino{in.U64()};
  if (in.left() >= kAclPair) {
    attr.access_acl = in.U32();
    attr.default_acl = in.U32();
  }
  if (in.left() >= 1) attr.tier = in.U8();
  const std::string_view rest = in.Bytes(in.left());
  // A single zero is the pad byte that every writer adds.
  if (rest != std::string_view("\0", 1)) attr.tail = rest;
  return attr;
}

std::string EncodeEdge(const Edge& edge) {
  std::string bytes;
  ByteWriter out(bytes);
  out.U8(static_cast<std::uint8_t>(edge.type));
  out.U64(ToInt(edge.ino));
  return bytes;
}

Result<Edge> DecodeEdge(std::string_view bytes) {
  if (bytes.size() != 9) {
    return Fail(Code::kCorrupt, "directory entry of {} bytes instead of 9", bytes.size());
  }
  ByteReader in(bytes);
  const std::uint8_t type = in.U8();
  if (!IsValidType(type)) return Fail(Code::kCorrupt, "directory entry of unknown type {}", type);
  return Edge{.ino = Ino{in.U64()}, .type = static_cast<FileType>(type)};
}

void AppendSliceRecord(std::string& out, const Slice& slice) {
  ByteWriter writer(out);
  writer.U32(slice.pos);
  writer.U64(slice.id);
  writer.U32(slice.size);
  writer.U32(slice.off);
  writer.U32(slice.len);
}

std::string EncodeSlices(std::span<const Slice> slices) {
  std::string out;
  out.reserve(slices.size() * kSliceRecordSize);
  for (const Slice& slice : slices) AppendSliceRecord(out, slice);
  return out;
}

Result<std::vector<Slice>> DecodeSlices(std::string_view bytes) {
  if (bytes.size() % kSliceRecordSize != 0) {
    return Fail(Code::kCorrupt, "slice records of {} bytes: not a multiple of {}", bytes.size(),
                kSliceRecordSize);
  }
  std::vector<Slice> slices;
  slices.reserve(bytes.size() / kSliceRecordSize);
  ByteReader in(bytes);
  while (in.left() > 0) {
    Slice slice;
    slice.pos = in.U32();
    slice.id = in.U64();
    slice.size = in.U32();
    slice.off = in.U32();
    slice.len = in.U32();
    if (!FitsChunk(slice)) {
      return Fail(Code::kCorrupt, "slice {} of {} bytes: [{}, +{}) at {} leaves its bounds",
                  slice.id, slice.size, slice.off, slice.len, slice.pos);
    }
    slices.push_back(slice);
  }
  return slices;
}

std::string EncodeSliceKeys(std::span<const SliceKey> slices) {
  std::string bytes;
  ByteWriter out(bytes);
  for (const SliceKey& slice : slices) {
    out.U64(slice.id);
    out.U32(slice.size);
  }
  return bytes;
}

Result<std::vector<SliceKey>> DecodeSliceKeys(std::string_view bytes) {
  if (bytes.size() % 12 != 0) {
    return Fail(Code::kCorrupt, "slice list of {} bytes: not a multiple of 12", bytes.size());
  }
  std::vector<SliceKey> slices;
  ByteReader in(bytes);
  while (in.left() > 0) {
    const std::uint64_t id = in.U64();
    slices.push_back({.id = id, .size = in.U32()});
  }
  return slices;
}

}  // namespace paddleop::volume
