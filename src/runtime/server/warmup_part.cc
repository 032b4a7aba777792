#include <algorithm>
#include <atomic>

#include "base/backoff.h"
#include "base/bytes.h"
#include "base/thread_pool.h"
#include "runtime/server/parts.h"
#include "runtime/server/warmup_plan.h"

namespace paddleop::runtime {
namespace {

using volume::BlockHave;
using volume::BlockWish;

constexpr std::size_t kBatch = 256;  // blocks asked about at a time
constexpr std::size_t kMaxThreads = 64;
constexpr std::chrono::seconds kPatience{60};  // with a partition that does not answer

Result<std::string> ReadListFile(const Context& ctx, volume::Vfs& vfs, const std::string& path) {
  constexpr std::uint64_t kMaxList = 1ULL << 30;
  const auto read = [&]() -> Result<std::string> {
    ASSIGN_OR_RETURN(const auto entry, vfs.meta().Resolve(ctx, {}, volume::kRootIno, path));
    if (entry.attr.length > kMaxList) return Fail(Code::kInvalid, "is larger than 1 GiB");
    ASSIGN_OR_RETURN(const auto opened, vfs.Open(ctx, {}, entry.ino, {.read = true}));
    std::string text(entry.attr.length, '\0');
    std::uint64_t offset = 0;
    Result<void> outcome;
    while (offset < text.size()) {
      const std::span<char> rest = std::span(text).subspan(offset);
      auto n = vfs.Read(ctx, opened.handle, offset, std::as_writable_bytes(rest));
      if (!n) outcome = std::unexpected(n.error());
      if (!n || *n == 0) break;
      offset += *n;
    }
    RETURN_IF_ERROR(vfs.Release(ctx, opened.handle));
    RETURN_IF_ERROR(outcome);
    text.resize(offset);
    return text;
  };
  auto text = read();
  if (!text) return std::unexpected(std::move(text).error().Wrap("options.file " + path));
  return text;
}

// Tries again while a partition is away.
template <class Call>
auto Patiently(const Context& ctx, Call call) -> decltype(call()) {
  const Context bounded = ctx.WithTimeout(kPatience);
  Backoff backoff({.initial = std::chrono::milliseconds(200), .maximum = std::chrono::seconds(2)});
  for (;;) {
    auto result = call();
    if (result || result.error().code() != Code::kUnavailable || !backoff.Sleep(bounded)) {
      return result;
    }
  }
}

class Warmup {
 public:
  Warmup(const Context& ctx, const PartTools& tools, const JobRequest& request, JobReporter& report)
      : ctx_(ctx),
        tools_(tools),
        request_(request),
        report_(report),
        partitions_(request.part->count),
        self_(request.part->index),
        name_(PlanName(request.warmup, partitions_)),
        prefix_(PlanPrefix(request.warmup)) {}

  Result<std::string> Run() {
    RETURN_IF_ERROR(Plan());
    Show();
    const std::size_t threads =
        request_.warmup.threads > 0 ? static_cast<std::size_t>(request_.warmup.threads) : 16;
    ThreadPool pool(
        {.name = "warmup", .threads = std::min(threads, kMaxThreads), .queue_limit = kBatch});
    // Everything is asked about before anything is brought: where caches are tight, the answers
    // also make the room.
    const auto begun = std::chrono::steady_clock::now();
    for (std::size_t at = 0; at < plan_.blocks.size(); at += kBatch) {
      RETURN_IF_ERROR(AskAbout(
          std::span(plan_.blocks).subspan(at, std::min(kBatch, plan_.blocks.size() - at))));
    }
    const auto asked = std::chrono::steady_clock::now();
    if (plan_.tight && plan_.fits) room_until_ = asked + kPatience + 2 * (asked - begun);
    for (const Errand& errand : errands_) {
      RETURN_IF_ERROR(pool.Submit(ctx_, [this, &errand] {
        Bring(errand);
        Show();
      }));
    }
    pool.Drain();
    RETURN_IF_ERROR(ctx_.Check());
    return Conclude();
  }

