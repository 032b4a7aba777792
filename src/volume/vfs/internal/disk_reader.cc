#include "volume/vfs/internal/disk_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "volume/cache/metrics.h"
#include "volume/vfs/metrics.h"

namespace paddleop::volume {
namespace {

// At most as many reads are under way as fit into the memory for them.
constexpr std::size_t kMostReads = ReadBuffers::kPieces;
// What one directory can have of it.
constexpr std::size_t kMostPieces = kMostReads / 4 * 3;
// A disk with so many reads, or one of this age, may have no room for another. SATA has 32.
constexpr std::size_t kCalmReads = 16;
constexpr std::chrono::milliseconds kCalmAge{100};
// Who takes more at once keeps others waiting for their answers.
constexpr std::size_t kTakenAtOnce = 4;
// More at once goes through other memory. The last page may reach beyond the span.
constexpr std::size_t kMostBytes = kMostPieces * ReadBuffers::kPiece - 4096;

}  // namespace

struct DiskReader::Request {
  BlockId block;
  std::uint32_t offset;
  std::uint32_t size;
  Steady::time_point since;

  // Under mutex_.
  Done done;
  bool waits = true;
  std::list<RequestPtr>::iterator place = {};  // as long as it waits
  std::optional<ReadBuffers::Lease> memory = {};
  bool late = false;     // nobody waits, but its memory is being read into
  bool parked = false;   // it waits for a thread of a pool: nobody works on it
  bool counted = false;  // the cache counts whether it has the bytes

  // Of whoever works on it; while it is parked, under mutex_.
  std::shared_ptr<BlockFile> file = {};
  const void* directory = nullptr;  // the file's
  BlockFile::Span span = {};
  RequestPtr self = {};  // while only the kernel has it
};

DiskReader::DiskReader(DiskCache& disk, MetricsRegistry& metrics, const DiskReaderOptions& options)
    : disk_(disk),
      options_(options),
      hits_(metrics.AddCounter(cache_metrics::kHits, cache_metrics::kHitsHelp, {{"tier", "disk"}})),
      hit_bytes_(metrics.AddCounter(cache_metrics::kHitBytes, cache_metrics::kHitBytesHelp,
                                    {{"tier", "disk"}})),
      given_up_(metrics.AddCounter(kReadsGivenUp, kReadsGivenUpHelp)),
      pool_({.name = "data-disk", .threads = options.threads, .patience = options.patience}) {
  const std::size_t cores = std::thread::hardware_concurrency();
  const std::size_t fitting = std::clamp<std::size_t>(cores / 2, 1, 4);
  if (options.kernel_reads) OpenTakers(options.takers > 0 ? options.takers : fitting);
  try {
    patience_ = std::jthread([this] {
      SetThreadName("data-patience");
      SendAwayTheLate();
    });
  } catch (const std::system_error&) {  // no thread can be started now
    Stop();                             // or the takers would be waited for, for ever
    throw;
  }
}

void DiskReader::OpenTakers(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto reads = KernelReads::Open(kMostReads);
    if (!reads) return;
    KernelReads& own = *reads;
    try {
      takers_.push_back({.reads = std::move(reads), .thread = std::jthread([this, &own] {
                                                      SetThreadName("data-read");
                                                      TakeEnded(own);
                                                    })});
    } catch (const std::system_error&) {
      return;  // those that there are do it, or the pool
    }
  }
}

DiskReader::~DiskReader() { Stop(); }

void DiskReader::Stop() {
  std::list<RequestPtr> waiting;
  std::deque<RequestPtr> queue;
  std::vector<DiskThreads*> pools = {&pool_};
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    for (const auto& [directory, share] : shares_) {
      if (share.threads) pools.push_back(share.threads.get());
    }
    waiting = waiting_;
    queue.swap(queue_);
    changed_.notify_all();
  }
  for (const RequestPtr& request : waiting) Answer(*request, std::nullopt);
  for (DiskThreads* pool : pools) pool->Stop();
  {
    MutexLock lock(mutex_);
    changed_.wait(lock, [this]() REQUIRES(mutex_) { return reading_ == 0; });
  }
  for (Taker& taker : takers_) taker.reads->End();
  for (Taker& taker : takers_) {
    if (taker.thread.joinable()) taker.thread.join();
  }
  if (patience_.joinable()) patience_.join();
}

