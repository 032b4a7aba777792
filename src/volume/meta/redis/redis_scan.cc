// Listings: directories, hashes, and the chunk lists of the whole database.
#include <algorithm>
#include <map>
#include <set>

#include "volume/format/codec.h"
#include "volume/meta/redis/redis_engine.h"
#include "volume/meta/redis/redis_reads.h"

namespace paddleop::volume {
namespace {

using redis::Commands;
using redis::Reply;

constexpr int kScanCount = 5000;
constexpr std::size_t kAttrsPerCall = 1000;
// Ranges of chunk indexes wider than this (32 TiB) are found by looking at every key. To ask for
// each index costs about as much as to look at a key, and volumes have millions of keys.
constexpr std::uint64_t kScannedRange = 500'000;
// Directories up to this size are listed in the order of their names, from a complete listing for
// each page; larger ones in the order of Redis, whose cursor survives changes of the directory.
constexpr std::int64_t kSortedUpTo = 8192;
// Kinds of cursors.
constexpr char kAfterName = 'n';
constexpr char kRedisCursor = 'c';

struct ScanPage {
  std::string cursor;
  Reply reply;  // the page as it came
  std::span<const Reply> items() const { return reply.elements()[1].elements(); }
};

Result<ScanPage> PageOf(Reply reply) {
  if (reply.elements().size() != 2) return Fail(Code::kCorrupt, "a scan answered no page");
  std::string cursor(reply.elements()[0].text());
  return ScanPage{.cursor = std::move(cursor), .reply = std::move(reply)};
}

Result<std::vector<DirEntry>> EntriesOf(Ino ino, const ScanPage& page) {
  std::vector<DirEntry> entries;
  const auto pairs = page.items();
  entries.reserve(pairs.size() / 2);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    auto edge = DecodeEdge(pairs[i + 1].text());
    if (!edge) {
      return std::unexpected(std::move(edge).error().Wrap(
          fmt::format("'{}' in directory {}", pairs[i].text(), ToInt(ino))));
    }
    entries.push_back(
        {.name = std::string(pairs[i].text()), .ino = edge->ino, .type = edge->type, .attr = {}});
  }
  return entries;
}

void SortUnique(std::vector<DirEntry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
  const auto same = [](const DirEntry& a, const DirEntry& b) { return a.name == b.name; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
}

// The first `limit` of the entries behind `after`.
DirPage CutPage(std::vector<DirEntry> entries, std::string_view after, std::size_t limit) {
  SortUnique(entries);
  const auto first = std::find_if(entries.begin(), entries.end(), [&](const DirEntry& entry) {
    return after.empty() || entry.name > after;
  });
  entries.erase(entries.begin(), first);
  DirPage page;
  if (entries.size() > limit) {
    entries.resize(limit);
    page.next = kAfterName + entries.back().name;
  }
  page.entries = std::move(entries);
  return page;
}

}  // namespace

Result<void> RedisEngine::ScanHash(const Context& ctx, const std::string& key, const FieldFn& fn) {
  std::string cursor = "0";
  do {
    ASSIGN_OR_RETURN(Reply reply, Call(ctx, {"HSCAN", key, cursor, "COUNT", kScanCount}));
    ASSIGN_OR_RETURN(const ScanPage page, PageOf(std::move(reply)));
    const auto pairs = page.items();
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      RETURN_IF_ERROR(fn(pairs[i].text(), pairs[i + 1].text()));
    }
    cursor = page.cursor;
  } while (cursor != "0");
  return {};
}

Result<std::vector<DirEntry>> RedisEngine::ListAll(const Context& ctx, Ino ino) {
  std::vector<DirEntry> entries;
  RETURN_IF_ERROR(ScanHash(
      ctx, keys_.Dir(ino), [&](std::string_view name, std::string_view value) -> Result<void> {
        auto edge = DecodeEdge(value);
        if (!edge) return std::unexpected(std::move(edge).error());
        entries.push_back(
            {.name = std::string(name), .ino = edge->ino, .type = edge->type, .attr = {}});
        return {};
      }));
  return entries;
}