 private:
  Result<void> Plan() {
    std::optional<std::string> list;
    if (!request_.warmup.file.empty()) {
      ASSIGN_OR_RETURN(list, ReadListFile(ctx_, tools_.volume.vfs(), request_.warmup.file));
    }
    ASSIGN_OR_RETURN(const volume::Tree tree,
                     tools_.volume.meta().LoadTree(ctx_, volume::kRootIno, true));
    std::uint64_t capacity = 0;
    for (const auto& status : tools_.volume.disk_cache()->Status()) {
      capacity += status.directory.capacity;
    }
    ASSIGN_OR_RETURN(plan_, PlanSet(tree, tools_.volume.setting().layout(), request_.warmup,
                                    std::move(list), partitions_, self_, capacity));
    for (const auto& failure : plan_.failures) {
      report_.Failed({failure.path, failure.error.message()});
    }
    return {};
  }

  Result<std::vector<BlockHave>> Check(std::uint32_t partition, std::span<const BlockWish> wishes) {
    if (partition == self_) return tools_.node.Check(ctx_, wishes, name_, plan_.tight);
    return Patiently(
        ctx_, [&] { return tools_.link.Check(ctx_, partition, wishes, name_, plan_.tight); });
  }

  // A block that some partitions lack, and who has it whole.
  struct Errand {
    const SharedBlock* shared = nullptr;
    std::vector<std::uint32_t> holders;
    std::vector<const std::pair<std::uint32_t, BlockWish>*> missing;
  };

  // Asks every partition what it has of these blocks, and notes what is missing.
  Result<void> AskAbout(std::span<const SharedBlock> batch) {
    std::vector<std::vector<BlockHave>> haves(partitions_);
    for (std::uint32_t p = 0; p < partitions_; ++p) {
      std::vector<BlockWish> wishes;
      wishes.reserve(batch.size());
      for (const SharedBlock& shared : batch) wishes.push_back(WishOf(shared, p));
      auto answer = Check(p, wishes);
      if (!answer) {
        return std::unexpected(std::move(answer).error().Wrap(fmt::format("ask partition {}", p)));
      }
      haves[p] = *std::move(answer);
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Errand errand{.shared = &batch[i], .holders = {}, .missing = {}};
      for (const auto& wish : batch[i].wishes) {
        if (haves[wish.first][i].wish) {
          tools_.node.Remember(batch[i].block, wish.first, wish.second);
          present_ += wish.second.bytes();
        } else {
          errand.missing.push_back(&wish);
        }
      }
      if (errand.missing.empty()) continue;
      for (std::uint32_t p = 0; p < partitions_; ++p) {
        if (haves[p][i].whole) errand.holders.push_back(p);
      }
      errands_.push_back(std::move(errand));
    }
    Show();
    return {};
  }

  static BlockWish WishOf(const SharedBlock& shared, std::uint32_t partition) {
    for (const auto& [who, wish] : shared.wishes) {
      if (who == partition) return wish;
    }
    return {.block = shared.block};
  }

  void Bring(const Errand& errand) {
    const SharedBlock& shared = *errand.shared;
    if (ctx_.Stopped()) return;
    std::vector<std::byte> content(shared.block.length);
    auto from = tools_.node.FetchWhole(ctx_, shared.block, errand.holders, content);
    if (from && *from == volume::BlockFrom::kStore) from_store_ += content.size();
    for (const auto* wish : errand.missing) {
      Result<void> given;
      if (from) {
        given = Give(wish->first, wish->second, content);
      } else {
        given = std::unexpected(from.error());
      }
      if (given) {
        tools_.node.Remember(shared.block, wish->first, wish->second);
        brought_ += wish->second.bytes();
      } else if (!ctx_.Stopped()) {
        failed_ += wish->second.bytes();
        Note(fmt::format("partition {}: {}", wish->first, given.error().message()));
      }
    }
  }