void DiskReader::Read(const BlockId& block, std::uint32_t offset, std::uint32_t size, Done done) {
  auto request = std::make_shared<Request>(
      Request{.block = block, .offset = offset, .size = size, .since = Steady::now(), .done = {}});
  {
    MutexLock lock(mutex_);
    if (stopped_) {
      lock.unlock();
      return done(std::nullopt);
    }
    request->done = std::move(done);
    request->place = waiting_.insert(waiting_.end(), request);
    if (std::exchange(rests_, false)) changed_.notify_all();
  }
  if ((request->file = disk_.FindOpen(block))) {
    request->span = request->file->ToRead(offset, size);
    if (request->span.size <= kMostBytes && request->file->VerifiesAtOnce(request->span))
      return BeginRead(request, /*may_wait=*/request->file->in_memory());
    request->file = nullptr;
  }
  HandToPool(request, &DiskReader::OpenAndRead);
}

void DiskReader::HandToPool(const RequestPtr& request, PoolTask task) {
  DiskThreads* pool = &pool_;
  bool wanted = false;
  {
    MutexLock lock(mutex_);
    wanted = request->waits && !stopped_;
    request->parked = wanted;
    if (wanted && request->file) {
      auto& threads = shares_[request->directory].threads;
      if (!threads) {
        threads = std::make_unique<DiskThreads>(DiskThreads::Options{
            .name = "data-disk-read", .threads = options_.threads, .patience = options_.patience});
      }
      pool = threads.get();
    }
  }
  if (wanted && pool->TrySubmit([this, request, task] { TakeUp(request, task); })) return;
  {
    MutexLock lock(mutex_);
    request->parked = false;
  }
  Refuse(*request);
  Leave(*request);
}

void DiskReader::TakeUp(const RequestPtr& request, PoolTask task) {
  bool waits = false;
  {
    MutexLock lock(mutex_);
    request->parked = false;
    waits = request->waits;
  }
  if (!waits) return Leave(*request);
  (this->*task)(request);
}

void DiskReader::OpenAndRead(const RequestPtr& request) {
  if ((request->file = disk_.Find(request->block))) {
    request->span = request->file->ToRead(request->offset, request->size);
    // This pool opens files of all directories: it does not wait for reads of one.
    if (request->span.size <= kMostBytes && request->file->Prepare(request->span))
      return BeginRead(request, /*may_wait=*/request->file->in_memory());
    request->file = nullptr;
  }
  ReadAnyhow(request);
}

void DiskReader::BeginRead(const RequestPtr& request, bool may_wait) {
  request->directory = request->file->directory();
  bool begins = false;
  Turns turns;
  {
    MutexLock lock(mutex_);
    const bool wanted = request->waits && !stopped_;
    begins = wanted && queue_.empty() && TakeMemory(*request);
    if (wanted && !begins) {
      queue_.push_back(request);
      turns = TakeTurns();
      // What late reads have of its directory's share may never come back.
      const bool queued = !queue_.empty() && queue_.back() == request;
      if (queued && shares_[request->directory].late > 0) {
        queue_.pop_back();
        turns.refused.push_back(request);
      }
    } else if (!wanted) {
      turns.refused.push_back(request);
    } else {
      turns.calm = IsCalm();
    }
  }
  if (!begins) return Launch(turns);
  if (may_wait || turns.calm) return Launch(request, may_wait);
  HandToPool(request, &DiskReader::LaunchHere);
}

bool DiskReader::IsCalm() {
  return late_ == 0 && reading_ <= kCalmReads &&
         (waiting_.empty() || Steady::now() - waiting_.front()->since < kCalmAge);
}

// A direct read takes whole pages; at the block's end it goes on into the checksums.
std::size_t DiskReader::MemoryFor(const Request& request) {
  return request.file->direct() ? (request.span.size + 4095U) & ~4095U : request.span.size;
}

