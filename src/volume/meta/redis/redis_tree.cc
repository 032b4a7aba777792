// A whole tree, read by several connections at once.
#include <deque>
#include <thread>

#include "base/thread_pool.h"
#include "volume/format/codec.h"
#include "volume/meta/redis/redis_engine.h"
#include "volume/meta/redis/redis_reads.h"

namespace paddleop::volume {
namespace {

using redis::Commands;
using redis::Reply;

constexpr std::size_t kReaders = 4;
// What a reader takes at a time: with the page size it bounds the memory of a step.
constexpr std::size_t kDirsPerStep = 32;
constexpr int kPageSize = 1500;
constexpr std::size_t kTreeAttrsPerCall = 500;
// Longer files are rare and mostly holes: which chunks they have is looked up.
constexpr std::uint64_t kChunksAskedForBlindly = 64;

// Reads directories, breadth first. Each reader takes some, lists them, hands on the directories it
// found, and then reads the attributes and slices of what it found itself.
class TreeReader {
 public:
  TreeReader(RedisEngine& engine, redis::Pool& pool, const Context& ctx, bool with_slices,
             TreeSink& sink)
      : engine_(engine), pool_(pool), ctx_(ctx), with_slices_(with_slices), sink_(sink) {}

  Result<void> Read(Ino root) {
    {
      const MutexLock lock(mutex_);
      queue_.push_back({.ino = root, .cursor = "0"});
    }
    std::vector<std::jthread> readers;
    readers.reserve(kReaders);
    for (std::size_t i = 0; i < kReaders; ++i) {
      readers.emplace_back([this] {
        SetThreadName("meta-scan");
        Work();
      });
    }
    for (std::jthread& reader : readers) reader.join();
    const MutexLock lock(mutex_);
    if (error_) return std::unexpected(*error_);
    return {};
  }

  // The slices of one file, or where one symbolic link leads.
  Result<void> ReadData(Ino ino, const Attr& attr) {
    std::vector<File> files;
    AddFile(files, ino, attr);
    RETURN_IF_ERROR(ReadChunks(files));
    if (!with_slices_ || attr.type != FileType::kSymlink) return {};
    return ReadTargets({ino});
  }

 private:
  struct Listing {
    Ino ino;
    std::string cursor;
  };
  struct File {
    Ino ino;
    std::uint64_t chunks;
  };

  void Work() EXCLUDES(mutex_) {
    for (;;) {
      std::vector<Listing> step;
      {
        MutexLock lock(mutex_);
        changed_.wait(
            lock, [this]() REQUIRES(mutex_) { return error_ || !queue_.empty() || working_ == 0; });
        if (error_ || queue_.empty()) return;
        while (!queue_.empty() && step.size() < kDirsPerStep) {
          step.push_back(std::move(queue_.front()));
          queue_.pop_front();
        }
        ++working_;
      }
      auto done = Step(step);
      const MutexLock lock(mutex_);
      --working_;
      if (!done && !error_) error_ = std::move(done).error();
      changed_.notify_all();
    }
  }

  Result<std::vector<Reply>> Run(const Commands& commands) {
    ASSIGN_OR_RETURN(auto replies, pool_.Run(ctx_, commands, redis::Repeat::kAlways));
    RETURN_IF_ERROR(CheckReplies(pool_.address(), replies));
    return replies;
  }

  Result<void> Step(const std::vector<Listing>& step) {
    Commands commands;
    for (const Listing& listing : step) {
      commands.Add({"HSCAN", engine_.keys().Dir(listing.ino), listing.cursor, "COUNT", kPageSize});
    }
    ASSIGN_OR_RETURN(const auto replies, Run(commands));
    std::vector<Listing> next;
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < step.size(); ++i) {
      RETURN_IF_ERROR(TakePage(step[i].ino, replies[i], next, edges));
    }
    if (!next.empty()) {
      const MutexLock lock(mutex_);
      for (Listing& listing : next) queue_.push_back(std::move(listing));
      changed_.notify_all();
    }
    return ReadNodes(edges);
  }

  Result<void> TakePage(Ino dir, const Reply& page, std::vector<Listing>& next,
                        std::vector<Edge>& edges) EXCLUDES(sink_mutex_) {
    if (page.elements().size() != 2) return Fail(Code::kCorrupt, "HSCAN answered no page");
    const std::string_view cursor = page.elements()[0].text();
    if (cursor != "0") next.push_back({.ino = dir, .cursor = std::string(cursor)});
    const auto pairs = page.elements()[1].elements();
    const MutexLock lock(sink_mutex_);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      auto edge = DecodeEdge(pairs[i + 1].text());
      if (!edge) {
        return std::unexpected(std::move(edge).error().Wrap(
            fmt::format("'{}' in directory {}", pairs[i].text(), ToInt(dir))));
      }
      RETURN_IF_ERROR(sink_.Entry(dir, pairs[i].text(), *edge));
      // Once: a page may repeat an entry, and in a damaged volume directories may form a circle.
      if (edge->type == FileType::kDirectory && listed_.insert(edge->ino).second) {
        next.push_back({.ino = edge->ino, .cursor = "0"});
      }
      edges.push_back(*edge);
    }
    return {};
  }

