#include "volume/meta/redis/redis_reads.h"

#include <algorithm>
#include <charconv>

#include "redis/error.h"
#include "volume/format/codec.h"

namespace paddleop::volume {
namespace {

using redis::Reply;
using Kind = ReadSet::Kind;

template <class T>
T& Target(const ReadSet::Request& request) {
  return *static_cast<T*>(request.target);
}

bool IsWide(const ReadSet::Request& request) {
  return request.last >= request.first && request.last - request.first >= kWideRange;
}

// How many replies the request has.
std::size_t ReplyCount(const ReadSet::Request& request) {
  if (request.kind != Kind::kChunkIndexes) return 1;
  return request.last < request.first ? 0 : std::size_t{request.last} - request.first + 1;
}

Result<void> AnswerParents(const ReadSet::Request& request, const Reply& reply) {
  auto& out = Target<std::vector<ParentCount>>(request);
  out.clear();
  const auto pairs = reply.elements();
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    ASSIGN_OR_RETURN(const std::uint64_t parent, ParseUnsigned(pairs[i].text()));
    ASSIGN_OR_RETURN(const std::int64_t count, pairs[i + 1].ToInteger());
    if (count > 0) out.push_back({.parent = Ino{parent}, .count = count});
  }
  return {};
}

Result<void> AnswerOther(const ReadSet::Request& request, std::span<const Reply> replies) {
  switch (request.kind) {
    case Kind::kHasChildren: {
      ASSIGN_OR_RETURN(const std::int64_t count, replies[0].ToInteger());
      Target<bool>(request) = count > 0;
      return {};
    }
    case Kind::kChunk: {
      auto& out = Target<std::optional<std::vector<Slice>>>(request);
      out.reset();
      ASSIGN_OR_RETURN(auto slices, DecodeChunkReply(request.ino, request.first, replies[0]));
      if (!slices.empty()) out = std::move(slices);
      return {};
    }
    case Kind::kChunkIndexes: {
      auto& out = Target<std::vector<std::uint32_t>>(request);
      out.clear();
      for (std::size_t i = 0; i < replies.size(); ++i) {
        ASSIGN_OR_RETURN(const std::int64_t exists, replies[i].ToInteger());
        if (exists > 0) out.push_back(request.first + static_cast<std::uint32_t>(i));
      }
      return {};
    }
    case Kind::kXattr: {
      auto& out = Target<std::optional<std::string>>(request);
      out.reset();
      if (!replies[0].is_nil()) out = std::string(replies[0].text());
      return {};
    }
    case Kind::kParents:
      return AnswerParents(request, replies[0]);
    case Kind::kAttr:
    case Kind::kEdge:
      break;
  }
  return Fail(Code::kInternal, "unknown read");
}

Result<void> AnswerEdge(const ReadSet::Request& request, const Reply& reply) {
  auto& out = Target<std::optional<Edge>>(request);
  out.reset();
  if (reply.is_nil()) return {};
  auto edge = DecodeEdge(reply.text());
  if (!edge) {
    return std::unexpected(std::move(edge).error().Wrap(
        fmt::format("'{}' in directory {}", request.name, ToInt(request.ino))));
  }
  out = *edge;
  return {};
}

Result<std::span<const Reply>> ArrayOf(const Reply& reply, std::size_t size) {
  if (reply.elements().size() != size) {
    return Fail(Code::kCorrupt, "redis answered {} values instead of {}", reply.elements().size(),
                size);
  }
  return reply.elements();
}

}  // namespace

Status AsDamage(Status status) {
  if (status.code() != Code::kInvalid) return status;
  return Status(Code::kCorrupt, status.message());
}

Status StatusOfReply(std::string_view address, const Reply& reply) {
  return AsDamage(redis::StatusOfError(address, reply.text()));
}

Result<void> CheckReplies(std::string_view address, std::span<const Reply> replies) {
  for (const Reply& reply : replies) {
    if (reply.is_error()) return std::unexpected(StatusOfReply(address, reply));
  }
  return {};
}

Result<std::uint64_t> ParseUnsigned(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Fail(Code::kCorrupt, "'{}' is no number", text);
  }
  return value;
}

Result<std::vector<Slice>> DecodeChunkReply(Ino ino, std::uint32_t index, const Reply& reply) {
  std::vector<Slice> slices;
  slices.reserve(reply.elements().size());
  for (const Reply& element : reply.elements()) {
    auto record = DecodeSlices(element.text());
    if (record && record->size() != 1) {
      record = Fail(Code::kCorrupt, "a slice record of {} bytes", element.text().size());
    }
    if (!record) {
      return std::unexpected(
          std::move(record).error().Wrap(fmt::format("inode {} chunk {}", ToInt(ino), index)));
    }
    slices.push_back(record->front());
  }
  return slices;
}

Result<Attr> DecodeAttrReply(Ino ino, const Reply& reply) {
  auto attr = DecodeAttr(reply.text());
  if (!attr) {
    return std::unexpected(std::move(attr).error().Wrap(fmt::format("inode {}", ToInt(ino))));
  }
  return attr;
}