bool DiskReader::HasShare(const Request& request) {
  return shares_[request.directory].pieces + ReadBuffers::PiecesFor(MemoryFor(request)) <=
         kMostPieces;
}

bool DiskReader::TakeMemory(Request& request) {
  if (!HasShare(request)) return false;
  const std::size_t wanted = MemoryFor(request);
  request.memory = buffers_.TryTake(wanted);
  if (!request.memory) return false;
  shares_[request.directory].pieces += ReadBuffers::PiecesFor(wanted);
  ++reading_;
  return true;
}

void DiskReader::Launch(const RequestPtr& request, bool may_wait) {
  BlockFile& file = *request->file;
  if (!takers_.empty() && !file.in_memory()) {
    KernelReads& reads = *takers_[next_taker_.fetch_add(1) % takers_.size()].reads;
    const int fd = file.fd();
    const std::span<std::byte> memory = request->memory->bytes();
    const std::uint32_t offset = request->span.offset;
    {
      MutexLock lock(mutex_);  // who takes the answer looks after this
      request->self = request;
    }
    if (reads.Begin(fd, memory, offset, request.get())) return;
    request->self = nullptr;
  }
  if (may_wait) return ReadHere(request);
  HandToPool(request, &DiskReader::ReadHere);
}

void DiskReader::ReadHere(const RequestPtr& request) {
  const std::span<std::byte> memory = request->memory->bytes();
  std::size_t got = 0;
  while (got < request->span.size && Waits(*request)) {
    const ssize_t n = ::pread(request->file->fd(), memory.data() + got, memory.size() - got,
                              static_cast<off_t>(request->span.offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
    // What is left of a direct read that ended between pages cannot be asked for.
    if (request->file->direct() && got % 4096 != 0) break;
  }
  Finish(request, static_cast<std::int64_t>(got));
}

// Ranges of the block, or what is left to try, and to say, when its file could not be read.
void DiskReader::ReadAnyhow(const RequestPtr& request) {
  {
    MutexLock lock(mutex_);
    if (!request->waits) return;
    request->counted = true;
  }
  std::vector<std::byte> bytes(request->size);
  if (disk_.Read(Context::Background(), request->block, request->offset, bytes)) {
    Answer(*request, bytes);
  } else {
    Answer(*request, std::nullopt);
  }
}

void DiskReader::TakeEnded(KernelReads& reads) {
  std::array<KernelReads::Ended, kTakenAtOnce> ended;
  while (const std::size_t count = reads.Wait(ended)) {
    for (const auto& read : std::span(ended).first(count)) {
      RequestPtr request;
      {
        MutexLock lock(mutex_);
        request = std::move(static_cast<Request*>(read.tag)->self);
      }
      Finish(request, read.result);
    }
  }
}

void DiskReader::Finish(const RequestPtr& request, std::int64_t result) {
  if (result == -EAGAIN || result == -EOPNOTSUPP) return HandToPool(request, &DiskReader::ReadHere);
  const std::span<const std::byte> memory = request->memory->bytes();
  const BlockFile::Span& span = request->span;
  const std::uint32_t skip = request->offset - span.offset;
  bool good = false;
  if (Waits(*request) && result >= static_cast<std::int64_t>(skip + request->size)) {
    const auto content = std::min<std::size_t>(static_cast<std::size_t>(result), span.size);
    good = request->file->Verify(span.offset, memory.first(content));
  }
  if (good && Waits(*request)) {
    disk_.CountHit(request->size);
    hits_.Increment();
    hit_bytes_.Increment(request->size);
    Answer(*request, memory.subspan(skip, request->size));
  }
  Leave(*request);
  if (!good && Waits(*request)) HandToPool(request, &DiskReader::ReadAnyhow);
}

void DiskReader::ReturnMemory(Request& request) {
  Share& share = shares_[request.directory];
  share.pieces -= ReadBuffers::PiecesFor(request.memory->bytes().size());
  request.memory.reset();
  if (request.late) --late_, --share.late;
  if (--reading_ == 0 && stopped_) changed_.notify_all();
}

void DiskReader::Leave(Request& request) {
  const std::shared_ptr<BlockFile> closed = std::exchange(request.file, nullptr);
  Turns turns;
  {
    MutexLock lock(mutex_);
    if (!request.memory) return;
    ReturnMemory(request);
    turns = TakeTurns();
  }
  Launch(turns);
}

DiskReader::Turns DiskReader::TakeTurns() {
  Turns turns;
  if (queue_.empty()) return turns;
  std::vector<const void*> full;  // directories; theirs wait, in order
  for (auto it = queue_.begin(); it != queue_.end();) {
    const bool waits = std::ranges::find(full, (*it)->directory) != full.end();
    if (waits || !HasShare(**it)) {
      if (!waits) full.push_back((*it)->directory);
      ++it;
      continue;
    }
    const bool begins = TakeMemory(**it);
    // With others under way there will be more, and nobody goes past who needs much.
    if (!begins && reading_ > late_) break;
    (begins ? turns.begun : turns.refused).push_back(std::move(*it));
    it = queue_.erase(it);
  }
  turns.calm = IsCalm();
  return turns;
}

void DiskReader::Launch(const Turns& turns) {
  for (const RequestPtr& request : turns.refused) {
    request->file = nullptr;
    Refuse(*request);
  }
  for (const RequestPtr& request : turns.begun) {
    if (turns.calm) {
      Launch(request, /*may_wait=*/false);
    } else {
      HandToPool(request, &DiskReader::LaunchHere);
    }
  }
}

bool DiskReader::Waits(const Request& request) {
  MutexLock lock(mutex_);
  return request.waits;
}

DiskReader::Done DiskReader::TakeDone(Request& request) {
  if (!request.waits) return nullptr;
  request.waits = false;
  waiting_.erase(request.place);
  return std::move(request.done);
}

void DiskReader::Answer(Request& request, std::optional<std::span<const std::byte>> bytes) {
  Done done;
  {
    MutexLock lock(mutex_);
    done = TakeDone(request);
  }
  if (done) done(bytes);
}

void DiskReader::Refuse(Request& request) {
  Done done;
  bool missed = false;
  {
    MutexLock lock(mutex_);
    done = TakeDone(request);
    missed = !stopped_;
  }
  if (!done) return;
  if (missed) disk_.CountMiss(request.size);
  done(std::nullopt);
}

void DiskReader::SendAwayTheLate() {
  const auto interval = options_.patience / 10;
  MutexLock lock(mutex_);
  while (!stopped_) {
    if (waiting_.empty()) {
      rests_ = true;
      changed_.wait(lock, [this]() REQUIRES(mutex_) { return stopped_ || !rests_; });
    } else {
      changed_.wait_for(lock, interval, [this]() REQUIRES(mutex_) { return stopped_; });
    }
    const auto limit = Steady::now() - options_.patience;
    std::vector<RequestPtr> late, missed;
    std::vector<std::shared_ptr<BlockFile>> closed;
    while (!waiting_.empty() && waiting_.front()->since <= limit) {
      RequestPtr request = std::move(waiting_.front());
      waiting_.pop_front();
      request->waits = false;
      if (request->parked) {
        // What keeps its thread may be another's disk: its own is not to be blamed for that, nor
        // to do without the memory.
        closed.push_back(std::move(request->file));
        if (request->memory) ReturnMemory(*request);
      } else if (request->memory) {
        request->late = true;
        ++late_, ++shares_[request->directory].late;
      }
      if (!request->counted) missed.push_back(request);
      late.push_back(std::move(request));
    }
    if (late.empty()) continue;
    std::deque<RequestPtr> still;
    for (RequestPtr& request : queue_) {
      if (request->waits) still.push_back(std::move(request));
    }
    queue_.swap(still);
    const Turns turns = TakeTurns();  // of those behind them
    lock.unlock();
    given_up_.Increment(static_cast<double>(late.size()));
    for (const RequestPtr& request : missed) disk_.CountMiss(request->size);
    for (const RequestPtr& request : late) std::exchange(request->done, {})(std::nullopt);
    late.clear();
    missed.clear();
    still.clear();
    closed.clear();
    Launch(turns);
    lock.lock();
  }
}

}  // namespace paddleop::volume