Result<void> RedisEngine::AddAttrs(const Context& ctx, std::vector<DirEntry>& entries) {
  if (entries.empty()) return {};
  Commands commands;
  for (std::size_t at = 0; at < entries.size(); at += kAttrsPerCall) {
    const std::size_t end = std::min(entries.size(), at + kAttrsPerCall);
    std::vector<std::string> names;
    names.reserve(end - at);
    std::vector<redis::Arg> args = {"MGET"};
    for (std::size_t i = at; i < end; ++i) {
      names.push_back(keys_.Attr(entries[i].ino));
      args.emplace_back(names.back());
    }
    commands.Add(args);
  }
  ASSIGN_OR_RETURN(const auto replies, Run(ctx, commands));
  std::size_t next = 0;
  for (const Reply& reply : replies) {
    for (const Reply& bytes : reply.elements()) {
      if (next >= entries.size()) return Fail(Code::kCorrupt, "MGET answered too much");
      DirEntry& entry = entries[next++];
      if (bytes.is_nil()) continue;
      ASSIGN_OR_RETURN(entry.attr, DecodeAttrReply(entry.ino, bytes));
    }
  }
  return {};
}

Result<DirPage> RedisEngine::ReadDir(const Context& ctx, Ino ino, std::string_view cursor,
                                     std::size_t limit, bool with_attrs) {
  limit = std::max<std::size_t>(limit, 1);
  DirPage result;
  if (cursor.starts_with(kAfterName)) {
    ASSIGN_OR_RETURN(auto entries, ListAll(ctx, ino));
    result = CutPage(std::move(entries), cursor.substr(1), limit);
  } else {
    std::string at(cursor.empty() ? "0" : cursor.substr(1));
    if (!cursor.empty() && !cursor.starts_with(kRedisCursor)) {
      return Fail(Code::kInvalid, "'{}' is no cursor of a directory", cursor);
    }
    const std::string key = keys_.Dir(ino);
    do {
      Commands commands;
      commands.Add({"HLEN", key});
      commands.Add({"HSCAN", key, at, "COUNT", limit});
      ASSIGN_OR_RETURN(auto replies, Run(ctx, commands));
      ASSIGN_OR_RETURN(const std::int64_t size, replies[0].ToInteger());
      ASSIGN_OR_RETURN(const ScanPage page, PageOf(std::move(replies[1])));
      ASSIGN_OR_RETURN(auto entries, EntriesOf(ino, page));
      if (cursor.empty() && at == "0" && page.cursor == "0") {
        result = CutPage(std::move(entries), "", limit);
        break;
      }
      if (cursor.empty() && at == "0" && size <= kSortedUpTo) {
        ASSIGN_OR_RETURN(auto all, ListAll(ctx, ino));
        result = CutPage(std::move(all), "", limit);
        break;
      }
      SortUnique(entries);
      result.entries = std::move(entries);
      at = page.cursor;
      result.next = at == "0" ? "" : kRedisCursor + at;
    } while (result.entries.empty() && at != "0");
  }
  if (with_attrs) RETURN_IF_ERROR(AddAttrs(ctx, result.entries));
  return result;
}

Result<std::vector<std::string>> RedisEngine::ListXattr(const Context& ctx, Ino ino) {
  ASSIGN_OR_RETURN(const Reply reply, Call(ctx, {"HKEYS", keys_.Xattr(ino)}));
  std::vector<std::string> names;
  for (const Reply& name : reply.elements()) names.emplace_back(name.text());
  std::sort(names.begin(), names.end());
  return names;
}

