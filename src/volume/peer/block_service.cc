// The HTTP side of BlockNode: block_wire.h says what is asked and answered.
#include <charconv>

#include "base/bytes.h"
#include "volume/peer/block_node.h"

namespace paddleop::volume {
namespace {

using net::ServerRequest;
using net::ServerResponse;

ServerResponse Error(const Status& error) {
  return ServerResponse::Json(runtime::HttpStatusOf(error.code()), runtime::ErrorBody(error));
}

ServerResponse NotAllowed() {
  return ServerResponse::Json(
      405, runtime::ErrorBody(Status(Code::kInvalid, "method not allowed here")));
}

ServerResponse Bytes(std::string body) {
  ServerResponse response{.status = 200, .body = std::move(body)};
  response.headers.Set("Content-Type", "application/octet-stream");
  return response;
}

Result<std::uint32_t> Number(const ServerRequest& request, const char* name) {
  const std::string text = request.Query(name).value_or("");
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return Fail(Code::kInvalid, "query parameter {} is \"{}\"; it must be a number", name, text);
  }
  return value;
}

}  // namespace

std::optional<ServerResponse> BlockNode::Serve(const Context& ctx, const ServerRequest& request,
                                               bool local) {
  if (!request.path.starts_with(kBlocksPath)) return std::nullopt;
  if (request.path == kCheckPath && !local) {
    return request.method == "POST" ? ServeCheck(ctx, request) : NotAllowed();
  }
  if (request.path == kDropPath && !local) {
    if (request.method != "POST") return NotAllowed();
    auto wishes = DecodeWishes(request.body, kMaxChecked);
    if (!wishes) return Error(wishes.error());
    std::vector<BlockId> blocks;
    blocks.reserve(wishes->size());
    for (const BlockWish& wish : *wishes) blocks.push_back(wish.block);
    auto dropped = Drop(ctx, blocks);
    return dropped ? ServerResponse::Json(200, "{}") : Error(dropped.error());
  }
  if (request.path == kUnpinPath && !local) {
    if (request.method != "POST") return NotAllowed();
    const std::string prefix = request.Query("prefix").value_or("");
    if (prefix.empty()) return Error(Status(Code::kInvalid, "query parameter prefix is missing"));
    auto unpinned = Unpin(ctx, prefix, request.Query("keep").value_or(""));
    return unpinned ? ServerResponse::Json(200, "{}") : Error(unpinned.error());
  }
  auto block = ParseBlockKey(std::string_view(request.path).substr(kBlocksPath.size()));
  if (!block) return Error(block.error());
  if (block->length == 0 || block->length > layout_.block_size) {
    return Error(Status(Code::kInvalid, "no block of the volume has this length"));
  }
  if (request.method == "GET") return ServeRead(ctx, request, *block, local);
  if (request.method == "PUT" && !local) return ServeTake(ctx, request, *block);
  return NotAllowed();
}

ServerResponse BlockNode::ServeRead(const Context& ctx, const ServerRequest& request,
                                    const BlockId& block, bool local) {
  auto offset = Number(request, "offset");
  if (!offset) return Error(offset.error());
  auto size = Number(request, "size");
  if (!size) return Error(size.error());
  if (*size == 0 || *size > block.length || *offset > block.length - *size) {
    return Error(Status(Code::kInvalid, "offset and size lie outside the block"));
  }
  std::string body(*size, '\0');
  const std::span<std::byte> out = std::as_writable_bytes(std::span(body));
  Result<BlockFrom> from = BlockFrom::kCache;
  if (local || request.Query("find")) {
    from = Find(ctx, block, *offset, out, !local);
  } else if (!cache_.Read(ctx, block, *offset, out)) {
    return Error(Status(Code::kNotFound, "not in this cache"));
  }
  if (!from) return Error(from.error());
  if (local) {
    Counters& counters = Of(*from);
    ++counters.reads;
    counters.bytes += *size;
    counters.metric_reads->Increment();
    counters.metric_bytes->Increment(*size);
  } else {
    given_.Increment(*size);
  }
  ServerResponse response = Bytes(std::move(body));
  response.headers.Set(std::string(kBlockFromHeader), std::string(BlockFromName(*from)));
  return response;
}

ServerResponse BlockNode::ServeTake(const Context& ctx, const ServerRequest& request,
                                    const BlockId& block) {
  auto gift = DecodeGift(request.body);
  if (!gift) return Error(gift.error());
  if (gift->wish.block != block) {
    return Error(Status(Code::kInvalid, "the body is of another block than the path"));
  }
  auto taken = Take(ctx, gift->wish, AsBytes(gift->content), request.Query("plan").value_or(""));
  return taken ? ServerResponse::Json(200, "{}") : Error(taken.error());
}

ServerResponse BlockNode::ServeCheck(const Context& ctx, const ServerRequest& request) {
  auto wishes = DecodeWishes(request.body, kMaxChecked);
  if (!wishes) return Error(wishes.error());
  auto haves =
      Check(ctx, *wishes, request.Query("plan").value_or(""), request.Query("tight").has_value());
  if (!haves) return Error(haves.error());
  return Bytes(EncodeHaves(*haves));
}

}  // namespace paddleop::volume
