// Binary forms of attributes, directory entries and slice records, as Redis keeps them (SQL keeps
// slice records in the same form). docs: JuiceFS "Internals", sections on metadata structures.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "volume/format/types.h"

namespace paddleop::volume {

// 72 bytes for a plain attribute, 73 with a tier, 80 with ACL ids, 81 with both; longer if it has a
// tail.
std::string EncodeAttr(const Attr& attr);
// Accepts 63 bytes (volumes without parents) and more. kCorrupt names what is wrong.
Result<Attr> DecodeAttr(std::string_view bytes);

// 9 bytes: type, inode.
std::string EncodeEdge(const Edge& edge);
Result<Edge> DecodeEdge(std::string_view bytes);

inline constexpr std::size_t kSliceRecordSize = 24;

void AppendSliceRecord(std::string& out, const Slice& slice);
std::string EncodeSlices(std::span<const Slice> slices);
// Any whole number of records. kCorrupt if the size is not one, or a record leaves its chunk or
// slice.
Result<std::vector<Slice>> DecodeSlices(std::string_view bytes);

// Values of the Redis hash delSlices: 12 bytes each.
std::string EncodeSliceKeys(std::span<const SliceKey> slices);
Result<std::vector<SliceKey>> DecodeSliceKeys(std::string_view bytes);

}  // namespace paddleop::volume
