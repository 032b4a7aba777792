// A whole tree, read by several connections at once.
#include <algorithm>
#include <deque>
#include <span>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/clock.h"
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
// How many of those go into one round trip.
constexpr std::size_t kAttrCallsPerTrip = 20;
// Where others rename meanwhile: how often directories are listed again, and names looked up.
constexpr int kMostRounds = 5;
constexpr int kMostLooks = 10;
// A directory that was changed this recently may be changed again without showing it: clients leave
// its times alone for 100 ms.
constexpr std::int64_t kUnmarkedNanos = 120'000'000;
constexpr std::int64_t kSecondNanos = 1'000'000'000;
// Longer files are rare and mostly holes: which chunks they have is looked up.
constexpr std::uint64_t kChunksAskedForBlindly = 64;

// Times that people make up stay in range, with room for differences.
std::int64_t NanosOf(const Timestamp& time) {
  constexpr std::int64_t kMost = 4'000'000'000;
  return std::clamp(time.seconds, -kMost, kMost) * kSecondNanos + time.nanos;
}

std::int64_t WallNanos() {
  const auto now = Clock::System().WallNow().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Reads directories, breadth first. Each reader takes some, lists them, reads the attributes of
// what it found, hands on the directories among that, and then reads the slices of the files
// itself.
//
// Others may rename meanwhile. What was moved from a directory that was not listed yet to one that
// was would be in neither. So at the end the directories' attributes are read again, and those that
// have changed since they were listed are listed again, until none has.
class TreeReader {
 public:
  TreeReader(RedisEngine& engine, redis::Pool& pool, const Context& ctx, bool with_slices,
             TreeSink& sink)
      : engine_(engine), pool_(pool), ctx_(ctx), with_slices_(with_slices), sink_(sink) {}

  Result<void> Read(Ino root, const Attr& attr) {
    {
      const MutexLock lock(sink_mutex_);
      listed_.emplace(root, Listed(attr));
    }
    RETURN_IF_ERROR(List({root}));
    for (int round = 0; round < kMostRounds; ++round) {
      ASSIGN_OR_RETURN(const auto changed, FindChanged());
      if (changed.empty()) break;
      RETURN_IF_ERROR(List(changed));
    }
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
  struct Found {
    Ino directory;
    std::string_view name;  // in the page that is being read
    Edge edge;
  };
  // What tells whether a directory was changed since it was listed.
  struct Listed {
    explicit Listed(const Attr& attr)
        : mtime(attr.mtime), ctime(attr.ctime), nlink(attr.nlink), since(WallNanos()) {}
    bool Shows(const Attr& now) const {
      return mtime != now.mtime || ctime != now.ctime || nlink != now.nlink;
    }
    // True if a change after the listing began need not show.
    bool MayHide(const Attr& now) const {
      const std::int64_t age = since - NanosOf(now.mtime);
      return age < kUnmarkedNanos && age > -kSecondNanos;
    }

    Timestamp mtime;
    Timestamp ctime;
    std::uint32_t nlink;
    std::int64_t since;
  };

  // Lists these directories and all that is found below them.
  Result<void> List(const std::vector<Ino>& directories) EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      for (const Ino ino : directories) queue_.push_back({.ino = ino, .cursor = "0"});
    }
    {
      std::vector<std::jthread> readers;
      readers.reserve(kReaders);
      for (std::size_t i = 0; i < kReaders; ++i) {
        readers.emplace_back([this] {
          SetThreadName("meta-scan");
          Work();
        });
      }
    }
    const MutexLock lock(mutex_);
    if (error_) return std::unexpected(*error_);
    return {};
  }

  // Directories that were, or may have been, changed since they were listed. Their names count no
  // more.
  Result<std::vector<Ino>> FindChanged() EXCLUDES(sink_mutex_) {
    std::vector<Ino> all;
    {
      const MutexLock lock(sink_mutex_);
      for (const auto& [ino, listed] : listed_) all.push_back(ino);
    }
    std::vector<std::pair<Ino, Attr>> changed;
    std::int64_t newest = 0;
    constexpr std::size_t kPerTrip = kTreeAttrsPerCall * kAttrCallsPerTrip;
    for (std::size_t at = 0; at < all.size(); at += kPerTrip) {
      const auto part = std::span(all).subspan(at, std::min(kPerTrip, all.size() - at));
      ASSIGN_OR_RETURN(const auto attrs, ReadAttrs(part));
      const MutexLock lock(sink_mutex_);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const Listed& before = listed_.at(part[i]);
        // What was removed has no name any more.
        if (!attrs[i]) continue;
        const bool hides = before.MayHide(*attrs[i]);
        if (!hides && !before.Shows(*attrs[i])) continue;
        if (hides) newest = std::max(newest, NanosOf(attrs[i]->mtime));
        changed.emplace_back(part[i], *attrs[i]);
      }
    }
    // From then on every change shows.
    const auto wait = std::chrono::nanoseconds(newest + kUnmarkedNanos - WallNanos());
    if (!changed.empty() && wait.count() > 0 && !Clock::System().SleepFor(ctx_, wait))
      RETURN_IF_ERROR(ctx_.Check());

    std::vector<Ino> again;
    const MutexLock lock(sink_mutex_);
    for (const auto& [ino, attr] : changed) {
      RETURN_IF_ERROR(sink_.Again(ino, attr));
      listed_.insert_or_assign(ino, Listed(attr));
      again.push_back(ino);
    }
    std::sort(read_.begin(), read_.end());
    known_ = read_.size();
    found_again_.clear();
    return again;
  }

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
    std::vector<Found> found;
    for (std::size_t i = 0; i < step.size(); ++i) {
      RETURN_IF_ERROR(TakePage(step[i].ino, replies[i], next, found));
    }
    HandOn(std::move(next));
    return ReadNodes(std::move(found));
  }

  void HandOn(std::vector<Listing> listings) EXCLUDES(mutex_) {
    if (listings.empty()) return;
    const MutexLock lock(mutex_);
    for (Listing& listing : listings) queue_.push_back(std::move(listing));
    changed_.notify_all();
  }

  Result<void> TakePage(Ino dir, const Reply& page, std::vector<Listing>& next,
                        std::vector<Found>& found) EXCLUDES(sink_mutex_) {
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
      if (!IsKnown(edge->ino))
        found.push_back({.directory = dir, .name = pairs[i].text(), .edge = *edge});
    }
    return {};
  }

  // True if a name that is found again leads to what was read before.
  bool IsKnown(Ino ino) REQUIRES(sink_mutex_) {
    if (known_ == 0) return false;
    const auto end = read_.begin() + static_cast<std::ptrdiff_t>(known_);
    return std::binary_search(read_.begin(), end, ino) || !found_again_.insert(ino).second;
  }

  // One for each inode; nothing where there is none.
  Result<std::vector<std::optional<Attr>>> ReadAttrs(std::span<const Ino> inodes) {
    Commands commands;
    for (std::size_t at = 0; at < inodes.size(); at += kTreeAttrsPerCall) {
      const std::size_t end = std::min(inodes.size(), at + kTreeAttrsPerCall);
      std::vector<std::string> names;
      names.reserve(end - at);
      std::vector<redis::Arg> args = {"MGET"};
      for (std::size_t i = at; i < end; ++i) {
        names.push_back(engine_.keys().Attr(inodes[i]));
        args.emplace_back(names.back());
      }
      commands.Add(args);
    }
    ASSIGN_OR_RETURN(const auto replies, Run(commands));
    std::vector<std::optional<Attr>> attrs;
    attrs.reserve(inodes.size());
    for (const Reply& reply : replies) {
      for (const Reply& bytes : reply.elements()) {
        if (attrs.size() >= inodes.size()) return Fail(Code::kCorrupt, "MGET answered too much");
        auto& attr = attrs.emplace_back();
        if (bytes.is_nil()) continue;
        ASSIGN_OR_RETURN(attr, DecodeAttrReply(inodes[attrs.size() - 1], bytes));
      }
    }
    if (attrs.size() != inodes.size()) return Fail(Code::kCorrupt, "MGET answered too little");
    return attrs;
  }

  // Looks names up again whose inodes are not there: they may have been replaced since the page was
  // read. Those that still lead to the same are entries that point nowhere.
  Result<void> LookAgain(std::vector<Found>& found, std::vector<std::optional<Attr>>& attrs)
      EXCLUDES(sink_mutex_) {
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!attrs[i]) missing.push_back(i);
    }
    for (int look = 0; look < kMostLooks && !missing.empty(); ++look) {
      Commands commands;
      for (const std::size_t i : missing) {
        commands.Add({"HGET", engine_.keys().Dir(found[i].directory), found[i].name});
      }
      ASSIGN_OR_RETURN(const auto replies, Run(commands));
      std::vector<std::size_t> replaced;
      std::vector<Ino> inodes;
      for (std::size_t k = 0; k < missing.size(); ++k) {
        Found& each = found[missing[k]];
        if (replies[k].is_nil()) continue;
        ASSIGN_OR_RETURN(const Edge edge, DecodeEdge(replies[k].text()));
        if (edge.ino == each.edge.ino) continue;
        each.edge = edge;
        const MutexLock lock(sink_mutex_);
        RETURN_IF_ERROR(sink_.Entry(each.directory, each.name, edge));
        if (IsKnown(edge.ino)) continue;
        replaced.push_back(missing[k]);
        inodes.push_back(edge.ino);
      }
      missing.clear();
      if (replaced.empty()) break;
      ASSIGN_OR_RETURN(const auto now, ReadAttrs(inodes));
      for (std::size_t k = 0; k < replaced.size(); ++k) {
        attrs[replaced[k]] = now[k];
        if (!now[k]) missing.push_back(replaced[k]);
      }
    }
    return {};
  }

  Result<void> ReadNodes(std::vector<Found> found) EXCLUDES(sink_mutex_) {
    if (found.empty()) return {};
    std::vector<Ino> inodes;
    inodes.reserve(found.size());
    for (const Found& each : found) inodes.push_back(each.edge.ino);
    ASSIGN_OR_RETURN(auto attrs, ReadAttrs(inodes));
    RETURN_IF_ERROR(LookAgain(found, attrs));
    std::vector<File> files;
    std::vector<Ino> links;
    std::vector<Listing> directories;
    {
      const MutexLock lock(sink_mutex_);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const Ino ino = found[i].edge.ino;
        if (!attrs[i]) continue;
        const Attr& attr = *attrs[i];
        // The second name of a file brings nothing new.
        if (attr.nlink > 1 && attr.type != FileType::kDirectory && !linked_.insert(ino).second) {
          continue;
        }
        RETURN_IF_ERROR(sink_.Node(ino, attr));
        read_.push_back(ino);
        // Once: a page may repeat an entry, and in a damaged volume directories may form a circle.
        if (found[i].edge.type == FileType::kDirectory &&
            listed_.emplace(ino, Listed(attr)).second) {
          directories.push_back({.ino = ino, .cursor = "0"});
        }
        AddFile(files, ino, attr);
        if (with_slices_ && attr.type == FileType::kSymlink) links.push_back(ino);
      }
    }
    HandOn(std::move(directories));
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
  std::unordered_map<Ino, Listed> listed_ GUARDED_BY(sink_mutex_);  // directories
  std::unordered_set<Ino> linked_ GUARDED_BY(sink_mutex_);          // files with several names
  std::vector<Ino> read_ GUARDED_BY(sink_mutex_);  // given to the sink, the first known_ sorted
  std::size_t known_ GUARDED_BY(sink_mutex_) = 0;
  std::unordered_set<Ino> found_again_ GUARDED_BY(sink_mutex_);  // in this round
};

}  // namespace

Result<void> RedisEngine::ScanTree(const Context& ctx, Ino root, bool with_slices, TreeSink& sink) {
  std::optional<Attr> attr;
  RETURN_IF_ERROR(ReadOnce(ctx, ReadSet().Attr(root, &attr)));
  if (!attr) return Fail(Code::kNotFound, "there is no inode {}", ToInt(root));
  RETURN_IF_ERROR(sink.Node(root, *attr));
  TreeReader reader(*this, *calls_, ctx, with_slices, sink);
  if (attr->type == FileType::kDirectory) return reader.Read(root, *attr);
  return reader.ReadData(root, *attr);
}

}  // namespace paddleop::volume