ReadPlan::ReadPlan(const RedisKeys& keys, const ReadSet& set) : requests_(set.requests()) {
  for (const ReadSet::Request& request : requests_) {
    if (request.kind == Kind::kAttr) {
      attrs_.push_back(&request);
    } else if (request.kind == Kind::kEdge) {
      edges_[request.ino].push_back(&request);
    } else if (request.kind == Kind::kChunkIndexes && IsWide(request)) {
      wide_.push_back(request);
    } else {
      others_.push_back(&request);
    }
  }
  AddAttrs(keys);
  AddEdges(keys);
  for (const ReadSet::Request* request : others_) AddOther(keys, *request);
}

void ReadPlan::AddAttrs(const RedisKeys& keys) {
  if (attrs_.empty()) return;
  std::vector<std::string> names;
  names.reserve(attrs_.size());
  for (const ReadSet::Request* request : attrs_) names.push_back(keys.Attr(request->ino));
  std::vector<redis::Arg> args = {"MGET"};
  args.insert(args.end(), names.begin(), names.end());
  commands_.Add(args);
}

void ReadPlan::AddEdges(const RedisKeys& keys) {
  for (const auto& [parent, requests] : edges_) {
    const std::string key = keys.Dir(parent);
    std::vector<redis::Arg> args = {"HMGET", key};
    for (const ReadSet::Request* request : requests) args.emplace_back(request->name);
    commands_.Add(args);
  }
}

void ReadPlan::AddOther(const RedisKeys& keys, const ReadSet::Request& request) {
  switch (request.kind) {
    case Kind::kHasChildren:
      commands_.Add({"HLEN", keys.Dir(request.ino)});
      break;
    case Kind::kChunk:
      commands_.Add({"LRANGE", keys.Chunk(request.ino, request.first), 0, -1});
      break;
    case Kind::kChunkIndexes:
      for (std::uint64_t index = request.first; index <= request.last; ++index) {
        commands_.Add({"EXISTS", keys.Chunk(request.ino, static_cast<std::uint32_t>(index))});
      }
      break;
    case Kind::kXattr:
      commands_.Add({"HGET", keys.Xattr(request.ino), request.name});
      break;
    case Kind::kParents:
      commands_.Add({"HGETALL", keys.Parents(request.ino)});
      break;
    case Kind::kAttr:
    case Kind::kEdge:
      break;
  }
}

std::vector<std::string> ReadPlan::WatchKeys(const RedisKeys& keys) const {
  std::vector<std::string> watch;
  watch.reserve(attrs_.size() + edges_.size());
  for (const ReadSet::Request* request : attrs_) watch.push_back(keys.Attr(request->ino));
  for (const auto& [parent, requests] : edges_) {
    const bool looks_only =
        IsTrash(parent) && std::none_of(attrs_.begin(), attrs_.end(), [&](const auto* request) {
          return request->ino == parent;
        });
    if (!looks_only) watch.push_back(keys.Dir(parent));
  }
  for (const ReadSet::Request* request : others_) {
    switch (request->kind) {
      case Kind::kHasChildren:
        watch.push_back(keys.Dir(request->ino));
        break;
      case Kind::kChunk:
        watch.push_back(keys.Chunk(request->ino, request->first));
        break;
      case Kind::kXattr:
        watch.push_back(keys.Xattr(request->ino));
        break;
      case Kind::kParents:
        watch.push_back(keys.Parents(request->ino));
        break;
      case Kind::kChunkIndexes:  // a new list comes with a change of the file's attributes
      case Kind::kAttr:
      case Kind::kEdge:
        break;
    }
  }
  return watch;
}

Result<void> ReadPlan::Answer(std::string_view address, std::span<const Reply> replies) const {
  RETURN_IF_ERROR(CheckReplies(address, replies));
  if (replies.size() != commands_.size()) {
    return Fail(Code::kInternal, "{} replies to {} reads", replies.size(), commands_.size());
  }
  std::size_t next = 0;
  if (!attrs_.empty()) {
    ASSIGN_OR_RETURN(const auto values, ArrayOf(replies[next++], attrs_.size()));
    for (std::size_t i = 0; i < attrs_.size(); ++i) {
      auto& out = Target<std::optional<Attr>>(*attrs_[i]);
      out.reset();
      if (values[i].is_nil()) continue;
      ASSIGN_OR_RETURN(out, DecodeAttrReply(attrs_[i]->ino, values[i]));
    }
  }
  for (const auto& [parent, requests] : edges_) {
    ASSIGN_OR_RETURN(const auto values, ArrayOf(replies[next++], requests.size()));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      RETURN_IF_ERROR(AnswerEdge(*requests[i], values[i]));
    }
  }
  for (const ReadSet::Request* request : others_) {
    const std::size_t count = ReplyCount(*request);
    RETURN_IF_ERROR(AnswerOther(*request, replies.subspan(next, count)));
    next += count;
  }
  return {};
}

}  // namespace paddleop::volume