  Result<void> Give(std::uint32_t partition, const BlockWish& wish,
                    std::span<const std::byte> content) {
    Backoff backoff({.initial = std::chrono::milliseconds(50), .maximum = std::chrono::seconds(1)});
    for (bool again = false;; again = true) {
      auto given = GiveOnce(partition, wish, content);
      if (given || given.error().code() != Code::kNoSpace) return given;
      // Full of what an earlier order of the same files pinned: that gives way now. Where the
      // caches are tight, the other owners' questions make room, too.
      if (again && (std::chrono::steady_clock::now() >= room_until_ || !backoff.Sleep(ctx_))) {
        return given;
      }
      if (again) continue;
      if (partition == self_) {
        RETURN_IF_ERROR(tools_.node.Unpin(ctx_, prefix_, name_));
      } else {
        RETURN_IF_ERROR(tools_.link.Unpin(ctx_, partition, prefix_, name_));
      }
    }
  }

  Result<void> GiveOnce(std::uint32_t partition, const BlockWish& wish,
                        std::span<const std::byte> content) {
    if (partition != self_) {
      return Patiently(ctx_,
                       [&] { return tools_.link.Give(ctx_, partition, wish, content, name_); });
    }
    if (wish.whole) return tools_.node.Take(ctx_, wish, content, name_);
    std::vector<std::byte> ranges;
    ranges.reserve(wish.bytes());
    for (const auto& range : wish.ranges) {
      const auto piece = content.subspan(range.begin, range.end - range.begin);
      ranges.insert(ranges.end(), piece.begin(), piece.end());
    }
    return tools_.node.Take(ctx_, wish, ranges, name_);
  }

  void Note(std::string reason) {
    MutexLock lock(mutex_);
    if (first_reason_.empty()) first_reason_ = std::move(reason);
  }

  void Show() {
    const auto n = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
    const std::uint64_t behind = brought_ + present_;
    const std::uint64_t files =
        plan_.wished_bytes == 0
            ? plan_.files
            : static_cast<std::uint64_t>(static_cast<double>(plan_.files) *
                                         static_cast<double>(behind) /
                                         static_cast<double>(plan_.wished_bytes));
    report_.Progress({.total = n(plan_.files), .done = n(files)}, {.total = n(plan_.wished_bytes),
                                                                   .done = n(brought_),
                                                                   .skipped = n(present_),
                                                                   .failed = n(failed_)});
  }

  Result<std::string> Conclude() {
    Show();
    std::string reason;
    {
      MutexLock lock(mutex_);
      reason = first_reason_;
    }
    if (failed_ > 0) {
      return Fail(Code::kInternal, "{} of {} not cached; {}", FormatSize(failed_),
                  FormatSize(plan_.wished_bytes), reason);
    }
    if (!plan_.failures.empty()) {
      return Fail(Code::kNotFound, "{} paths are not in the set, the first: {}",
                  plan_.failures.size(), plan_.failures[0].path);
    }
    RETURN_IF_ERROR(tools_.node.Unpin(ctx_, prefix_, name_));
    return fmt::format("{} cached, {} were there, {} from the object store", FormatSize(brought_),
                       FormatSize(present_), FormatSize(from_store_));
  }

  const Context& ctx_;
  const PartTools& tools_;
  const JobRequest& request_;
  JobReporter& report_;
  const std::uint32_t partitions_;
  const std::uint32_t self_;
  const std::string name_;
  const std::string prefix_;
  SetPlan plan_;
  std::vector<Errand> errands_;  // into plan_
  // Until then a full cache may just not have dropped yet what it is about to.
  std::chrono::steady_clock::time_point room_until_;
  std::atomic<std::uint64_t> brought_ = 0;
  std::atomic<std::uint64_t> present_ = 0;
  std::atomic<std::uint64_t> failed_ = 0;
  std::atomic<std::uint64_t> from_store_ = 0;
  Mutex mutex_;
  std::string first_reason_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::string> RunWarmupPart(const Context& ctx, const PartTools& tools,
                                  const JobRequest& request, JobReporter& report) {
  return Warmup(ctx, tools, request, report).Run();
}

}  // namespace paddleop::runtime