Result<void> RedisEngine::FindChunkIndexes(const Context& ctx, const ReadSet::Request& request) {
  if (request.last - request.first >= kScannedRange) return ScanChunkIndexes(ctx, request);
  std::vector<std::uint32_t> found;
  for (std::uint64_t first = request.first; first <= request.last; first += kWideRange) {
    const std::uint64_t last = std::min<std::uint64_t>(request.last, first + kWideRange - 1);
    std::vector<std::uint32_t> part;
    RETURN_IF_ERROR(
        ReadOnce(ctx, ReadSet().ChunkIndexes(request.ino, static_cast<std::uint32_t>(first),
                                             static_cast<std::uint32_t>(last), &part)));
    found.insert(found.end(), part.begin(), part.end());
  }
  *static_cast<std::vector<std::uint32_t>*>(request.target) = std::move(found);
  return {};
}

Result<void> RedisEngine::ScanChunkIndexes(const Context& ctx, const ReadSet::Request& request) {
  std::set<std::uint32_t> found;
  const std::string pattern = fmt::format("{}c{}_*", keys_.prefix(), ToInt(request.ino));
  std::string cursor = "0";
  do {
    ASSIGN_OR_RETURN(Reply reply,
                     Call(ctx, {"SCAN", cursor, "MATCH", pattern, "COUNT", kScanCount}));
    ASSIGN_OR_RETURN(const ScanPage page, PageOf(std::move(reply)));
    for (const Reply& key : page.items()) {
      auto chunk = ParseChunkKey(key.text().substr(keys_.prefix().size()));
      if (!chunk || chunk->second < request.first || chunk->second > request.last) continue;
      found.insert(chunk->second);
    }
    cursor = page.cursor;
  } while (cursor != "0");
  *static_cast<std::vector<std::uint32_t>*>(request.target) = {found.begin(), found.end()};
  return {};
}

Result<void> RedisEngine::ScanChunks(
    const Context& ctx,
    const std::function<Result<void>(Ino, std::uint32_t, std::vector<Slice>)>& fn) {
  const std::string pattern = keys_.prefix() + "c*_*";
  // A scan may return a key twice, and counting a reference twice would hide that one is missing.
  std::map<std::uint32_t, std::unordered_set<Ino>> seen;
  std::vector<std::pair<Ino, std::uint32_t>> chunks;  // whose lists come with the next page
  std::string cursor = "0";
  bool more = true;
  while (more || !chunks.empty()) {
    Commands commands;
    for (const auto& [ino, index] : chunks) {
      commands.Add({"LRANGE", keys_.Chunk(ino, index), 0, -1});
    }
    if (more) commands.Add({"SCAN", cursor, "MATCH", pattern, "COUNT", kScanCount});
    ASSIGN_OR_RETURN(auto replies, Run(ctx, commands));
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const auto [ino, index] = chunks[i];
      ASSIGN_OR_RETURN(auto slices, DecodeChunkReply(ino, index, replies[i]));
      if (slices.empty()) continue;  // removed meanwhile
      RETURN_IF_ERROR(fn(ino, index, std::move(slices)));
    }
    chunks.clear();
    if (!more) break;
    ASSIGN_OR_RETURN(const ScanPage page, PageOf(std::move(replies.back())));
    for (const Reply& key : page.items()) {
      // Objects of a volume may lie in the same database, and their names may match.
      auto chunk = ParseChunkKey(key.text().substr(keys_.prefix().size()));
      if (chunk && seen[chunk->second].insert(chunk->first).second) chunks.push_back(*chunk);
    }
    cursor = page.cursor;
    more = cursor != "0";
  }
  return {};
}

Result<void> RedisEngine::ScanSliceRefs(
    const Context& ctx, const std::function<Result<void>(SliceKey, std::int64_t)>& fn) {
  std::set<SliceKey> seen;
  return ScanHash(ctx, keys_.SliceRef(),
                  [&](std::string_view field, std::string_view value) -> Result<void> {
                    auto slice = ParseSliceRefField(field);
                    if (!slice) return std::unexpected(std::move(slice).error());
                    auto count = Reply::OfString(std::string(value)).ToInteger();
                    if (!count) return std::unexpected(std::move(count).error());
                    if (!seen.insert(*slice).second) return {};
                    return fn(*slice, *count + 1);
                  });
}

}  // namespace paddleop::volume