  Result<void> ReadNodes(const std::vector<Edge>& edges) EXCLUDES(sink_mutex_) {
    if (edges.empty()) return {};
    Commands commands;
    for (std::size_t at = 0; at < edges.size(); at += kTreeAttrsPerCall) {
      const std::size_t end = std::min(edges.size(), at + kTreeAttrsPerCall);
      std::vector<std::string> names;
      names.reserve(end - at);
      std::vector<redis::Arg> args = {"MGET"};
      for (std::size_t i = at; i < end; ++i) {
        names.push_back(engine_.keys().Attr(edges[i].ino));
        args.emplace_back(names.back());
      }
      commands.Add(args);
    }
    ASSIGN_OR_RETURN(const auto replies, Run(commands));
    std::vector<std::pair<Ino, Attr>> nodes;
    nodes.reserve(edges.size());
    std::size_t next = 0;
    for (const Reply& reply : replies) {
      for (const Reply& bytes : reply.elements()) {
        if (next >= edges.size()) return Fail(Code::kCorrupt, "MGET answered too much");
        const Ino ino = edges[next++].ino;
        if (bytes.is_nil()) continue;  // an entry that points nowhere
        ASSIGN_OR_RETURN(Attr attr, DecodeAttrReply(ino, bytes));
        nodes.emplace_back(ino, std::move(attr));
      }
    }
    std::vector<File> files;
    std::vector<Ino> links;
    {
      const MutexLock lock(sink_mutex_);
      for (const auto& [ino, attr] : nodes) {
        // The second name of a file brings nothing new.
        if (attr.nlink > 1 && attr.type != FileType::kDirectory && !linked_.insert(ino).second) {
          continue;
        }
        RETURN_IF_ERROR(sink_.Node(ino, attr));
        AddFile(files, ino, attr);
        if (with_slices_ && attr.type == FileType::kSymlink) links.push_back(ino);
      }
    }
    RETURN_IF_ERROR(ReadTargets(links));
    return ReadChunks(files);
  }

  Result<void> ReadTargets(const std::vector<Ino>& links) EXCLUDES(sink_mutex_) {
    if (links.empty()) return {};
    Commands commands;
    for (const Ino ino : links) commands.Add({"GET", engine_.keys().Symlink(ino)});
    ASSIGN_OR_RETURN(const auto replies, Run(commands));
    const MutexLock lock(sink_mutex_);
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (!replies[i].is_nil()) RETURN_IF_ERROR(sink_.Link(links[i], replies[i].text()));
    }
    return {};
  }

  void AddFile(std::vector<File>& files, Ino ino, const Attr& attr) const {
    if (!with_slices_ || attr.type != FileType::kFile || attr.length == 0) return;
    files.push_back({.ino = ino, .chunks = (attr.length - 1) / kChunkSize + 1});
  }

  Result<void> ReadChunks(const std::vector<File>& files) EXCLUDES(sink_mutex_) {
    std::vector<std::pair<Ino, std::uint32_t>> chunks;
    for (const File& file : files) {
      if (file.chunks <= kChunksAskedForBlindly) {
        for (std::uint32_t i = 0; i < file.chunks; ++i) chunks.emplace_back(file.ino, i);
        continue;
      }
      std::vector<std::uint32_t> present;
      const auto last = static_cast<std::uint32_t>(file.chunks - 1);
      RETURN_IF_ERROR(engine_.ReadOnce(ctx_, ReadSet().ChunkIndexes(file.ino, 0, last, &present)));
      for (const std::uint32_t index : present) chunks.emplace_back(file.ino, index);
    }
    if (chunks.empty()) return {};
    Commands commands;
    for (const auto& [ino, index] : chunks) {
      commands.Add({"LRANGE", engine_.keys().Chunk(ino, index), 0, -1});
    }
    ASSIGN_OR_RETURN(const auto replies, Run(commands));
    std::vector<std::vector<Slice>> slices(chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      ASSIGN_OR_RETURN(slices[i], DecodeChunkReply(chunks[i].first, chunks[i].second, replies[i]));
    }
    const MutexLock lock(sink_mutex_);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (slices[i].empty()) continue;
      RETURN_IF_ERROR(sink_.Chunk(chunks[i].first, chunks[i].second, slices[i]));
    }
    return {};
  }

  RedisEngine& engine_;
  redis::Pool& pool_;
  const Context& ctx_;
  const bool with_slices_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Listing> queue_ GUARDED_BY(mutex_);
  std::size_t working_ GUARDED_BY(mutex_) = 0;
  std::optional<Status> error_ GUARDED_BY(mutex_);

  Mutex sink_mutex_;
  TreeSink& sink_;
  std::unordered_set<Ino> listed_ GUARDED_BY(sink_mutex_);  // directories
  std::unordered_set<Ino> linked_ GUARDED_BY(sink_mutex_);  // files with several names
};

}  // namespace

Result<void> RedisEngine::ScanTree(const Context& ctx, Ino root, bool with_slices, TreeSink& sink) {
  std::optional<Attr> attr;
  RETURN_IF_ERROR(ReadOnce(ctx, ReadSet().Attr(root, &attr)));
  if (!attr) return Fail(Code::kNotFound, "there is no inode {}", ToInt(root));
  RETURN_IF_ERROR(sink.Node(root, *attr));
  TreeReader reader(*this, *calls_, ctx, with_slices, sink);
  if (attr->type == FileType::kDirectory) return reader.Read(root);
  return reader.ReadData(root, *attr);
}

}  // namespace paddleop::volume
