#include "volume/vfs/internal/disk_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "volume/cache/metrics.h"
#include "volume/vfs/metrics.h"

namespace paddleop::volume {
namespace {

// At most as many reads are under way as fit into the memory for them.
constexpr std::size_t kMostReads = ReadBuffers::kPieces;
// More at once goes through other memory. The last page may reach beyond the span.
constexpr std::size_t kMostBytes = ReadBuffers::kMost - 4096;

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
  bool late = false;  // nobody waits, but its memory is being read into

  // Of whoever works on it.
  std::shared_ptr<BlockFile> file = {};
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
      pool_({.name = "data-disk", .threads = options.threads, .queue_limit = 1U << 16}),
      kernel_(options.kernel_reads ? KernelReads::Open(kMostReads) : nullptr) {
  const std::size_t cores = std::thread::hardware_concurrency();
  const std::size_t takers = kernel_ ? std::clamp<std::size_t>(cores / 2, 1, 4) : 0;
  for (std::size_t i = 0; i < takers; ++i) {
    threads_.emplace_back([this] {
      SetThreadName("data-read");
      TakeEnded();
    });
  }
  threads_.emplace_back([this] {
    SetThreadName("data-patience");
    SendAwayTheLate();
  });
}

DiskReader::~DiskReader() { Stop(); }

void DiskReader::Stop() {
  std::list<RequestPtr> waiting;
  std::deque<RequestPtr> queue;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    waiting = waiting_;
    queue.swap(queue_);
    changed_.notify_all();
  }
  for (const RequestPtr& request : waiting) Answer(*request, std::nullopt);
  pool_.Stop();
  {
    MutexLock lock(mutex_);
    changed_.wait(lock, [this]() REQUIRES(mutex_) { return reading_ == 0; });
  }
  if (kernel_) kernel_->End();
  threads_.clear();
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

bool DiskReader::PoolHangs() {
  MutexLock lock(mutex_);
  return running_.size() == options_.threads &&
         Steady::now() - running_.back() >= options_.patience;
}

bool DiskReader::Run(ThreadPool::Task task) {
  // What is queued behind tasks that hang would only wait there.
  if (PoolHangs()) return false;
  return pool_.TrySubmit([this, task = std::move(task)]() mutable {
    std::list<Steady::time_point> mine{Steady::now()};
    const auto place = mine.begin();
    {
      MutexLock lock(mutex_);
      running_.splice(running_.end(), mine);
    }
    task();
    MutexLock lock(mutex_);
    running_.erase(place);
  });
}

void DiskReader::HandToPool(const RequestPtr& request,
                            void (DiskReader::*task)(const RequestPtr&)) {
  if (Run([this, request, task] { (this->*task)(request); })) return;
  Answer(*request, std::nullopt);
  Leave(*request);
}

void DiskReader::OpenAndRead(const RequestPtr& request) {
  if (!Waits(*request)) return;
  if ((request->file = disk_.Find(request->block))) {
    request->span = request->file->ToRead(request->offset, request->size);
    if (request->span.size <= kMostBytes && request->file->Prepare(request->span))
      return BeginRead(request, /*may_wait=*/true);
    request->file = nullptr;
  }
  ReadAnyhow(request);
}

void DiskReader::BeginRead(const RequestPtr& request, bool may_wait) {
  bool begins = false;
  {
    MutexLock lock(mutex_);
    const bool wanted = request->waits && !stopped_;
    begins = wanted && TakeMemory(*request);
    // Memory that a disk does not give back is not waited for.
    if (wanted && !begins && late_ == 0) {
      queue_.push_back(request);
      return;
    }
  }
  if (begins) return Launch(request, may_wait);
  request->file = nullptr;
  Answer(*request, std::nullopt);
}

bool DiskReader::TakeMemory(Request& request) {
  // A direct read takes whole pages; at the block's end it goes on into the checksums.
  const std::size_t wanted =
      request.file->direct() ? (request.span.size + 4095U) & ~4095U : request.span.size;
  request.memory = buffers_.TryTake(wanted);
  if (!request.memory) return false;
  ++reading_;
  return true;
}

void DiskReader::Launch(const RequestPtr& request, bool may_wait) {
  BlockFile& file = *request->file;
  if (kernel_ && !file.in_memory()) {
    {
      MutexLock lock(mutex_);  // who takes the answer looks after this
      request->self = request;
    }
    if (kernel_->Begin(file.fd(), request->memory->bytes(), request->span.offset, request.get()))
      return;
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
  if (!Waits(*request)) return;
  std::vector<std::byte> bytes(request->size);
  if (disk_.Read(Context::Background(), request->block, request->offset, bytes)) {
    Answer(*request, bytes);
  } else {
    Answer(*request, std::nullopt);
  }
}

void DiskReader::TakeEnded() {
  std::array<KernelReads::Ended, 16> ended;
  while (const std::size_t count = kernel_->Wait(ended)) {
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
  if (good && Answer(*request, memory.subspan(skip, request->size))) {
    disk_.CountHit(request->size);
    hits_.Increment();
    hit_bytes_.Increment(request->size);
  }
  Leave(*request);
  if (!good && Waits(*request)) HandToPool(request, &DiskReader::ReadAnyhow);
}

void DiskReader::Leave(Request& request) {
  const std::shared_ptr<BlockFile> closed = std::exchange(request.file, nullptr);
  {
    MutexLock lock(mutex_);
    if (!request.memory) return;
    request.memory.reset();
    if (request.late) --late_;
    if (--reading_ == 0 && stopped_) changed_.notify_all();
  }
  LaunchQueued();
}

void DiskReader::LaunchQueued() {
  for (;;) {
    RequestPtr next;
    {
      MutexLock lock(mutex_);
      if (queue_.empty() || !TakeMemory(*queue_.front())) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    Launch(next, /*may_wait=*/false);
  }
}

bool DiskReader::Waits(const Request& request) {
  MutexLock lock(mutex_);
  return request.waits;
}

bool DiskReader::Answer(Request& request, std::optional<std::span<const std::byte>> bytes) {
  Done done;
  {
    MutexLock lock(mutex_);
    if (!request.waits) return false;
    request.waits = false;
    waiting_.erase(request.place);
    done = std::move(request.done);
  }
  done(bytes);
  return true;
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
    std::vector<RequestPtr> late;
    while (!waiting_.empty() && waiting_.front()->since <= limit) {
      RequestPtr request = std::move(waiting_.front());
      waiting_.pop_front();
      request->waits = false;
      request->late = request->memory.has_value();
      if (request->late) ++late_;
      late.push_back(std::move(request));
    }
    if (late.empty()) continue;
    std::deque<RequestPtr> still;
    for (RequestPtr& request : queue_) {
      if (request->waits) still.push_back(std::move(request));
    }
    queue_.swap(still);
    lock.unlock();
    given_up_.Increment(static_cast<double>(late.size()));
    for (const RequestPtr& request : late) std::exchange(request->done, {})(std::nullopt);
    late.clear();
    still.clear();
    lock.lock();
  }
}

}  // namespace paddleop::volume
